"""Issued tokens as clients present them for introspection and revocation."""

from __future__ import annotations

import functools

from identity.call import Call, Document
from identity.errors import InvalidClient
from identity.ids import TenantId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.entities import entity_clients
from identity.operations.entities.entity_clients import EntityClient
from identity.services import Services
from identity.store.refresh_tokens import PresentedRefreshToken
from identity.tokens.issuer import FindClient, VerifiedEntityToken, VerifiedToken
from identity.tokens.jws import Rejection

ACCESS_TOKEN = "access_token"  # noqa: S105 (the name of a kind of token)
ID_TOKEN = "id_token"  # noqa: S105
REFRESH_TOKEN = "refresh_token"  # noqa: S105


async def find_jwt(
    services: Services, call: Call, client: Client | EntityClient, token: str
) -> VerifiedToken | VerifiedEntityToken | None:
    """Return an access or ID token of the client's tenant that has not expired; revocation is not checked.

    The token of an entity also belongs to its target entities. Raises InvalidClient for a token of other clients.
    """
    found = await verify_jwt(services, call, client.tenant_id, token)
    if isinstance(found, Rejection):
        return None
    if isinstance(found, VerifiedEntityToken):
        _require(isinstance(client, EntityClient) and client.entity_id in {found.claims["sub"], *found.targets})
    else:
        _require(isinstance(client, Client) and client.is_audience_of(found))
    return found


async def verify_jwt(
    services: Services, call: Call, tenant_id: TenantId, token: str, kind: str | None = None
) -> VerifiedToken | VerifiedEntityToken | Rejection:
    """Verify a token of the tenant: ACCESS_TOKEN, ID_TOKEN, or either; revocation is not checked."""
    find_client = functools.partial(_find_client_of_tenant, tenant_id, clients.client_finder(services))
    find_entity = functools.partial(entity_clients.find_with_tenant_and_type, services, tenant_id)
    found: VerifiedToken | VerifiedEntityToken | Rejection = Rejection.INVALID
    if kind != ID_TOKEN:
        found = await services.tokens.issuer.verify_any_access_token(token, find_client, find_entity, call.now)
    if found is Rejection.INVALID and kind != ACCESS_TOKEN:
        found = await services.tokens.issuer.verify_id_token(token, find_client, call.now)
    return found


async def find_refresh_token(
    services: Services, call: Call, client: Client, token: str
) -> PresentedRefreshToken | None:
    """Return the live record of a refresh token, by its current or a recently rotated value.

    Raises InvalidClient for the token of another client.
    """
    presented = await services.tokens.refresh_tokens.find_by_value(client.tenant_id, token, call.now)
    if presented is None or not (presented.is_current or presented.spent_instant is not None):
        return None
    _require(client.client_id == presented.record.get("applicationId"))
    return presented


async def _find_client_of_tenant(
    tenant_id: TenantId, find_client: FindClient, client_id: str
) -> tuple[Document, Document] | None:
    found = await find_client(client_id)
    return found if found is not None and found[0]["id"] == tenant_id else None


def _require(is_own: bool) -> None:
    if not is_own:
        raise InvalidClient("client_id_mismatch", "The token was not issued to this client.")
