"""The inputs of the members of a user's profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from identity.domain.users.self_registration import RegistrationField
from identity.web.hosted.fields import Field
from identity.web.hosted.page_theme import PageTheme

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


def profile_field(field: RegistrationField, value: str, theme: PageTheme) -> Field:
    """Return the form field of a registration field; a language that is not listed is added to the choices."""
    kind, autocomplete = INPUTS[field.member]
    choices: tuple[tuple[str, str], ...] = LANGUAGES if kind == "select" else ()
    if choices and value and value not in dict(choices):
        choices = ((value, value), *choices)
    return Field(
        field.name, theme[f"user.{field.member}"], kind, autocomplete, value, field.is_required, choices=choices
    )
