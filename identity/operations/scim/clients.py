"""Authenticate SCIM clients: entities with an access token for an entity of the tenant's SCIM server type.

The published permissions are those of the entity's grant. They are checked in the token and in the grant itself at
every request, so that a change of the grant takes effect although clients keep their tokens for months.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from identity import request_facts, write_guard
from identity.call import Call, Document, EntityCaller
from identity.domain.entities import entities as entity_rules
from identity.domain.scim.errors import ScimError
from identity.ids import TenantId, parse_id
from identity.instants import Instant
from identity.operations.clients import clients
from identity.operations.entities import entity_clients
from identity.operations.groups import administrators
from identity.services import Services
from identity.tokens.issuer import VerifiedEntityToken

_ENDPOINT: Final = "/api/user"
"""The endpoint that a SCIM client has no methods of: it acts on no administrator."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScimCall:
    """A call of a SCIM client: its tenant, its permissions, and the base URL of the resources."""

    call: Call
    caller: EntityCaller
    tenant: Document
    permissions: frozenset[str]
    base_url: str

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])

    def require(self, permission: str) -> None:
        """Raise ScimError without a permission."""
        if permission not in self.permissions:
            raise ScimError(
                401,
                "Your supplied token is not authorized to make this SCIM request.",
                log_detail=f"the permission {permission} is missing",
            )


async def authenticate(services: Services, call: Call, authorization: str, tenant_header: str | None) -> ScimCall:
    """Return the call of a SCIM client. Raises ScimError: 404 while SCIM is disabled, 401 for an invalid token."""
    where = {"scimServerConfiguration.enabled": True}
    if not await services.configuration.tenants.list_cached(None, "with SCIM", where, ("_id",), limit=1):
        raise _disabled()
    verified = await _verify(services, call.now, authorization)
    tenant = verified.tenant
    if tenant_header and parse_id(tenant_header.strip()) != tenant["id"]:
        raise _unauthorized("the tenant header differs from the tenant of the token")
    settings = tenant["scimServerConfiguration"]
    if not settings["enabled"]:
        raise _disabled()
    if verified.entity["type"]["id"] != settings.get("clientEntityTypeId"):
        raise _unauthorized("the entity of the token is no SCIM client")
    granted = await _permissions(services, verified, settings.get("serverEntityTypeId"))
    request_facts.note_client(str(verified.entity["clientId"]))
    caller = _caller(verified)
    write_guard.begin(administrators.guard_of(services, caller))
    call = dataclasses.replace(call, caller=caller).within(TenantId(tenant["id"]))
    return ScimCall(call, caller, tenant, granted, f"{call.origin.base_url}/api/scim/resource/v2")


async def has_valid_token(services: Services, authorization: str, now: Instant) -> bool:
    """Return whether a request has a live access token of an entity; its permissions are not checked."""
    try:
        await _verify(services, now, authorization)
    except ScimError:
        return False
    return True


async def _verify(services: Services, now: Instant, authorization: str) -> VerifiedEntityToken:
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized("the request has no bearer token")
    verified = await services.tokens.issuer.verify_any_access_token(
        token.strip(), clients.client_finder(services), functools.partial(_find_entity, services), now
    )
    if not isinstance(verified, VerifiedEntityToken):
        raise _unauthorized("the token is not a valid access token of an entity")
    if "cnf" in verified.claims:
        raise _unauthorized("the token is bound to a key or certificate")
    if await services.tokens.revocations.is_revoked(TenantId(verified.tenant["id"]), verified.revocable_ids):
        raise _unauthorized("the token was revoked")
    return verified


async def _find_entity(services: Services, entity_id: str) -> tuple[Document, Document, Document] | None:
    entity = await services.directory.entities.find_cached_across_tenants(entity_id)
    if entity is None:
        return None
    return await entity_clients.find_with_tenant_and_type(services, TenantId(entity["tenantId"]), entity_id)


async def _permissions(services: Services, verified: VerifiedEntityToken, server_type_id: str | None) -> frozenset[str]:
    """Return the permissions of the token on SCIM servers that the grants and the type of the server still have."""
    tenant_id, claimed = TenantId(verified.tenant["id"]), verified.claims.get("permissions")
    server_type = None
    if server_type_id is not None:
        server_type = await services.directory.entity_types.find_cached(None, server_type_id)
    if server_type is None or not isinstance(claimed, dict):
        return frozenset()
    defined, found = entity_rules.permission_names(server_type), set()
    for target_id in verified.targets:
        target = await services.directory.entities.find_cached(tenant_id, target_id)
        key = {"entityId": target_id, "recipientEntityId": verified.entity["id"]}
        grant = await services.directory.entity_grants.find_cached_where(tenant_id, key)
        if target is not None and target["type"]["id"] == server_type_id and grant is not None:
            found |= {name for name in claimed.get(target_id, ()) if name in grant["permissions"]}
    return frozenset(found & set(defined))


def _caller(verified: VerifiedEntityToken) -> EntityCaller:
    """Return the caller of a SCIM client, which has no authority over administrators."""
    return EntityCaller(
        {
            "id": verified.entity["id"],
            "keyManager": False,
            "metaData": {"attributes": {"description": verified.entity["name"]}},
            "permissions": {"endpoints": {_ENDPOINT: []}},
            "tenantId": verified.tenant["id"],
        }
    )


def _unauthorized(reason: str) -> ScimError:
    return ScimError(401, "The request needs an access token of a SCIM client.", log_detail=reason)


def _disabled() -> ScimError:
    return ScimError(404, "SCIM is not available here.", log_detail="SCIM is disabled")
