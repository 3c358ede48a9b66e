"""Entities as OAuth clients: identified by client id and always authenticated with their secret."""

from __future__ import annotations

import dataclasses

from identity import request_facts
from identity.call import Document
from identity.domain.authorization import client_authentication as client_authentication_rules
from identity.errors import InvalidClient, InvalidRequest
from identity.ids import TenantId, parse_id
from identity.operations.clients import client_assertions, client_authentication, client_ids, clients
from identity.operations.clients.client_assertions import Signer
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import TenantHints
from identity.operations.entities import entity_types
from identity.operations.objects import features
from identity.services import Services

_ASSERTIONS = ("client_secret_jwt",)


@dataclasses.dataclass(frozen=True, slots=True)
class EntityClient:
    """An entity of an active tenant, and its type. The documents are shared and must not be modified."""

    tenant: Document
    entity: Document
    entity_type: Document
    key_thumbprint: str | None = None

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])

    @property
    def entity_id(self) -> str:
        """The id of the entity, which is the `sub` of its tokens."""
        return str(self.entity["id"])


async def authenticate(
    services: Services, authorization: str, form: Document, hints: TenantHints, base_url: str
) -> EntityClient | None:
    """Authenticate the entity of a request; return None when the client id is not that of an entity.

    Raises InvalidRequest and InvalidClient.
    """
    presented = client_authentication.read_credentials(authorization, form)
    named = await clients.find_named_tenant(services, hints)
    entity = await _find_entity(services, presented.client_id)
    if entity is None:
        return None
    request_facts.note_client(entity["clientId"])
    try:
        tenant = await clients.get_tenant(services, named, presented.client_id, entity)
    except clients.UnknownClientError as error:
        raise InvalidClient(error.reason, error.description) from error
    if isinstance(presented, client_authentication_rules.PresentedCredentials):
        client_authentication_rules.require_secret(presented, entity["clientSecret"])
    else:
        signer = Signer(
            TenantId(tenant["id"]), tenant["issuer"], entity["clientId"], _ASSERTIONS, entity["clientSecret"]
        )
        await client_assertions.verify(services, signer, presented, base_url)
    return EntityClient(tenant, entity, await _get_type(services, entity))


async def authenticate_any(
    services: Services,
    use: str,
    authorization: str,
    form: Document,
    hints: TenantHints,
    base_url: str,
    certificate: bytes | None = None,
) -> AuthenticatedClient | EntityClient:
    """Authenticate the application, for a use of the endpoint, or entity of a request.

    Raises InvalidRequest and InvalidClient. Client ids are unique across both, so that a cached application
    needs no query for an entity.
    """
    presented = client_authentication.read_credentials(authorization, form)
    is_application = client_ids.peek_application(services, presented.client_id) is not None
    if not (is_application or features.off(services, [entity_types.FEATURE])):
        entity = await authenticate(services, authorization, form, hints, base_url)
        if entity is not None:
            return entity
    identified = await client_authentication.identify(services, authorization, form, hints, base_url, certificate)
    return identified.authenticate(use)


async def find_with_tenant_and_type(
    services: Services, tenant_id: TenantId, entity_id: str
) -> tuple[Document, Document, Document] | None:
    """Return tenant, entity and type of the entity that a token was issued to, or None."""
    entity = await services.directory.entities.find_cached(tenant_id, entity_id)
    if entity is None:
        return None
    try:
        tenant = await clients.get_tenant(services, None, entity_id, entity)
    except InvalidRequest:
        return None
    return tenant, entity, await _get_type(services, entity)


async def _find_entity(services: Services, client_id: str) -> Document | None:
    # Client ids that are UUIDs are stored in canonical form, as all ids.
    return await services.directory.entities.find_cached_where_across_tenants(
        {"clientId": parse_id(client_id) or client_id}
    )


async def _get_type(services: Services, entity: Document) -> Document:
    """Return the type of an entity, which cannot be deleted while the entity exists."""
    found = await services.directory.entity_types.find_cached(None, entity["type"]["id"])
    if found is None:
        raise LookupError(f"the entity {entity['id']} has no type")
    return found
