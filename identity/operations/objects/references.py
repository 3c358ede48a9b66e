"""Which objects refer to which others: nothing that is referred to can be deleted, and nothing refers to what is gone.

Both sides change the object that is referred to, inside a transaction: who wants to refer to it holds it, who wants to
delete it removes it. Of two that meet, MongoDB lets one through, and the other looks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from identity.call import Document
from identity.domain.configuration.key_usage import USAGES
from identity.domain.configuration.reference_table import TABLE, Reference
from identity.domain.objects.resource_definition import Resource
from identity.errors import FieldError, Invalid
from identity.instants import Instant
from identity.operations.objects import key_assignments
from identity.services import Services
from identity.store.documents import Documents
from identity.store.mongo import Session

T = TypeVar("T")

Write = Callable[[Session | None], Awaitable[T]]


async def problems(
    services: Services, resource: Resource, document: Document, stored: Document | None, targets: tuple[str, ...]
) -> list[FieldError]:
    """A field error for each object of the collections `targets` that a document, and not yet `stored`, names in vain.

    `keeping` has the last word; this one says everything at once.
    """
    errors = []
    before = set() if stored is None else {(member, value) for _, member, value in _named(resource, stored)}
    for row, member, value in _named(resource, document):
        if row.target in targets and (member, value) not in before:
            found = await _collection(services, row.target).find_cached(document.get("tenantId"), value)
            if found is None:
                path = f"{resource.name}.{member}"
                errors.append(FieldError.of("invalid", path, f"The [{path}] must name an existing object."))
    return errors


async def keeping(
    services: Services,
    resource: Resource,
    document: Document,
    stored: Document | None,
    write: Write[T],
    session: Session | None = None,
) -> T:
    """Write a document, and hold what it names and `stored`, its former state, did not.

    Raises Invalid with `[invalid]` for what was deleted in the meantime.
    """
    before = set() if stored is None else {(row.target, value) for row, _, value in _named(resource, stored)}
    fresh: dict[tuple[str, str], list[str]] = {}
    for row, member, value in _named(resource, document):
        if (row.target, value) not in before and row.until is None:
            fresh.setdefault((row.target, value), []).append(member)
    if not fresh:
        return await write(session)

    async def held(session: Session) -> T:
        # All turns first: what another changes after the first look of a transaction would end it.
        await services.database.lock_keys(session, [f"{target} {value}" for target, value in fresh])
        for (target, value), members in sorted(fresh.items()):
            path = f"{resource.name}.{members[-1]}"
            if not await _collection(services, target).lock(document.get("tenantId"), value, session):
                raise Invalid.field("invalid", path, f"The [{path}] must name an existing object.")
            if target == "keys":
                await _assign(services, resource, document, value, members, session)
        return await write(session)

    return await (services.database.in_transaction(held) if session is None else held(session))


async def is_key_referenced(services: Services, key_id: str, now: Instant, *collections: str) -> bool:
    """Whether a document of these collections, or of any collection when none is given, refers to the key."""
    return await _is_referenced(services, key_id, now, collections or tuple(USAGES))


async def _assign(
    services: Services, resource: Resource, document: Document, key_id: str, members: list[str], session: Session
) -> None:
    """Record what the key is used for. Raises Invalid for a key that belongs to others."""
    tenant_id = document["id"] if resource.collection == "tenants" else document.get("tenantId")

    async def is_referenced(collection: str, session: Session | None) -> bool:
        return await _is_referenced(services, key_id, services.clock.now(), (collection,), session)

    for member in members:
        if not await key_assignments.assign(
            services, resource.collection, member, tenant_id, key_id, is_referenced, session
        ):
            path = f"{resource.name}.{member}"
            message = f"The [{path}] names a key that belongs to another tenant or serves another purpose."
            raise Invalid.field("invalid", path, message)


async def _is_referenced(
    services: Services, key_id: str, now: Instant, collections: tuple[str, ...], session: Session | None = None
) -> bool:
    for row in TABLE:
        if row.target == "keys" and row.source in collections:
            found = _collection(services, row.source)
            if await found.count_across_tenants(_naming(row, key_id, now), 1, session):
                return True
    return False


async def removing(
    services: Services,
    resource: Resource,
    object_id: str,
    now: Instant,
    remove: Write[T],
    session: Session | None = None,
) -> T:
    """Remove an object to which nothing refers. Raises Invalid with `[inUse]`."""
    rows = [row for row in TABLE if row.target == resource.collection]
    if not rows:
        return await remove(session)

    async def unless_used(session: Session) -> T:
        for row in rows:
            if await _collection(services, row.source).count_across_tenants(_naming(row, object_id, now), 1, session):
                users = row.source.replace("_", " ")
                message = f"The {resource.label} is in use: there are {users} that refer to it."
                raise Invalid.field("inUse", resource.id_name, message)
        return await remove(session)

    return await (services.database.in_transaction(unless_used) if session is None else unless_used(session))


def _named(resource: Resource, document: Document) -> Iterator[tuple[Reference, str, str]]:
    """(row, member, id) of everything that a document names."""
    for row in TABLE:
        if row.source == resource.collection:
            for member in row.members:
                for value in _values(document, member.split(".")):
                    yield row, member, value


def _values(value: Any, steps: list[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _values(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict) and value.get(steps[0]) is not None:
        yield from _values(value[steps[0]], steps[1:])


def _naming(row: Reference, object_id: str, now: Instant) -> Document:
    """What documents of the row's source that refer to the object look like."""
    if row.until is None:
        return {"$or": [{member: object_id} for member in row.members]}
    geoip = (member.rpartition(".") for member in row.members)
    return {"$or": [{place: {"$elemMatch": {last: object_id, row.until: {"$gt": now}}}} for place, _, last in geoip]}


def _collection(services: Services, name: str) -> Documents:
    others: dict[str, Documents] = {"api_keys": services.api_keys, "users": services.users}
    return others.get(name) or services.documents[name]
