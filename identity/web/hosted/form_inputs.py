"""The fields of forms and the members of profiles as inputs of pages, with labels and errors of the theme.

A text of the theme for the key of a field labels it, else its name does. A text for an option, such as `red`, replaces
the option; `confirm.` and the key label the repeated value.
"""

from __future__ import annotations

import dataclasses
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.forms import field_keys, field_values
from identity.domain.users.self_registration import RegistrationField
from identity.errors import FieldError
from identity.web.hosted.fields import Field
from identity.web.hosted.page_theme import PageTheme

_KINDS: Final = {"date": "date", "email": "email"}
"""Type of a field with the control `text` -> type of its input."""

_PLAIN: Final = ("text", "off")
_LANGUAGES: Final = frozenset({"registration.preferredLanguages", "user.preferredLanguages"})
_TIMEZONES: Final = frozenset({"registration.timezone", "user.timezone"})
INPUTS: Final[Mapping[str, tuple[str, str]]] = {
    "birthDate": ("date", "bday"),
    "email": ("email", "email"),
    "firstName": ("text", "given-name"),
    "fullName": ("text", "name"),
    "lastName": ("text", "family-name"),
    "middleName": ("text", "additional-name"),
    "mobilePhone": ("tel", "tel"),
    "parentEmail": ("email", "off"),
    "phoneNumber": ("tel", "tel"),
    "preferredLanguages": ("select", "language"),
    "username": ("text", "username"),
}
"""Member of a user -> type of its input, and its `autocomplete` attribute."""

LANGUAGES: Final = (
    ("ar", "العربية"), ("bg", "Български"), ("cs", "Čeština"), ("da", "Dansk"), ("de", "Deutsch"), ("el", "Ελληνικά"),
    ("en", "English"), ("es", "Español"), ("et", "Eesti"), ("fi", "Suomi"), ("fr", "Français"), ("he", "עברית"),
    ("hi", "हिन्दी"), ("hr", "Hrvatski"), ("hu", "Magyar"), ("id", "Bahasa Indonesia"), ("it", "Italiano"),
    ("ja", "日本語"), ("ko", "한국어"), ("lt", "Lietuvių"), ("lv", "Latviešu"), ("nl", "Nederlands"), ("no", "Norsk"),
    ("pl", "Polski"), ("pt", "Português"), ("pt_BR", "Português (Brasil)"), ("ro", "Română"), ("ru", "Русский"),
    ("sk", "Slovenčina"), ("sl", "Slovenščina"), ("sv", "Svenska"), ("th", "ไทย"), ("tr", "Türkçe"),
    ("uk", "Українська"), ("vi", "Tiếng Việt"), ("zh", "中文"),
)  # fmt: skip


def inputs(
    fields: Iterable[Document], answers: Mapping[str, Any], theme: PageTheme, password_hints: tuple[str, ...] = ()
) -> list[Field]:
    """Return the inputs of fields with their answers; passwords are never returned to the browser."""
    found = []
    for field in fields:
        shown = _input(field, answers.get(field["key"], ""), theme)
        if field["key"] == field_keys.PASSWORD:
            shown = dataclasses.replace(shown, hints=password_hints)
        found.append(shown)
        if field["confirm"]:
            found.append(_repeated(field, shown, theme))
    return found


def with_optional_password(shown: Iterable[Field]) -> list[Field]:
    """Return the inputs of a page on which a blank password leaves the stored one unchanged."""
    names = {field_keys.PASSWORD, field_values.CONFIRM + field_keys.PASSWORD}
    return [dataclasses.replace(field, is_required=False) if field.name in names else field for field in shown]


def localized(errors: Iterable[FieldError], theme: PageTheme) -> list[FieldError]:
    """Return errors of fields; one without a message gets the text for its kind."""
    return [error if error.message else dataclasses.replace(error, message=_text(error, theme)) for error in errors]


def _text(error: FieldError, theme: PageTheme) -> str:
    kind, _, _ = error.code.partition("]")
    return theme.find(f"{kind}]form", theme["[missing]form" if kind == "[blank" else "[invalid]form"])


def _input(field: Document, answer: Any, theme: PageTheme) -> Field:
    key, kind = field["key"], _kind(field)
    is_text = isinstance(answer, str)
    choices = tuple(_choices(field, theme))
    if is_text and answer and kind in {"radio", "select"} and answer not in dict(choices):
        choices = ((answer, answer), *choices)
    return Field(
        key,
        _label(field, theme),
        kind,
        _autocomplete(field, kind),
        answer if is_text and kind != "password" else "",
        is_required=field["required"],
        choices=choices,
        selected=() if is_text else tuple(answer),
    )


def _repeated(field: Document, shown: Field, theme: PageTheme) -> Field:
    """Return the input in which the value is repeated."""
    name = field_values.CONFIRM + field["key"]
    is_password = field["key"] == field_keys.PASSWORD
    default = theme["register.confirm"] if is_password else theme["form.confirm"].replace("{0}", shown.label)
    return dataclasses.replace(shown, name=name, label=theme.find(name, default), value="", hints=())


def _kind(field: Document) -> str:
    """Return the kind of the input of a control."""
    control = field["control"]
    if control == "checkbox":
        return "checkboxes" if field["options"] else "checkbox"
    if control == "text":
        return _KINDS.get(field["type"]) or _profile_input(field)[0]
    return str(control)


def _label(field: Document, theme: PageTheme) -> str:
    key = field["key"]
    default = theme["register.password"] if key == field_keys.PASSWORD else field["name"]
    return theme.find(key, default)


def _autocomplete(field: Document, kind: str) -> str:
    if kind == "password":
        return "new-password"
    return _profile_input(field)[1]


def _profile_input(field: Document) -> tuple[str, str]:
    """Return the type and the `autocomplete` attribute of the input of a predefined key."""
    owner, _, member = field["key"].partition(".")
    return INPUTS.get(member, _PLAIN) if owner == "user" else _PLAIN


def _choices(field: Document, theme: PageTheme) -> Sequence[tuple[str, str]]:
    options = field["options"]
    if field["key"] in _LANGUAGES:
        languages = dict(LANGUAGES)
        return [(option, languages.get(option, option)) for option in options or languages]
    if field["key"] in _TIMEZONES and not options:
        return [(name, name.replace("_", " ")) for name in sorted(zoneinfo.available_timezones())]
    return [(option, theme.find(option, option)) for option in options]


def profile_field(field: RegistrationField, value: str, theme: PageTheme) -> Field:
    """Return the form field of a registration field; a language that is not listed is added to the choices."""
    kind, autocomplete = INPUTS[field.member]
    choices: tuple[tuple[str, str], ...] = LANGUAGES if kind == "select" else ()
    if choices and value and value not in dict(choices):
        choices = ((value, value), *choices)
    return Field(
        field.name, theme[f"user.{field.member}"], kind, autocomplete, value, field.is_required, choices=choices
    )
