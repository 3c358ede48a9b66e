"""Consents: what the generic verbs cannot judge about what users may agree to."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import FieldError
from identity.operations import crud
from identity.services import Services


async def prepare(_services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Judge the second message. Raises Invalid."""
    crud.gather(_email_plus_problems(document["emailPlus"]))
    return document


def _email_plus_problems(email_plus: Document) -> list[FieldError]:
    """A second message needs a template, and a span of time that does not end before it begins."""
    errors, path = [], "consent.emailPlus"
    if email_plus["enabled"] and "emailTemplateId" not in email_plus:
        field = f"{path}.emailTemplateId"
        errors.append(FieldError.of("missing", field, f"You must specify the [{field}] property."))
    if email_plus["maximumTimeToSendEmailInHours"] < email_plus["minimumTimeToSendEmailInHours"]:
        field = f"{path}.maximumTimeToSendEmailInHours"
        errors.append(FieldError.of("invalid", field, f"The [{field}] must not be less than the shortest wait."))
    return errors
