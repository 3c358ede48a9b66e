"""grant_type=client_credentials: a token for an entity itself (RFC 6749 section 4.4).

What the entity may do with which others stands in the grants that it was given. Entities, types and grants are read
through the caches: a warm request asks no store.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.authorization import entity_scopes
from identity.domain.entities import entities as rules
from identity.operations.clients import dpop_proofs
from identity.operations.clients.clients import TenantHints
from identity.operations.entities import entity_clients, entity_types
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.lambdas import token_lambdas
from identity.operations.objects import features
from identity.services import Services
from identity.tokens import jws
from identity.tokens.entity_tokens import EntityTokenContext

grant_type = "client_credentials"
parameters = ("scope",)


async def identify(
    services: Services, authorization: str, form: Document, hints: TenantHints, base_url: str
) -> EntityClient | None:
    """The entity that asks, authenticated; None for any other client. Raises NotLicensed too where entities are off."""
    features.require(services, entity_types.FEATURE)
    return await entity_clients.identify(services, authorization, form, hints, base_url)


async def exchange(
    services: Services,
    call: Call,
    client: EntityClient,
    form: Document,
    proof: dpop_proofs.PresentedDpopProof | None = None,
) -> Document:
    """The token response for an entity, and for the key that it proves to have (RFC 9449).

    Raises InvalidScope, InvalidDpopProof and LambdaFailed.
    """
    confirmation = dpop_proofs.confirmation_claim(
        await dpop_proofs.verify_proof(services, call, client.tenant_id, proof)
    )
    scope = form.get("scope", "").strip() or None
    wanted = entity_scopes.parse(scope)
    targets = [await _target(services, client, target_id, names) for target_id, names in wanted.items()]
    permissions = {target.entity["id"]: target.permissions for target in targets}
    login = EntityTokenContext(client.tenant, client.entity, client.entity_type, permissions, scope, confirmation)
    is_populated = token_lambdas.has_client_lambda(client.tenant)
    populate = functools.partial(_populated, services, call, client, targets) if is_populated else None
    issued = await services.tokens.entity_token(login, call.now, populate)
    if len(issued.token) > jws.MAXIMUM_LENGTH:
        raise entity_scopes.unknown_target("they do not fit into one token")
    answer: Document = {"access_token": issued.token, "expires_in": issued.expires_in}
    answer["token_type"] = dpop_proofs.token_type(confirmation)
    return answer if scope is None else {**answer, "scope": scope}


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    """An entity that the caller speaks to, its type, and what the caller may do there."""

    entity: Document
    entity_type: Document
    permissions: tuple[str, ...]


async def _target(services: Services, client: EntityClient, target_id: str, wanted: Sequence[str]) -> _Target:
    """What was granted counts as far as the target's type still has it. Raises InvalidScope."""
    entity = await services.entities.find_cached(client.tenant_id, target_id)
    if entity is None:
        raise entity_scopes.unknown_target(target_id)
    named = {"entityId": target_id, "recipientEntityId": client.entity_id}
    grant = await services.entity_grants.find_cached_where(client.tenant_id, named)
    entity_type = await services.entity_types.find_cached(None, entity["type"]["id"])
    if grant is None or entity_type is None:
        raise entity_scopes.unknown_target(target_id)
    names = rules.permission_names(entity_type)
    held = [permission for permission in grant["permissions"] if permission in names]
    return _Target(entity, entity_type, entity_scopes.granted(target_id, wanted, held))


async def _populated(
    services: Services, call: Call, client: EntityClient, targets: Sequence[_Target], claims: Document
) -> Document:
    """The claims as the tenant's lambda leaves them."""
    recipient = rules.for_lambda(client.entity, client.entity_type)
    seen = [rules.for_lambda(target.entity, target.entity_type) for target in targets]
    permissions = {target.entity["id"]: target.permissions for target in targets}
    return await token_lambdas.client_credentials(services, call, client.tenant, claims, recipient, seen, permissions)
