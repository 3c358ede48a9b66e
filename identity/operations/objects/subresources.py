"""Subresources: objects inside a document that have an API of their own, such as the roles of an application."""

from __future__ import annotations

from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.objects.resource_definition import Subresource
from identity.errors import Invalid, NotFound, with_article
from identity.operations.objects import crud
from identity.services import Services


async def retrieve(
    services: Services, call: Call, subresource: Subresource, owner_id: str, subresource_id: str
) -> Document:
    """Return a subresource. Raises NotFound."""
    return _get(await crud.retrieve(services, call, subresource.owner, owner_id), subresource, "id", subresource_id)


async def update(
    services: Services, call: Call, subresource: Subresource, owner_id: str, body: Document, subresource_id: str
) -> Document:
    """Replace a subresource. Raises NotFound and Invalid."""
    return await _change(services, call, subresource, owner_id, subresource_id, None, body)


async def patch(
    services: Services,
    call: Call,
    subresource: Subresource,
    owner_id: str,
    content_type: str,
    body: Any,
    subresource_id: str,
) -> Document:
    """Apply a patch, of one of the three media types, to a subresource. Raises NotFound and Invalid."""
    return await _change(services, call, subresource, owner_id, subresource_id, content_type, body)


async def delete(
    services: Services, call: Call, subresource: Subresource, owner_id: str, member: str, value: str
) -> None:
    """Delete the subresource whose `member` (id or name) has this value. Raises NotFound."""
    if subresource.propagate is not None:
        # References go before the subresource, so that an interrupted deletion can be repeated.
        owner = await crud.retrieve(services, call, subresource.owner, owner_id)
        await crud.authorize(services, call, subresource.owner, owner)
        await subresource.propagate(services, owner, _get(owner, subresource, member, value), None)
    owner, deleted = await _delete(services, call, subresource, owner_id, member, value)
    if subresource.propagate is not None:
        # Again, for references that concurrent requests added.
        await subresource.propagate(services, owner, deleted, None)


@crud.retry_on_conflict
async def create(
    services: Services, call: Call, subresource: Subresource, owner_id: str, body: Document, subresource_id: str | None
) -> Document:
    """Create a subresource with the given id, or with a random one. Raises NotFound and Invalid."""
    owner = await crud.retrieve(services, call, subresource.owner, owner_id)
    requested = services.schemas[subresource.schema].read(body)[subresource.name]
    if subresource_id is not None and any(each["id"] == subresource_id for each in owner[subresource.member]):
        message = f"{with_article(subresource.name)} with id = [{subresource_id}] already exists."
        raise Invalid.field("duplicate", subresource.id_name, message)
    members = {name: value for name, value in requested.items() if name != "id"}
    created = subresource.fresh(owner, members, call.now, subresource_id)
    owner[subresource.member].append(created)
    await _store(services, call, subresource, owner, created)
    return created


async def _change(
    services: Services,
    call: Call,
    subresource: Subresource,
    owner_id: str,
    subresource_id: str,
    content_type: str | None,
    body: Any,
) -> Document:
    owner, stored, changed = await _replace(services, call, subresource, owner_id, subresource_id, content_type, body)
    if subresource.propagate is not None:
        await subresource.propagate(services, owner, stored, changed)
    return changed


@crud.retry_on_conflict
async def _replace(
    services: Services,
    call: Call,
    subresource: Subresource,
    owner_id: str,
    subresource_id: str,
    content_type: str | None,
    body: Any,
) -> tuple[Document, Document, Document]:
    """Replace a subresource once; return its owner, and itself before and after. Raises Conflict."""
    owner = await crud.retrieve(services, call, subresource.owner, owner_id)
    stored = _get(owner, subresource, "id", subresource_id)
    if content_type is not None:
        body = patches.apply(content_type, {subresource.name: stored}, body)
    requested = services.schemas[subresource.schema].read(body)[subresource.name]
    changed = subresource.changed(stored, requested, call.now)
    siblings = owner[subresource.member]
    siblings[siblings.index(stored)] = changed
    await _store(services, call, subresource, owner, changed)
    return owner, stored, changed


@crud.retry_on_conflict
async def _delete(
    services: Services, call: Call, subresource: Subresource, owner_id: str, member: str, value: str
) -> tuple[Document, Document]:
    """Delete a subresource once; return its owner and itself. Raises Conflict."""
    owner = await crud.retrieve(services, call, subresource.owner, owner_id)
    deleted = _get(owner, subresource, member, value)
    owner[subresource.member].remove(deleted)
    await _store(services, call, subresource, owner, deleted)
    return owner, deleted


async def _store(services: Services, call: Call, subresource: Subresource, owner: Document, changed: Document) -> None:
    """Store an owner after one of its subresources changed. Raises Invalid and Conflict."""
    await crud.authorize(services, call, subresource.owner, owner)
    crud.require_no_errors(subresource.errors(owner, changed))
    version = owner["lastUpdateInstant"]
    owner |= crud.update_instants(owner, call.now)
    if subresource.complete is not None:
        owner |= subresource.complete(owner)
    tenant_id = owner["tenantId"] if subresource.owner.tenant_scoped else None
    await crud.collection_of(services, subresource.owner).replace(tenant_id, owner, version)


def _get(owner: Document, subresource: Subresource, member: str, value: str) -> Document:
    """Return a copy of the subresource whose `member` has this value. Raises NotFound."""
    for each in owner[subresource.member]:
        if each[member] == value:
            return dict(each)
    raise NotFound
