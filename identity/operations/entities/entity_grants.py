"""Grants: the permissions that a user or an entity, the recipient, has on an entity, the target."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from identity.call import Call, Caller, Document
from identity.domain.entities import entities as entity_rules
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Conflict, Duplicate, FieldError, Invalid, NotFound
from identity.ids import TenantId, new_id, parse_id
from identity.operations.entities import entities, entity_types, user_access
from identity.operations.objects import crud
from identity.services import Services
from identity.store.entities import recipient
from identity.store.mongo import Session, Write


async def prepare(services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Return the grant to store. Raises Invalid."""
    tenant_id = TenantId(document["tenantId"])
    target = await services.directory.entities.get(tenant_id, document["entityId"])
    entity_type = await services.directory.entity_types.get(None, target["type"]["id"])
    errors = entity_rules.grant_problems(document, entity_type)
    errors += await _recipient_problems(services, tenant_id, document)
    crud.require_no_errors(errors)
    private = {"entityName": target["name"], "typeId": entity_type["id"]}
    return {
        **document,
        "permissions": entity_rules.permissions_to_grant(entity_type, document["permissions"]),
        "private": private,
    }


@crud.retry_on_conflict
async def upsert(services: Services, call: Call, body: Document, entity_id: str) -> None:
    """Create a grant, or replace that of the recipient. Raises NotFound and Invalid."""
    target = await crud.retrieve(services, call, entities.RESOURCE, entity_id)
    await user_access.require_authority(services, call, target["type"]["id"])
    tenant_id = TenantId(target["tenantId"])
    own = {"id": new_id(), "tenantId": tenant_id, "entityId": entity_id, **crud.creation_instants(call.now)}
    grant = await crud.validate(services, call, RESOURCE, body, own, None)
    stored = await services.directory.entity_grants.find_where(tenant_id, {"entityId": entity_id, **recipient(grant)})
    if stored is None:
        await _insert(services, tenant_id, grant)
        return
    grant |= crud.update_instants(stored, call.now)
    await services.directory.entity_grants.replace(tenant_id, grant, stored["lastUpdateInstant"])


async def retrieve_all(services: Services, call: Call, entity_id: str) -> list[Document]:
    """Return all grants on an entity, newest first. Raises NotFound."""
    target = await crud.retrieve(services, call, entities.RESOURCE, entity_id)
    found = await services.directory.entity_grants.find_all(TenantId(target["tenantId"]), {"entityId": entity_id})
    return [await to_response(services, call.caller, grant) for grant in found]


async def retrieve(services: Services, call: Call, entity_id: str, recipient_ids: Mapping[str, str]) -> Document:
    """Return the grant of one recipient on an entity. Raises NotFound and Invalid."""
    return await to_response(services, call.caller, await _find(services, call, entity_id, recipient_ids))


async def delete(services: Services, call: Call, entity_id: str, recipient_ids: Mapping[str, str]) -> None:
    """Delete the grant of one recipient. Raises NotFound and Invalid."""
    grant = await _find(services, call, entity_id, recipient_ids)
    await user_access.require_authority(services, call, grant["private"]["typeId"])
    await services.directory.entity_grants.delete(TenantId(grant["tenantId"]), grant["id"])


async def to_response(services: Services, _caller: Caller, grant: Document) -> Document:
    """Return the grant in API form, with its target and the permissions that the target's type still has."""
    target = await services.directory.entities.find_cached(TenantId(grant["tenantId"]), grant["entityId"])
    if target is not None:
        target = await entities.for_events(services, target)
        names = entity_rules.permission_names(target["type"])
        grant = {**grant, "entity": target, "permissions": [name for name in grant["permissions"] if name in names]}
    return crud.to_response(services, RESOURCE, grant)


RESOURCE = Resource(
    "grant",
    path="/api/entity/grant",
    schema="api/entity-grant.json",
    collection="entity_grants",
    verbs=frozenset({"search"}),
    unique=(
        Unique("recipientEntity", ("entityId", "recipientEntityId"), "grant.recipientEntityId", sparse=True),
        Unique("user", ("entityId", "userId"), "grant.userId", sparse=True),
    ),
    search_rules=SearchRules(
        {"entityId": "exact", "name": "text", "userId": "exact"},
        {"insertInstant": "insertInstant", "name": "private.entityName"},
        members={"name": "private.entityName"},
    ),
    prepare=prepare,
    feature=entity_types.FEATURE,
    to_response=to_response,
)


async def _find(services: Services, call: Call, entity_id: str, recipient_ids: Mapping[str, str]) -> Document:
    target = await crud.retrieve(services, call, entities.RESOURCE, entity_id)
    if not recipient_ids:
        message = "You must specify the [recipientEntityId] or the [userId]."
        raise Invalid.field("missing", "recipientEntityId", message)
    ids = {name: parse_id(value) for name, value in recipient_ids.items()}
    crud.require_no_errors(
        [
            FieldError.of("couldNotConvert", name, f"The [{name}] must be a UUID.")
            for name, value in ids.items()
            if value is None
        ]
    )
    grant = await services.directory.entity_grants.find_where(
        TenantId(target["tenantId"]), {"entityId": entity_id, **ids}
    )
    if grant is None:
        raise NotFound
    return grant


async def _insert(services: Services, tenant_id: TenantId, grant: Document) -> None:
    """Insert a grant while its target and recipient are locked. Raises NotFound, Invalid and Conflict."""
    writes: list[Write] = [
        functools.partial(_lock_target_and_recipient, services, tenant_id, grant),
        functools.partial(services.directory.entity_grants.insert, tenant_id, grant),
    ]
    try:
        await services.runtime.database.execute(writes)
    except Duplicate as duplicate:
        raise Conflict from duplicate


async def _lock_target_and_recipient(
    services: Services, tenant_id: TenantId, grant: Document, session: Session
) -> None:
    if not await services.directory.entities.lock(tenant_id, grant["entityId"], session):
        raise NotFound
    ((member, value),) = recipient(grant).items()
    recipients = services.directory.users if member == "userId" else services.directory.entities
    if not await recipients.lock(tenant_id, value, session):
        raise Invalid([_unknown(member)])


async def _recipient_problems(services: Services, tenant_id: TenantId, grant: Document) -> list[FieldError]:
    errors = []
    for member, value in recipient(grant).items():
        recipients = services.directory.users if member == "userId" else services.directory.entities
        if await recipients.find_cached(tenant_id, value) is None:
            errors.append(_unknown(member))
    return errors


def _unknown(member: str) -> FieldError:
    return FieldError.invalid(f"grant.{member}", "must name one of the same tenant")
