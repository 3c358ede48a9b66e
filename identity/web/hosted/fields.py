"""Forms of fields: what a page asks for, what was wrong with the last answer, and how both are shown.

The page says at its top everything that is wrong, each with a link to its field, and each field says it again: who
cannot see the page hears it from both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.errors import FieldError, GeneralError
from identity.web.endpoint import Reply
from identity.web.hosted import render
from identity.web.hosted.page_theme import PageTheme
from identity.web.hosted.render import Cookies


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field: `kind` is the type of its input, or `select`; `autocomplete` what browsers know it as."""

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


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """What a page of fields shows; `remember` is None where it does not ask whether to stay signed in.

    `links` are ways to other pages: text and address. `notes` stand below the form. `buttons` are further
    ones, each a form of its own: text, name of the value, value.
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


def with_errors(fields: Iterable[Field], errors: Iterable[FieldError], look: PageTheme) -> list[Field]:
    """The fields with what is wrong with each, and the first one in need of it focused."""
    told: dict[str, list[str]] = {}
    for error in errors:
        told.setdefault(error.path, []).append(look.find(error.code, error.message))
    found = [dataclasses.replace(field, errors=tuple(told.get(field.name, ()))) for field in fields]
    wanted = next((field for field in found if field.errors), None) or next((f for f in found if not f.value), None)
    return [dataclasses.replace(field, is_focused=field is wanted) for field in found]


def messages_without_field(errors: Iterable[FieldError], fields: Iterable[Field], look: PageTheme) -> list[str]:
    """What is wrong with what the page has no field for."""
    names = {field.name for field in fields}
    return [look.find(error.code, error.message) for error in errors if error.path not in names]


def general_messages(errors: Iterable[GeneralError], look: PageTheme) -> list[str]:
    """What is wrong with no field in particular."""
    return [look.find(error.code, error.message or error.code) for error in errors]


def page(form: Form, look: PageTheme, *, redirect_uri: str | None = None, cookies: Cookies = ()) -> Reply:
    """The page; `redirect_uri` is where its answer may lead."""
    values: Mapping[str, Any] = {member.name: getattr(form, member.name) for member in dataclasses.fields(form)}
    values = {**values, "wrong": [field for field in form.fields if field.errors]}
    return render.form("fields.html", values, look, redirect_uri=redirect_uri, cookies=cookies)


def password_hints(rules: Document, look: PageTheme) -> tuple[str, ...]:
    """What a tenant asks of a new password, a line each."""
    asked = {
        "passwordRules.nonAlpha": rules["requireNonAlpha"],
        "passwordRules.number": rules["requireNumber"],
        "passwordRules.mixedCase": rules["requireMixedCase"],
        "passwordRules.loginId": rules["disallowUserLoginId"],
        "passwordRules.previous": rules["rememberPreviousPasswords"]["enabled"],
        "passwordRules.breached": rules["breachDetection"]["enabled"],
    }
    length = look.fill("passwordRules.length", str(rules["minLength"]))
    return (length, *(look[key] for key, is_flag_set in asked.items() if is_flag_set))
