"""Parts of a document, each with an API of its own: add, retrieve, replace, patch, remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.objects.subresources import Subresource
from identity.errors import Invalid, NotFound, with_article
from identity.operations.objects import crud
from identity.services import Services

_Wanted = Callable[[Document], Document]


async def add(
    services: Services, call: Call, subresource: Subresource, owner_id: str, body: Document, subresource_id: str | None
) -> Document:
    """A new part. Raises NotFound and Invalid."""

    def change(owner: Document) -> Document:
        wanted = services.schemas[subresource.schema].read(body)[subresource.name]
        if subresource_id is not None and any(entry["id"] == subresource_id for entry in owner[subresource.member]):
            raise Invalid.field(
                "duplicate",
                subresource.id_name,
                f"{with_article(subresource.name)} with id = [{subresource_id}] already exists.",
            )
        entry = subresource.fresh(
            owner, {name: value for name, value in wanted.items() if name != "id"}, call.now, subresource_id
        )
        owner[subresource.member].append(entry)
        return entry

    return await _change(services, call, subresource, owner_id, change)


async def retrieve(
    services: Services, call: Call, subresource: Subresource, owner_id: str, subresource_id: str
) -> Document:
    """A part. Raises NotFound."""
    return _entry(await crud.retrieve(services, call, subresource.owner, owner_id), subresource, "id", subresource_id)


async def replace(
    services: Services, call: Call, subresource: Subresource, owner_id: str, body: Document, subresource_id: str
) -> Document:
    """Replace a part. Raises NotFound and Invalid."""
    return await _edit(services, call, subresource, owner_id, subresource_id, lambda _stored: body)


async def patch(
    services: Services, call: Call, subresource: Subresource, owner_id: str, kind: str, body: Any, subresource_id: str
) -> Document:
    """Change members of a part. Raises NotFound and Invalid."""
    return await _edit(
        services,
        call,
        subresource,
        owner_id,
        subresource_id,
        lambda stored: patches.apply(kind, {subresource.name: stored}, body),
    )


async def remove(
    services: Services, call: Call, subresource: Subresource, owner_id: str, member: str, value: str
) -> None:
    """Remove the part whose `member` (id or name) has this value. Raises NotFound."""
    owners: list[Document] = []

    def change(owner: Document) -> Document:
        entry = _entry(owner, subresource, member, value)
        owner[subresource.member].remove(entry)
        owners[:] = [owner]
        return entry

    if subresource.propagate is not None:
        # The part goes last: what is interrupted can be repeated, and nothing waits for another one in its place.
        owner = await crud.retrieve(services, call, subresource.owner, owner_id)
        await subresource.propagate(services, owner, _entry(owner, subresource, member, value), None)
    removed = await _change(services, call, subresource, owner_id, change)
    if subresource.propagate is not None:
        # For what was under way all the time.
        await subresource.propagate(services, owners[0], removed, None)


async def _edit(
    services: Services, call: Call, subresource: Subresource, owner_id: str, subresource_id: str, wanted_of: _Wanted
) -> Document:
    before: list[tuple[Document, Document]] = []

    def change(owner: Document) -> Document:
        stored = _entry(owner, subresource, "id", subresource_id)
        wanted = services.schemas[subresource.schema].read(wanted_of(stored))[subresource.name]
        entry = subresource.changed(stored, wanted, call.now)
        entries = owner[subresource.member]
        entries[entries.index(stored)] = entry
        before[:] = [(owner, stored)]
        return entry

    changed = await _change(services, call, subresource, owner_id, change)
    if subresource.propagate is not None:
        await subresource.propagate(services, *before[0], changed)
    return changed


async def _change(
    services: Services, call: Call, subresource: Subresource, owner_id: str, change: Callable[[Document], Document]
) -> Document:
    """Change one part of a document and store it, again when somebody else was faster."""
    tenant_id = await crud.get_tenant_id(services, call, subresource.owner, owner_id)
    documents = crud.collection_of(services, subresource.owner)

    async def attempt() -> Document:
        owner = await documents.get(tenant_id, owner_id)
        version = owner["lastUpdateInstant"]
        entry = change(owner)
        crud.require_no_errors(subresource.errors(owner, entry))
        owner |= crud.update_instants(owner, call.now)
        owner = owner if subresource.complete is None else subresource.complete(owner)
        await documents.replace(tenant_id, owner, version)
        return entry

    return await crud.retry_on_conflict(attempt)


def _entry(owner: Document, subresource: Subresource, member: str, value: str) -> Document:
    for entry in owner[subresource.member]:
        if entry[member] == value:
            return dict(entry)
    raise NotFound
