"""Email templates: the parts of one, which variant a reader gets, and what is wrong inside of it."""

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
    """A part of a mail: its name in results, the members of the template that hold it, and whether it is HTML."""

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
    """What became of the parts, by name; a part with an error is not among them."""

    parts: Mapping[str, str]
    parse_errors: Mapping[str, str]
    render_errors: Mapping[str, str]

    @property
    def errors(self) -> Document:
        """The errors as the API tells them; empty when there are none."""
        found = {"parseErrors": dict(self.parse_errors), "renderErrors": dict(self.render_errors)}
        return {name: errors for name, errors in found.items() if errors}


def problems(template: Document) -> list[FieldError]:
    """A field error, with its line, for every part and variant that is no template, and for a useless sender."""
    errors = [FieldError.of("invalid", path, message) for path, message in _parse_errors(template)]
    if "fromEmail" in template:
        errors += mail_messages.address_problems(template["fromEmail"], "emailTemplate.fromEmail")
    return errors


def _parse_errors(template: Document) -> Iterator[tuple[str, str]]:
    for part in PARTS:
        variants = {part.default: template.get(part.default)}
        variants |= {f"{part.localized}.{locale}": text for locale, text in template.get(part.localized, {}).items()}
        for path, text in variants.items():
            try:
                template_language.check(text or "")
            except ParseError as error:
                yield f"emailTemplate.{path}", error.message


def variant(template: Document, part: Part, locales: Iterable[str]) -> tuple[str, str]:
    """The member that holds a part for readers of these locales, the most wanted first, and its text.

    A locale is met by itself or by its language alone: `de_CH` by `de`.
    """
    localized = {_plain(locale): locale for locale in template.get(part.localized, {})}
    for locale in map(_plain, locales):
        for wanted in (locale, locale.partition("_")[0]):
            if wanted in localized:
                own = localized[wanted]
                return f"{part.localized}.{own}", template[part.localized][own]
    return part.default, template.get(part.default, "")


def render(
    template: Document, values: Mapping[str, Any], locales: Sequence[str] = (), *, preview: bool = False
) -> Rendered:
    """Every part that the template has, with the values put in; errors go by the name of their part."""
    parts, parse_errors, render_errors = {}, {}, {}
    for part in PARTS:
        text = variant(template, part, locales)[1]
        if not text:
            continue
        try:
            made = template_language.render(text, values, html=part.is_html, preview=preview)
        except ParseError as error:
            parse_errors[part.name] = error.message
        except RenderError as error:
            render_errors[part.name] = error.message
        else:
            parts[part.name] = made if part.name in {"html", "text"} else " ".join(made.split())
    return Rendered(parts, parse_errors, render_errors)


def _plain(locale: str) -> str:
    return locale.replace("-", "_").lower()
