"""The integrations: one document per instance, which API clients store and read; the service itself uses none."""

from __future__ import annotations

import contextlib

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource
from identity.domain.objects.stored_credentials import Credential
from identity.errors import Duplicate, FieldError
from identity.operations.objects import crud
from identity.services import Services
from identity.store.system_settings import DOCUMENT_ID

_REQUIRED = (("cleanspeak", "apiKey"), ("cleanspeak", "url"), ("kafka", "defaultTopic"))


async def prepare(_services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Require the members of an enabled integration. Raises Invalid."""
    errors = []
    for name, member in _REQUIRED:
        if document[name]["enabled"] and not document[name].get(member):
            path = f"integrations.{name}.{member}"
            errors.append(FieldError.missing(path, "blank"))
    crud.require_no_errors(errors)
    return document


RESOURCE = Resource(
    "integrations",
    path="/api/integration",
    collection="integrations",
    plural="integrations",
    label="Integrations",
    tenant_scoped=False,
    verbs=frozenset({"retrieve", "update", "patch"}),
    sealed=("cleanspeak.apiKey", "kafka.producer.*"),
    credentials=(Credential("cleanspeak.apiKey", ("cleanspeak.url",)), Credential("kafka.producer.*")),
    prepare=prepare,
)


async def ensure(services: Services, call: Call) -> None:
    """Create the document of a new instance. Safe to run at every start, in several processes at once."""
    documents = crud.collection_of(services, RESOURCE)
    if await documents.find(None, DOCUMENT_ID) is None:
        empty = services.schemas[RESOURCE.schema].read({RESOURCE.name: {}})[RESOURCE.name]
        with contextlib.suppress(Duplicate):  # another process created it first
            await documents.insert(None, {**empty, "id": DOCUMENT_ID, **crud.creation_instants(call.now)})
