"""Forms: validation beyond the generic verbs, and their fields."""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.configuration import feature_settings
from identity.domain.forms import forms as form_rules
from identity.domain.objects.member_paths import value_at
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.errors import FieldError
from identity.operations.forms import form_fields
from identity.operations.objects import crud
from identity.services import Services


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Validate a form; the type of a stored one stays. Raises Invalid."""
    if stored is not None:
        document = {**document, "type": stored["type"]}
    if document.get("steps"):
        found = {field["id"]: field for step in await load_steps(services, document) for field in step}
        crud.require_no_errors(form_rules.problems(document, found))
    return document


RESOURCE = Resource(
    "form",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "form.name"),),
    prepare=prepare,
    feature=feature_settings.ADVANCED_REGISTRATION,
)


async def find(services: Services, form_id: str | None) -> Document | None:
    """Return a form, from the cache."""
    return None if form_id is None else await crud.collection_of(services, RESOURCE).find_cached(None, form_id)


async def load_steps(services: Services, form: Document) -> list[list[Document]]:
    """Return the existing fields of each step of a form, from the cache."""
    fields = crud.collection_of(services, form_fields.RESOURCE)
    ids = [step.get("fields", ()) for step in form["steps"]]
    found = [[await fields.find_cached(None, field_id) for field_id in step] for step in ids]
    return [[field for field in step if field is not None] for step in found]


async def reference_problems(
    services: Services, name: str, form_types: Mapping[str, str], document: Document, stored: Document | None
) -> list[FieldError]:
    """Return an error for each new reference to a form that does not exist or has another type.

    `name` is the wrapper of the document in requests, `form_types` the type of the form by the member that names it.
    """
    errors = []
    for member, form_type in form_types.items():
        form_id, path = value_at(document, member), f"{name}.{member}"
        if form_id is None or (stored is not None and value_at(stored, member) == form_id):
            continue
        form = await find(services, form_id)
        if form is None or form["type"] != form_type:
            errors.append(FieldError.invalid(path, f"must name an existing form of type [{form_type}]"))
    return errors
