"""Form fields: validation beyond the generic verbs."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.configuration import feature_settings
from identity.domain.forms import form_fields
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.operations.objects import crud, references
from identity.services import Services


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Complete and validate a field; key, control, type and consent of a stored one stay. Raises Invalid."""
    document = form_fields.complete(document, stored)
    errors = form_fields.problems(document)
    errors += await references.problems(services, RESOURCE, document, stored, ("consents",))
    crud.require_no_errors(errors)
    return document


RESOURCE = Resource(
    "field",
    path="/api/form/field",
    schema="api/form-field.json",
    collection="form_fields",
    label="Form Field",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "field.name"),),
    prepare=prepare,
    feature=feature_settings.ADVANCED_REGISTRATION,
)
