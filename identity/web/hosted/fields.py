"""Forms of labeled fields, with the errors of the previous submission.

All errors are listed at the top of the page, each with a link to its field, and again at the field, so that screen
readers announce them in both places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypedDict

from identity.call import Document
from identity.domain.captcha.captchas import Widget
from identity.domain.passwords.password_policy import PasswordRules
from identity.errors import FieldError, GeneralError
from identity.web.endpoint import Reply
from identity.web.hosted import csrf
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler


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
    length = theme.fill("passwordRules.length", str(rules.min_length))
    return (length, *(theme[key] for key, is_applied in applies.items() if is_applied))
