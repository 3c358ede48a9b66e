"""Token revocation (RFC 7009).

A refresh token is revoked with its access tokens, an access token alone. Unlike introspection, revocation is open to
clients that authenticate by PKCE only, like the refresh grant: they can only revoke their own tokens. Likewise an
entity can revoke its own tokens, and not those that it is the audience of.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import InvalidClient, UnsupportedTokenType
from identity.instants import numeric_date
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.issuance import issued_tokens, token_responses
from identity.services import Services
from identity.tokens import id_tokens


async def revoke(services: Services, call: Call, caller: AuthenticatedClient | EntityClient, form: Document) -> None:
    """Revoke a token of the client. Unknown, expired, forged and revoked tokens are ignored.

    The token is searched among all types, so that no hint is required (RFC 7009 section 2.1). Raises InvalidClient,
    also for the token of another client; InvalidRequest without a token; UnsupportedTokenType for an ID token.
    """
    client = caller if isinstance(caller, EntityClient) else caller.client
    token = token_responses.required_parameter(form, "token", "missing_token")
    issued = await issued_tokens.find_jwt(services, call, client, token)
    if issued is None:
        if isinstance(caller, AuthenticatedClient):
            await _revoke_refresh_token(services, call, caller, token)
    elif isinstance(client, EntityClient) and issued.claims["sub"] != client.entity_id:
        raise InvalidClient("client_id_mismatch", "The token was not issued to this client.")
    elif issued.kind == id_tokens.TTY:
        raise UnsupportedTokenType("unsupported_token_type", "An ID token cannot be revoked.")
    else:
        remaining_seconds = issued.claims["exp"] - numeric_date(call.now)
        await services.tokens.revocations.revoke(client.tenant_id, [issued.claims["jti"]], remaining_seconds)


async def _revoke_refresh_token(services: Services, call: Call, authenticated: AuthenticatedClient, token: str) -> None:
    """Revoke a refresh token; a recently rotated one is revoked with its successor."""
    client = authenticated.client
    presented = await issued_tokens.find_refresh_token(services, call, client, token)
    if presented is None:
        return
    record = presented.record
    authenticated.require_pkce(is_verified=bool(record["private"].get("hasProof")))
    user = await services.directory.users.find_cached(client.tenant_id, record["userId"])
    await token_responses.revoke_refresh_token(services, call, client, user, record["id"])
