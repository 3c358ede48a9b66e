"""Mails that need no template of the tenant, in every language: text, and HTML that is readable in dark mode, too."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final, Literal

from identity.call import Document
from identity.domain.objects import catalogues

Kind = Literal["emailChange", "forgotPassword", "verifyNewEmail"]

LAYOUT: Final = Path(__file__).with_name("builtin_mail.html").read_text("utf-8")
_PLACEHOLDER: Final = "{0}"
_VALUES: Final = {"emailChange": "${previousEmail}"}
"""Kind of mail -> expression that replaces the placeholder of its text."""

_CODE: Final = "[#if verificationOneTimeCode?has_content]%s[/#if]"
_WITH_CODE: Final = frozenset({"verifyNewEmail"})


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltinMail:
    """A kind of mail, in place of the id of a template. Its values: `link`, and those that its text names."""

    kind: Kind


def template(mail: BuiltinMail, locales: Iterable[str]) -> Document:
    """Return the template of a mail in the first of the locales that has a catalogue, else in English."""
    return dict(_template(mail.kind, catalogues.first_language(locales)))


@functools.cache
def _template(kind: Kind, language: str) -> Document:
    texts = {**catalogues.texts(catalogues.SOURCE_LANGUAGE), **catalogues.texts(language)}
    own = {part: texts[f"mail.{kind}.{part}"] for part in ("subject", "text", "button")}
    ignore = texts["mail.ignoreChange" if kind == "emailChange" else "mail.ignore"]
    hint, code = texts["mail.linkHint"], texts["mail.code"] if kind in _WITH_CODE else ""
    return {
        "name": f"Built-in: {kind} ({language})",
        "defaultSubject": own["subject"],
        "defaultTextTemplate": _text(kind, own, ignore, code),
        "defaultHtmlTemplate": _html(kind, language, own, (ignore, hint, code)),
    }


def _text(kind: Kind, own: dict[str, str], ignore: str, code: str) -> str:
    lines = [_filled(kind, own["text"]), f"{own['button']}:\n${{link}}"]
    if code:
        lines.append(_CODE % f"{code} ${{verificationOneTimeCode}}")
    return "\n\n".join([*lines, ignore]) + "\n"


def _html(kind: Kind, language: str, own: dict[str, str], others: tuple[str, str, str]) -> str:
    ignore, hint, code = (escape(text) for text in others)
    values = {
        "language": language,
        "direction": catalogues.direction(language),
        "subject": escape(own["subject"]),
        "text": _filled(kind, escape(own["text"])),
        "button": escape(own["button"]),
        "code": _CODE % f'<p class="text">{code} <strong>${{verificationOneTimeCode}}</strong></p>' if code else "",
        "hint": hint,
        "ignore": ignore,
    }
    html = LAYOUT
    for name, value in values.items():
        html = html.replace(f"<<{name}>>", value)
    return html


def _filled(kind: Kind, text: str) -> str:
    return text.replace(_PLACEHOLDER, _VALUES.get(kind, ""))
