"""The keys of a tenant: those that it and its applications sign and verify with."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.configuration.token_settings import TokenSettings
from identity.ids import TenantId
from identity.services import Services
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS


async def signing_keys_of(services: Services, tenant: Document) -> set[str]:
    """Return the ids of the keys that the tenant and its applications sign with."""
    return {key_id for settings in await _settings(services, tenant) for key_id in settings.signing_keys.values()}


async def assigned_to(services: Services, tenant: Document) -> set[str]:
    """Return the ids of the keys that the tenant and its applications sign and verify with."""
    return {key_id for settings in await _settings(services, tenant) for key_id in settings.key_ids}


async def _settings(services: Services, tenant: Document) -> list[TokenSettings]:
    applications = await services.configuration.applications.list_cached(TenantId(tenant["id"]), "all", {})
    return [TokenSettings.of(owner) for owner in (tenant, *applications)]


async def not_assigned(services: Services, call: Call, wanted: set[str], stored: set[str]) -> set[str]:
    """Return the ids of the new keys that the caller may not reference; a caller without a tenant may reference any."""
    tenant_id = call.caller.tenant_id
    fresh = wanted - stored - CLIENT_SECRET_KEYS.keys()
    if tenant_id is None or not fresh:
        return set()
    tenant = await services.configuration.tenants.get(None, tenant_id)
    return fresh - await assigned_to(services, tenant)
