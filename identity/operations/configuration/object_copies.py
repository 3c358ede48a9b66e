"""Create requests that copy an existing object, which they name by a member such as `sourceTenantId`."""

from __future__ import annotations

from identity.call import Document
from identity.errors import Invalid
from identity.ids import TenantId
from identity.operations.objects import crud
from identity.store.documents import Documents


async def get_source(documents: Documents, tenant_id: TenantId | None, source_id: object, member: str) -> Document:
    """Return the object to copy as a create request contains it. Raises Invalid for the member that names it."""
    source = await documents.find(tenant_id, str(source_id).lower())
    if source is None:
        raise Invalid.field("invalid", member, f"The [{member}] must name an existing object.")
    return crud.to_request(source)


def with_requested_name(source: Document, body: Document, wrapper: str) -> Document:
    """Return the create request for a copy of the source, with the name that the request body gives it."""
    requested = body.get(wrapper)
    return {wrapper: {**source, "name": requested.get("name") if isinstance(requested, dict) else None}}
