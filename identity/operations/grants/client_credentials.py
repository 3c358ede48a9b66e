"""grant_type=client_credentials: an access token for an entity itself (RFC 6749 section 4.4).

Its permissions on other entities are those of the grants it has. Entities, types and grants are read through caches.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.authorization import entity_scopes
from identity.domain.clients import sender_constraints
from identity.domain.entities import entities as entity_rules
from identity.operations.clients import dpop_proofs
from identity.operations.clients.clients import TenantHints
from identity.operations.entities import entity_clients, entity_types
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.lambdas import token_lambdas
from identity.operations.objects import features
from identity.services import Services
from identity.tokens import jws
from identity.tokens.access_tokens import EntityTokenContext

grant_type = "client_credentials"
parameters = ("scope",)


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    """A target entity, its type, and the permissions that the client has on it."""

    entity: Document
    entity_type: Document
    permissions: tuple[str, ...]


async def identify(
    services: Services, authorization: str, form: Document, hints: TenantHints, base_url: str
) -> EntityClient | None:
    """Authenticate the entity of a request; None if the client is no entity. Raises NotLicensed and InvalidClient."""
    features.require(services, entity_types.FEATURE)
    return await entity_clients.authenticate(services, authorization, form, hints, base_url)


async def exchange(services: Services, call: Call, client: EntityClient, form: Document) -> Document:
    """Return the token response for an entity. Raises InvalidScope and LambdaFailed."""
    confirmation = sender_constraints.confirmation_claim(client.key_thumbprint)
    scope = form.get("scope", "").strip() or None
    requested = entity_scopes.parse(scope)
    targets = [await _get_target(services, client, target_id, names) for target_id, names in requested.items()]
    permissions = {target.entity["id"]: target.permissions for target in targets}
    context = EntityTokenContext(client.tenant, client.entity, client.entity_type, permissions, scope, confirmation)
    has_lambda = token_lambdas.has_client_lambda(client.tenant)
    populate = functools.partial(_populate, services, call, client, targets) if has_lambda else None
    issued = await services.tokens.issuer.entity_token(context, call.now, populate)
    if len(issued.token) > jws.MAXIMUM_LENGTH:
        raise entity_scopes.unknown_target("the targets do not fit into one token")
    response: Document = {
        "access_token": issued.token,
        "expires_in": issued.expires_in,
        "token_type": dpop_proofs.token_type(confirmation),
    }
    return response if scope is None else {**response, "scope": scope}


async def _get_target(services: Services, client: EntityClient, target_id: str, requested: Sequence[str]) -> _Target:
    """Return a target with the granted permissions that its type still defines. Raises InvalidScope."""
    entity = await services.directory.entities.find_cached(client.tenant_id, target_id)
    if entity is None:
        raise entity_scopes.unknown_target(target_id)
    key = {"entityId": target_id, "recipientEntityId": client.entity_id}
    grant = await services.directory.entity_grants.find_cached_where(client.tenant_id, key)
    entity_type = await services.directory.entity_types.find_cached(None, entity["type"]["id"])
    if grant is None or entity_type is None:
        raise entity_scopes.unknown_target(target_id)
    defined = entity_rules.permission_names(entity_type)
    granted = [permission for permission in grant["permissions"] if permission in defined]
    return _Target(entity, entity_type, entity_scopes.granted(target_id, requested, granted))


async def _populate(
    services: Services, call: Call, client: EntityClient, targets: Sequence[_Target], claims: Document
) -> Document:
    """Return the claims as changed by the tenant's lambda."""
    recipient = entity_rules.for_lambda(client.entity, client.entity_type)
    entities = [entity_rules.for_lambda(target.entity, target.entity_type) for target in targets]
    permissions = {target.entity["id"]: target.permissions for target in targets}
    return await token_lambdas.client_credentials(
        services, call, client.tenant, claims, recipient, entities, permissions
    )
