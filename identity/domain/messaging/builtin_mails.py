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

Kind = Literal[
    "administratorChange", "administratorLogin", "emailChange", "forgotPassword", "loginCode", "loginLink",
    "phoneChange", "verifyNewEmail",
]  # fmt: skip

LAYOUT: Final = Path(__file__).with_name("builtin_mail.html").read_text("utf-8")
_PLACEHOLDER: Final = "{0}"
_VALUES: Final = {"emailChange": "${previousEmail}"}
"""Kind of mail -> expression that replaces the placeholder of its text."""

_CODES: Final = {"loginCode": "oneTimeCode", "verifyNewEmail": "verificationOneTimeCode"}
"""Kind of mail -> the value that holds its code, if there is one."""
_NOTICES: Final = frozenset({"administratorChange", "administratorLogin"})
"""Kinds of mail that end with their text."""
_WITHOUT_LINK: Final = frozenset({*_NOTICES, "loginCode", "phoneChange"})
_CHANGES: Final = frozenset({"emailChange", "phoneChange"})
_BUTTON: Final = (
    '<p style="margin:0 0 20px;"><a class="button" href="${link}" style="display:inline-block;padding:12px 20px;'
    'border-radius:8px;background:#1f4fd1;color:#fdfdfe;font-weight:600;text-decoration:none;">%s</a></p>'
)
_HINT: Final = (
    '<p class="quiet" style="margin:0 0 12px;font-size:14px;color:#4d586d;">%s<br>'
    '<a href="${link}" style="color:#4d586d;word-break:break-all;">${link}</a></p>'
)


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltinMail:
    """A kind of mail, in place of the id of a template. Its values: `link` or a code, and those that its text names."""

    kind: Kind


def template(mail: BuiltinMail, locales: Iterable[str]) -> Document:
    """Return the template of a mail in the first of the locales that has a catalogue, else in English."""
    return dict(_template(mail.kind, catalogues.first_language(locales)))


@functools.cache
def _template(kind: Kind, language: str) -> Document:
    texts = {**catalogues.texts(catalogues.SOURCE_LANGUAGE), **catalogues.texts(language)}
    own = {part: texts.get(f"mail.{kind}.{part}", "") for part in ("subject", "text", "button")}
    ignore = "" if kind in _NOTICES else texts["mail.ignoreChange" if kind in _CHANGES else "mail.ignore"]
    return {
        "name": f"Built-in: {kind} ({language})",
        "defaultSubject": own["subject"],
        "defaultTextTemplate": _text(kind, own, ignore, texts["mail.code"]),
        "defaultHtmlTemplate": _html(kind, language, own, (ignore, texts["mail.linkHint"], texts["mail.code"])),
    }


def _text(kind: Kind, own: dict[str, str], ignore: str, code: str) -> str:
    lines = [_filled(kind, own["text"])]
    if kind not in _WITHOUT_LINK:
        lines.append(f"{own['button']}:\n${{link}}")
    lines.append(_code(kind, f"{code} ${{{_CODES.get(kind)}}}"))
    return "\n\n".join(filter(None, [*lines, ignore])) + "\n"


def _html(kind: Kind, language: str, own: dict[str, str], others: tuple[str, str, str]) -> str:
    ignore, hint, code = (escape(text) for text in others)
    has_link = kind not in _WITHOUT_LINK
    values = {
        "language": language,
        "direction": catalogues.direction(language),
        "subject": escape(own["subject"]),
        "text": _filled(kind, escape(own["text"])),
        "button": _BUTTON % escape(own["button"]) if has_link else "",
        "code": _code(kind, f'<p class="text">{code} <strong>${{{_CODES.get(kind)}}}</strong></p>'),
        "hint": _HINT % hint if has_link else "",
        "ignore": ignore,
    }
    html = LAYOUT
    for name, value in values.items():
        html = html.replace(f"<<{name}>>", value)
    return html


def _code(kind: Kind, text: str) -> str:
    """Return the part with the code, which is left out of a mail without one."""
    name = _CODES.get(kind)
    return "" if name is None else f"[#if {name}?has_content]{text}[/#if]"


def _filled(kind: Kind, text: str) -> str:
    return text.replace(_PLACEHOLDER, _VALUES.get(kind, ""))
