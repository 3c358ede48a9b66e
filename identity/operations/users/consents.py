"""Consents: validation and deletion beyond the generic verbs."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import FieldError
from identity.operations.objects import crud, references
from identity.operations.users import user_consents
from identity.services import Services
from identity.store.mongo import Write


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Validate the settings of the mails. Raises Invalid."""
    errors = _email_plus_problems(document["emailPlus"])
    errors += await references.problems(services, RESOURCE, document, stored, ("email_templates",))
    crud.require_no_errors(errors)
    return document


async def _commit(
    services: Services, _call: Call, consent: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a consent; a deleted one with all user consents that refer to it."""
    await services.runtime.database.execute(writes)
    if consent is None and stored is not None:
        await user_consents.delete_of_consent(services, stored["id"])


RESOURCE = Resource(
    "consent",
    tenant_scoped=False,
    unique=(Unique("name", ("name",), "consent.name"),),
    search_rules=SearchRules({"name": "text"}, {"id": "_id", "insertInstant": "insertInstant", "name": "name"}),
    prepare=prepare,
    commit=_commit,
)


def _email_plus_problems(email_plus: Document) -> list[FieldError]:
    """The second mail requires a template and a valid interval."""
    errors, path = [], "consent.emailPlus"
    if email_plus["enabled"] and "emailTemplateId" not in email_plus:
        field = f"{path}.emailTemplateId"
        errors.append(FieldError.missing(field))
    if email_plus["maximumTimeToSendEmailInHours"] < email_plus["minimumTimeToSendEmailInHours"]:
        field = f"{path}.maximumTimeToSendEmailInHours"
        errors.append(FieldError.invalid(field, "must not be less than the minimum time"))
    return errors
