"""Parts of a document, each with an API of its own: add, retrieve, replace, patch, remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.domain.objects.subresources import Part
from identity.errors import Invalid, NotFound, with_article
from identity.operations.objects import crud
from identity.services import Services

_Wanted = Callable[[Document], Document]


async def add(
    services: Services, call: Call, part: Part, owner_id: str, body: Document, part_id: str | None
) -> Document:
    """A new part. Raises NotFound and Invalid."""

    def change(owner: Document) -> Document:
        wanted = services.schemas[part.schema].read(body)[part.name]
        if part_id is not None and any(entry["id"] == part_id for entry in owner[part.member]):
            raise Invalid.field(
                "duplicate", part.id_name, f"{with_article(part.name)} with id = [{part_id}] already exists."
            )
        entry = part.fresh(owner, {name: value for name, value in wanted.items() if name != "id"}, call.now, part_id)
        owner[part.member].append(entry)
        return entry

    return await _change(services, call, part, owner_id, change)


async def retrieve(services: Services, call: Call, part: Part, owner_id: str, part_id: str) -> Document:
    """A part. Raises NotFound."""
    return _entry(await crud.retrieve(services, call, part.owner, owner_id), part, "id", part_id)


async def replace(services: Services, call: Call, part: Part, owner_id: str, body: Document, part_id: str) -> Document:
    """Replace a part. Raises NotFound and Invalid."""
    return await _edit(services, call, part, owner_id, part_id, lambda _stored: body)


async def patch(
    services: Services, call: Call, part: Part, owner_id: str, kind: str, body: Any, part_id: str
) -> Document:
    """Change members of a part. Raises NotFound and Invalid."""
    return await _edit(
        services, call, part, owner_id, part_id, lambda stored: patches.apply(kind, {part.name: stored}, body)
    )


async def remove(services: Services, call: Call, part: Part, owner_id: str, member: str, value: str) -> None:
    """Remove the part whose `member` (id or name) has this value. Raises NotFound."""
    owners: list[Document] = []

    def change(owner: Document) -> Document:
        entry = _entry(owner, part, member, value)
        owner[part.member].remove(entry)
        owners[:] = [owner]
        return entry

    if part.settle is not None:
        # The part goes last: what is interrupted can be repeated, and nothing waits for another one in its place.
        owner = await crud.retrieve(services, call, part.owner, owner_id)
        await part.settle(services, owner, _entry(owner, part, member, value), None)
    removed = await _change(services, call, part, owner_id, change)
    if part.settle is not None:
        # For what was under way all the time.
        await part.settle(services, owners[0], removed, None)


async def _edit(
    services: Services, call: Call, part: Part, owner_id: str, part_id: str, wanted_of: _Wanted
) -> Document:
    before: list[tuple[Document, Document]] = []

    def change(owner: Document) -> Document:
        stored = _entry(owner, part, "id", part_id)
        wanted = services.schemas[part.schema].read(wanted_of(stored))[part.name]
        entry = part.changed(stored, wanted, call.now)
        entries = owner[part.member]
        entries[entries.index(stored)] = entry
        before[:] = [(owner, stored)]
        return entry

    changed = await _change(services, call, part, owner_id, change)
    if part.settle is not None:
        await part.settle(services, *before[0], changed)
    return changed


async def _change(
    services: Services, call: Call, part: Part, owner_id: str, change: Callable[[Document], Document]
) -> Document:
    """Change one part of a document and store it, again when somebody else was faster."""
    tenant_id = await crud.tenant_of(services, call, part.owner, owner_id)
    documents = crud.documents_of(services, part.owner)

    async def attempt() -> Document:
        owner = await documents.get(tenant_id, owner_id)
        version = owner["lastUpdateInstant"]
        entry = change(owner)
        crud.gather(part.errors(owner, entry))
        owner |= crud.restamped(owner, call.now)
        owner = owner if part.complete is None else part.complete(owner)
        await documents.replace(tenant_id, owner, version)
        return entry

    return await crud.retried(attempt)


def _entry(owner: Document, part: Part, member: str, value: str) -> Document:
    for entry in owner[part.member]:
        if entry[member] == value:
            return dict(entry)
    raise NotFound
