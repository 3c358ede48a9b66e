"""Assignment of keys: each key serves one purpose, and a key generated for a tenant serves that tenant alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from identity.call import Call, Document
from identity.domain.configuration import key_usage
from identity.domain.configuration.key_rotation import VERIFICATION_MEMBERS
from identity.domain.configuration.key_usage import MIXED, USAGES
from identity.domain.configuration.tenants import KEY_MEMBERS
from identity.ids import TenantId
from identity.services import Services
from identity.store.mongo import Session
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS

IsReferenced = Callable[[str, Session | None], Awaitable[bool]]
"""(collection, session) -> whether a document of the collection refers to the key."""

_log = structlog.get_logger(__name__)


async def assign(
    services: Services,
    collection: str,
    member: str,
    tenant_id: str | None,
    key_id: str,
    is_referenced: IsReferenced,
    session: Session,
) -> bool:
    """Record the purpose of a key that a document is about to refer to; False when the key must not be used for it."""
    key = await services.keys.find(None, key_id, session)
    if key is None or key_id in CLIENT_SECRET_KEYS:
        return key is not None
    if key_usage.owner(key) not in {None, tenant_id}:
        return False
    wanted, held = USAGES[collection], key_usage.usage(key)
    if key_usage.only_verifies(collection, member, key):
        return True
    others = [other for other, usage in USAGES.items() if usage != wanted]
    if held not in {None, wanted} and any([await is_referenced(other, session) for other in others]):
        return False
    change = {"private.usage": wanted, "private.assignedInstant": services.clock.now()}
    await services.keys.update(None, {"_id": key_id}, {"$set": change}, session)
    return True


async def signing_keys_of(services: Services, tenant: Document) -> set[str]:
    """The ids of the keys that the tenant and its applications sign with."""
    configurations = await _jwt_configurations(services, tenant)
    return {settings[name] for settings in configurations for name in KEY_MEMBERS if name in settings}


async def assigned_to(services: Services, tenant: Document) -> set[str]:
    """The ids of the keys that the tenant and its applications sign and verify with."""
    return {key_id for settings in await _jwt_configurations(services, tenant) for key_id in named_by(settings)}


def named_by(jwt_configuration: Document) -> set[str]:
    """The ids of the keys that a jwtConfiguration names."""
    signing = {jwt_configuration[name] for name in KEY_MEMBERS if name in jwt_configuration}
    return signing.union(*(jwt_configuration.get(name, ()) for name in VERIFICATION_MEMBERS.values()))


async def _jwt_configurations(services: Services, tenant: Document) -> list[Document]:
    applications = await services.applications.list_cached(TenantId(tenant["id"]), "all", {})
    return [holder["jwtConfiguration"] for holder in (tenant, *applications)]


async def not_assigned(services: Services, call: Call, wanted: set[str], stored: set[str]) -> set[str]:
    """The ids of the wanted keys that a tenant-scoped caller may not name: a caller without a tenant may name any."""
    tenant_id = call.caller.tenant_id
    fresh = wanted - stored - CLIENT_SECRET_KEYS.keys()
    if tenant_id is None or not fresh:
        return set()
    tenant = await services.tenants.get(None, tenant_id)
    return fresh - await assigned_to(services, tenant)


async def record_existing(services: Services, is_referenced: Callable[[str, str], Awaitable[bool]]) -> None:
    """Record the purpose of keys that were stored before purposes were recorded. Safe to repeat."""
    async for key in services.keys.iterate(None, {"private.usage": {"$exists": False}}):
        if key["id"] in CLIENT_SECRET_KEYS:
            continue
        found = {usage for collection, usage in USAGES.items() if await is_referenced(collection, key["id"])}
        if not found:
            continue
        usage = found.pop() if len(found) == 1 else MIXED
        if usage == MIXED:
            _log.warning("a key serves more than one purpose: assign a key of its own to each", key_id=key["id"])
        where = {"_id": key["id"], "private.usage": {"$exists": False}}
        await services.keys.update(None, where, {"$set": {"private.usage": usage}})
