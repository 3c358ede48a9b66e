"""Forms of labeled fields, also those of registration forms and profiles, with the errors of the last submission.

All errors are listed at the top of the page, each with a link to its field, and again at the field, so that screen
readers announce them in both places.

A text of the theme for the key of a form's field labels it, else its name does. A text for an option, such as `red`,
replaces the option; `confirm.` and the key label the repeated value.
"""

from __future__ import annotations

import dataclasses
import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from identity.call import Document
from identity.domain.captcha.captchas import Widget
from identity.domain.forms import field_keys, field_values
from identity.domain.passwords.password_policy import PasswordRules
from identity.domain.users.self_registration import RegistrationField
from identity.errors import FieldError, GeneralError
from identity.web.endpoint import Reply
from identity.web.hosted import csrf
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler

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


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is the type of its input, or `select`, `textarea`, `radio` or `checkboxes`.

    `autocomplete` is the HTML attribute. `selected` are the values of checkboxes.
    """

    name: str
    label: str
    kind: str = "text"
    autocomplete: str = "off"
    value: str = ""
    is_required: bool = True
    hints: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    errors: tuple[str, ...] = ()
    is_focused: bool = False
    selected: tuple[str, ...] = ()

    @property
    def is_group(self) -> bool:
        """Whether the field consists of several inputs."""
        return self.kind in {"checkboxes", "radio"}


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """A page of fields; `remember` is None without a "keep me signed in" checkbox.

    `links` are pairs of text and URL. `notes` follow the form. `progress` names the step of several. `buttons` are
    separate forms: text, field name, value; scripts enable them after `wait_seconds`.
    """

    title: str
    heading: str
    lead: str
    submit: str
    action: str = ""
    hidden: Sequence[tuple[str, str]] = ()
    fields: Sequence[Field] = ()
    message: str = ""
    remember: bool | None = None
    links: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    buttons: Sequence[tuple[str, str, str]] = ()
    wait_seconds: int = 0
    is_dangerous: bool = False
    progress: str = ""
    captcha: Widget | None = None


class FormTexts(TypedDict):
    """The texts of a form that has one of each."""

    title: str
    heading: str
    lead: str
    submit: str


def form_texts(theme: PageTheme, key: str, lead: str | None = None) -> FormTexts:
    """Return the texts `<key>.title`, `.heading`, `.lead` and `.submit` of a form; `lead` replaces its text."""
    return FormTexts(
        title=theme[f"{key}.title"],
        heading=theme[f"{key}.heading"],
        lead=theme[f"{key}.lead"] if lead is None else lead,
        submit=theme[f"{key}.submit"],
    )


def with_errors(fields: Iterable[Field], errors: Iterable[FieldError], theme: PageTheme) -> list[Field]:
    """Return the fields with their errors; the first one with an error, else the first empty one, is focused."""
    messages: dict[str, list[str]] = {}
    for error in errors:
        messages.setdefault(error.path, []).append(theme.find(error.code, error.message))
    found = [dataclasses.replace(field, errors=tuple(messages.get(field.name, ()))) for field in fields]
    focused = next((field for field in found if field.errors), None) or next((f for f in found if not f.value), None)
    return [dataclasses.replace(field, is_focused=field is focused) for field in found]


def with_refusal(
    form: Form, errors: Sequence[FieldError], theme: PageTheme, general: Iterable[GeneralError] = ()
) -> Form:
    """Return the form with the errors of the previous submission at their fields, or else in its message."""
    names = {field.name for field in form.fields}
    messages = [theme.find(error.code, error.message or error.code) for error in general]
    messages += [theme.find(error.code, error.message) for error in errors if error.path not in names]
    return dataclasses.replace(form, fields=with_errors(form.fields, errors, theme), message=" ".join(messages))


def page(
    handler: OAuth2Handler, form: Form, theme: PageTheme, *, message: str = "", redirect_uri: str | None = None
) -> Reply:
    """Return the page; without an action, its form posts to the same path.

    `message` is the key of a page text, `redirect_uri` where the response to the form may lead.
    """
    values = {member.name: getattr(form, member.name) for member in dataclasses.fields(form)}
    values |= {
        "action": form.action or handler.request.path,
        "message": theme.message(message) or form.message,
        "wrong": [field for field in form.fields if field.errors],
    }
    del values["hidden"]
    return csrf.form_page(
        handler, "fields.html", values, theme, form.hidden, redirect_uri=redirect_uri, message=message
    )


def password_hints(tenant: Document, theme: PageTheme) -> tuple[str, ...]:
    """Return the tenant's rules for passwords, one per line."""
    rules = PasswordRules.of(tenant)
    applies = {
        "passwordRules.nonAlpha": rules.require_non_alpha,
        "passwordRules.number": rules.require_number,
        "passwordRules.mixedCase": rules.require_mixed_case,
        "passwordRules.loginId": rules.disallow_user_login_id,
        "passwordRules.previous": rules.remembered > 0,
        "passwordRules.breached": rules.breach_detection["enabled"],
    }
    length = theme.fill("passwordRules.length", rules.min_length, rules.max_length)
    return (length, *(theme.fill(key, rules.remembered) for key, is_applied in applies.items() if is_applied))


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
