"""Entities: validation, commits with their grants and client ids, and search."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from identity.call import Call, Caller, Document
from identity.domain.entities import entities as entity_rules
from identity.domain.objects import stored_credentials
from identity.domain.objects.resource_definition import Resource, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.errors import FieldError
from identity.ids import TenantId
from identity.operations.clients import client_ids
from identity.operations.entities import entity_types, user_access
from identity.operations.objects import crud, index_search, object_events
from identity.services import Services
from identity.store.mongo import Session, Write

_VALID_PARENT = "must name another entity of the tenant that is not a descendant of this one"

_MAXIMUM_DEPTH = 100
"""The maximum of ancestors of an entity; writing an entity reads all of them."""


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Return the entity to store. Raises Invalid."""
    entity = entity_rules.with_derived_members(document, stored)
    errors = []
    type_id = entity["type"].get("id")
    if type_id is None:
        errors.append(FieldError.missing("entity.type.id"))
    elif await services.directory.entity_types.find_cached(None, type_id) is None:
        errors.append(FieldError.invalid("entity.type.id", "must name an existing entity type"))
    if not await _has_valid_ancestors(services, entity):
        errors.append(FieldError.invalid("entity.parentId", _VALID_PARENT))
    errors += await client_ids.problems(services, entity, stored)
    crud.require_no_errors(errors)
    return entity


async def _commit(
    services: Services, call: Call, entity: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit an entity with its events, its client id and the grants on it."""
    await user_access.require_authority(services, call, *(one["type"]["id"] for one in (entity, stored) if one))
    writes = [*writes]
    if entity is not None:
        await crud.require_unique(services, RESOURCE, entity, stored)
        if client_ids.has_new_ids(entity, stored):
            writes.insert(0, functools.partial(client_ids.claim_for_entity, services, entity, stored))
        if _is_reparented(entity, stored):
            writes.append(functools.partial(_require_no_cycle, services, entity))
    if _affects_grants(entity, stored):
        writes.append(functools.partial(_update_grants, services, entity, stored))
    after = None if entity is None else await for_events(services, entity)
    before = None if stored is None else await for_events(services, stored)
    tenant_id = TenantId((entity or stored or {})["tenantId"])
    await services.bus.commit(call.within(tenant_id), object_events.change_of("entity", after, before, writes))


async def search(services: Services, call: Call, criteria: Document, prefix: str) -> Document:
    """Return `entities`, `total`, and `nextResults` when there are more. Raises Invalid."""
    total, found, more = await index_search.run(services.directory.entities, call, criteria, prefix)
    entities = [await to_response(services, call.caller, entity) for entity in found]
    return {"total": total, "entities": entities, **more}


async def to_response(services: Services, caller: Caller, entity: Document) -> Document:
    """Return the entity with its type, as its caller may see it."""
    response = crud.to_caller_response(services, caller, RESOURCE, await with_full_type(services, entity))
    if user_access.may_manage_users(caller) or not await user_access.is_reached(services, entity["type"]["id"]):
        return response
    return stored_credentials.masked(RESOURCE.credentials, response)


async def with_full_type(services: Services, entity: Document) -> Document:
    """Return the entity with its complete type."""
    return entity_rules.with_type(entity, await services.directory.entity_types.find_cached(None, entity["type"]["id"]))


RESOURCE = Resource(
    "entity",
    collection="entities",
    plural="entities",
    verbs=frozenset({"create", "retrieve", "update", "patch", "delete"}),
    # A token request identifies the tenant by the client id alone.
    unique=(Unique("clientId", ("clientId",), "entity.clientId"),),
    sealed=("clientSecret",),
    credentials=(Credential("clientSecret"),),
    prepare=prepare,
    commit=_commit,
    to_response=to_response,
    feature=entity_types.FEATURE,
)


async def for_events(services: Services, entity: Document) -> Document:
    """Return the entity as events and grants contain it."""
    return crud.to_response(services, RESOURCE, entity_rules.without_secret(await with_full_type(services, entity)))


def _is_reparented(document: Document | None, stored: Document | None) -> bool:
    """Whether a change gives an entity another parent; a new entity has no descendants and cannot form a cycle."""
    if document is None or stored is None or document.get("parentId") is None:
        return False
    return bool(document["parentId"] != stored.get("parentId"))


async def _require_no_cycle(services: Services, entity: Document, session: Session | None) -> None:
    """Check the ancestors again inside the transaction, where one of two concurrent changes that form a cycle fails."""
    seen, parent_id = {entity["id"]}, entity["parentId"]
    while parent_id is not None:
        parent = await services.directory.entities.find(TenantId(entity["tenantId"]), parent_id, session)
        if parent is None or parent_id in seen:
            crud.require_no_errors([FieldError.invalid("entity.parentId", _VALID_PARENT)])
        seen.add(parent_id)
        parent_id = None if parent is None else parent.get("parentId")


def _affects_grants(document: Document | None, stored: Document | None) -> bool:
    """Whether a change affects the grants on an entity."""
    return stored is not None and (
        document is None or (document["name"], document["type"]) != (stored["name"], stored["type"])
    )


async def _update_grants(
    services: Services, document: Document | None, stored: Document | None, session: Session | None
) -> None:
    """Delete the grants on a deleted entity, and update those on a changed one."""
    assert stored is not None, "a new entity has no grants"
    tenant_id = TenantId(stored["tenantId"])
    if document is None:
        await services.directory.entity_grants.delete_of_entity(tenant_id, stored["id"], session)
        return
    entity_type = await services.directory.entity_types.get(None, document["type"]["id"])
    await services.directory.entity_grants.update_target(
        tenant_id, document, entity_rules.permission_names(entity_type), session
    )


async def _has_valid_ancestors(services: Services, entity: Document) -> bool:
    seen = [entity["id"]]
    parent_id = entity.get("parentId")
    while parent_id is not None:
        parent = await services.directory.entities.find_cached(TenantId(entity["tenantId"]), parent_id)
        if parent is None or parent_id in seen or len(seen) > _MAXIMUM_DEPTH:
            return False
        seen.append(parent_id)
        parent_id = parent.get("parentId")
    return True
