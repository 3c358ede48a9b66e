"""The keys of a tenant: those that it and its applications sign and verify with."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.configuration.key_rotation import VERIFICATION_MEMBERS
from identity.domain.configuration.tenants import KEY_MEMBERS
from identity.ids import TenantId
from identity.services import Services
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS


async def signing_keys_of(services: Services, tenant: Document) -> set[str]:
    """Return the ids of the keys that the tenant and its applications sign with."""
    configurations = await _jwt_configurations(services, tenant)
    return {settings[name] for settings in configurations for name in KEY_MEMBERS if name in settings}


async def assigned_to(services: Services, tenant: Document) -> set[str]:
    """Return the ids of the keys that the tenant and its applications sign and verify with."""
    return {
        key_id for settings in await _jwt_configurations(services, tenant) for key_id in referenced_key_ids(settings)
    }


def referenced_key_ids(jwt_configuration: Document) -> set[str]:
    """Return the ids of the keys of a jwtConfiguration."""
    signing = {jwt_configuration[name] for name in KEY_MEMBERS if name in jwt_configuration}
    return signing.union(*(jwt_configuration.get(name, ()) for name in VERIFICATION_MEMBERS.values()))


async def _jwt_configurations(services: Services, tenant: Document) -> list[Document]:
    applications = await services.configuration.applications.list_cached(TenantId(tenant["id"]), "all", {})
    return [holder["jwtConfiguration"] for holder in (tenant, *applications)]


async def not_assigned(services: Services, call: Call, wanted: set[str], stored: set[str]) -> set[str]:
    """Return the ids of the new keys that the caller may not reference; a caller without a tenant may reference any."""
    tenant_id = call.caller.tenant_id
    fresh = wanted - stored - CLIENT_SECRET_KEYS.keys()
    if tenant_id is None or not fresh:
        return set()
    tenant = await services.configuration.tenants.get(None, tenant_id)
    return fresh - await assigned_to(services, tenant)
