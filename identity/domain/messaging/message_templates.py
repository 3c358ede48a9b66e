"""Message templates: validation and rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.messaging import mail_templates, template_language
from identity.errors import FieldError

TEXT: Final = mail_templates.Part("text", "defaultTemplate", "localizedTemplates")
"""The only part of a message."""


def problems(template: Document) -> list[FieldError]:
    """A field error, with its line, for each language whose text is not a valid template."""
    return list(mail_templates.part_problems(template, TEXT, "messageTemplate"))


def render(template: Document, values: Mapping[str, Any], locales: Sequence[str] = (), *, preview: bool = False) -> str:
    """Render a message. Raises ParseError and RenderError."""
    text = mail_templates.variant(template, TEXT, locales)[1]
    return template_language.render(text, values, html=False, preview=preview).strip()
