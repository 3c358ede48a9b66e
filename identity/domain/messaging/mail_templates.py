"""Email templates: their parts, the choice of a language, validation and rendering."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.domain.messaging import mail_messages, template_language
from identity.domain.messaging.template_budget import ParseError, RenderError
from identity.errors import FieldError


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of a mail: its name in results, its members in the template, and whether it is HTML."""

    name: str
    default: str
    localized: str
    is_html: bool = False


PARTS = (
    Part("fromName", "defaultFromName", "localizedFromNames"),
    Part("subject", "defaultSubject", "localizedSubjects"),
    Part("html", "defaultHtmlTemplate", "localizedHtmlTemplates", is_html=True),
    Part("text", "defaultTextTemplate", "localizedTextTemplates"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """The rendered parts by name; parts with errors are missing."""

    parts: Mapping[str, str]
    parse_errors: Mapping[str, str]
    render_errors: Mapping[str, str]

    @property
    def errors(self) -> Document:
        """The errors in the form of the API."""
        found = {"parseErrors": dict(self.parse_errors), "renderErrors": dict(self.render_errors)}
        return {name: errors for name, errors in found.items() if errors}


def problems(template: Document) -> list[FieldError]:
    """A field error, with its line, for each invalid part in each language, and for an invalid sender."""
    errors = [error for part in PARTS for error in part_problems(template, part, "emailTemplate")]
    if "fromEmail" in template:
        errors += mail_messages.address_problems(template["fromEmail"], "emailTemplate.fromEmail")
    return errors


def part_problems(template: Document, part: Part, wrapper: str) -> Iterator[FieldError]:
    """Yield a field error, with its line, for each language in which a part is not a valid template."""
    variants = {part.default: template.get(part.default)}
    variants |= {f"{part.localized}.{locale}": text for locale, text in template.get(part.localized, {}).items()}
    for path, text in variants.items():
        try:
            template_language.check(text or "")
        except ParseError as error:
            yield FieldError.of("invalid", f"{wrapper}.{path}", error.message)


def variant(template: Document, part: Part, locales: Iterable[str]) -> tuple[str, str]:
    """The member, and the text, of a part in the first available of the preferred locales.

    A locale matches itself or its language: `de_CH` matches `de`.
    """
    localized = {_plain(locale): locale for locale in template.get(part.localized, {})}
    for locale in map(_plain, locales):
        for candidate in (locale, locale.partition("_")[0]):
            if candidate in localized:
                key = localized[candidate]
                return f"{part.localized}.{key}", template[part.localized][key]
    return part.default, template.get(part.default, "")


def render(
    template: Document, values: Mapping[str, Any], locales: Sequence[str] = (), *, preview: bool = False
) -> Rendered:
    """Render all parts of a template; errors are collected by part."""
    parts, parse_errors, render_errors = {}, {}, {}
    for part in PARTS:
        text = variant(template, part, locales)[1]
        if not text:
            continue
        try:
            text = template_language.render(text, values, html=part.is_html, preview=preview)
        except ParseError as error:
            parse_errors[part.name] = error.message
        except RenderError as error:
            render_errors[part.name] = error.message
        else:
            parts[part.name] = text if part.name in {"html", "text"} else " ".join(text.split())
    return Rendered(parts, parse_errors, render_errors)


def _plain(locale: str) -> str:
    return locale.replace("-", "_").lower()
