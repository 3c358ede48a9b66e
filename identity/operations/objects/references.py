"""References between stored objects: a referenced object cannot be deleted, and a deleted one cannot be referenced.

Both sides write the referenced object inside a transaction: the one that adds a reference holds the object, the one
that deletes it removes it. MongoDB lets one of two concurrent transactions commit and the other retries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from identity.call import Document
from identity.domain.configuration import key_usage
from identity.domain.configuration.reference_table import TABLE, Reference
from identity.domain.objects.resource_definition import Resource
from identity.errors import FieldError, Invalid
from identity.instants import Instant
from identity.services import Services
from identity.store.mongo import Session, Write
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS


async def problems(
    services: Services, resource: Resource, document: Document, stored: Document | None, targets: tuple[str, ...]
) -> list[FieldError]:
    """Return a field error for each new reference to a missing object of the collections `targets`.

    This reports all problems at once; the writes of `checks` decide between concurrent requests.
    """
    errors = []
    before = set() if stored is None else {(member, value) for _, member, value in _references_in(resource, stored)}
    for row, member, value in _references_in(resource, document):
        if row.target in targets and (member, value) not in before:
            found = await services.runtime.collections[row.target].find_cached(document.get("tenantId"), value)
            if found is None:
                errors.append(_missing(f"{resource.name}.{member}"))
    return errors


def checks(
    services: Services, resource: Resource, after: Document | None, before: Document | None, now: Instant
) -> list[Write]:
    """Return the writes that a transaction runs before it writes an object; none where no reference is concerned.

    They hold the objects that `after` refers to and `before`, its stored state, does not, and raise Invalid with
    `[invalid]` for a missing one. Where `after` is None the object is deleted: they raise Invalid with `[inUse]` while
    other objects refer to it.
    """
    if after is None:
        assert before is not None, "an object exists before or after a change"
        is_target = any(row.target == resource.collection for row in TABLE)
        return [functools.partial(require_unreferenced, services, resource, before["id"], now)] if is_target else []
    stored = set() if before is None else {(row.target, value) for row, _, value in _references_in(resource, before)}
    added: dict[tuple[str, str], list[str]] = {}
    for row, member, value in _references_in(resource, after):
        if (row.target, value) not in stored and row.until is None:
            added.setdefault((row.target, value), []).append(member)
    return [functools.partial(_hold, services, resource, after, added)] if added else []


async def _hold(
    services: Services,
    resource: Resource,
    document: Document,
    targets: Mapping[tuple[str, str], list[str]],
    session: Session | None,
) -> None:
    """Hold referenced objects until the transaction ends. Raises Invalid for a missing one."""
    assert session is not None, "objects are held by a transaction"
    # Acquire all locks before the first read: a write by another transaction after it would abort this one.
    await services.runtime.database.lock_keys(session, [f"{target} {value}" for target, value in targets])
    for (target, value), members in sorted(targets.items()):
        if not await services.runtime.collections[target].lock(document.get("tenantId"), value, session):
            raise Invalid([_missing(f"{resource.name}.{members[-1]}")])
        if target == "keys":
            await _assign_key(services, resource, document, value, members, session)


async def require_unreferenced(
    services: Services, resource: Resource, object_id: str, now: Instant, session: Session | None = None
) -> None:
    """Raise Invalid with `[inUse]` while other objects refer to the object."""
    for row in TABLE:
        if row.target == resource.collection:
            where = _referring_to(row, object_id, now)
            if await services.runtime.collections[row.source].count_across_tenants(where, 1, session):
                users = row.source.replace("_", " ")
                message = f"The {resource.label} is in use: there are {users} that refer to it."
                raise Invalid.field("inUse", resource.id_name, message)


async def is_key_referenced(services: Services, key_id: str, now: Instant) -> bool:
    """Return whether a document refers to the key."""
    for row in TABLE:
        if row.target == "keys":
            where = _referring_to(row, key_id, now)
            if await services.runtime.collections[row.source].count_across_tenants(where, 1):
                return True
    return False


async def _assign_key(
    services: Services, resource: Resource, document: Document, key_id: str, members: list[str], session: Session
) -> None:
    """Record that a document names a key. Raises Invalid for a key that was generated for another tenant."""
    key = await services.configuration.keys.find(None, key_id, session)
    if key_id in CLIENT_SECRET_KEYS:
        return
    tenant_id = document["id"] if resource.collection == "tenants" else document.get("tenantId")
    if key is None or key_usage.owner(key) not in {None, tenant_id}:
        path = f"{resource.name}.{members[0]}"
        raise Invalid.field("invalid", path, f"The [{path}] names a key that was generated for another tenant.")
    now = services.clock.now()
    # Writing the key again would make every process read it again.
    is_published = await _is_published(services, tenant_id, key_id, now, session)
    if resource.collection != "identity_providers" and not is_published:
        change = {"$set": {"private.assignedInstant": now}}
        await services.configuration.keys.update(None, {"_id": key_id}, change, session)


async def _is_published(services: Services, tenant_id: str | None, key_id: str, now: Instant, session: Session) -> bool:
    """Return whether the tenant, or one of its applications, refers to the key, which its key set holds then."""
    owners = {"tenants": {"_id": tenant_id}, "applications": {"tenantId": tenant_id}}
    for row in TABLE:
        if row.target == "keys" and row.source in owners and tenant_id is not None:
            where = {**_referring_to(row, key_id, now), **owners[row.source]}
            if await services.runtime.collections[row.source].count_across_tenants(where, 1, session):
                return True
    return False


def _references_in(resource: Resource, document: Document) -> Iterator[tuple[Reference, str, str]]:
    """Yield (row, member, id) of each reference in a document."""
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


def _referring_to(row: Reference, object_id: str, now: Instant) -> Document:
    """Return the condition on documents of the row's source that refer to the object."""
    if row.until is None:
        return {"$or": [{member: object_id} for member in row.members]}
    paths = (member.rpartition(".") for member in row.members)
    return {"$or": [{array: {"$elemMatch": {last: object_id, row.until: {"$gt": now}}}} for array, _, last in paths]}


def _missing(path: str) -> FieldError:
    return FieldError.invalid(path, "must name an existing object")
