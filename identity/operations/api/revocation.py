"""Token revocation (RFC 7009): a client gives back a token that it has no more use for.

A refresh token ends with every access token that came of it; an access token ends alone. Unlike introspection this is
open to a client that proves itself by PKCE alone, as far as the refresh grant is: it can only take from itself. For the
same reason an entity ends its own tokens alone, and not those that it is the target of.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import InvalidClient, UnsupportedTokenType
from identity.instants import numeric_date
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.grants import refresh_token
from identity.operations.issuance import issued_tokens, token_responses
from identity.services import Services
from identity.tokens import id_tokens


async def revoke(services: Services, call: Call, asking: IdentifiedClient | EntityClient, form: Document) -> None:
    """End a token of the client. Nothing happens to one that is unknown, expired, forged or revoked already.

    Every kind is looked for, so that no hint is needed (RFC 7009 section 2.1). Raises InvalidClient also for the token
    of another client, InvalidRequest when there is no token, UnsupportedTokenType for an ID token, which says who
    logged in and opens nothing.
    """
    if isinstance(asking, IdentifiedClient):
        asking.require(refresh_token.grant_type, pkce_verified=True)
    client = asking if isinstance(asking, EntityClient) else asking.client
    token = token_responses.required_parameter(form, "token", "missing_token")
    found = await issued_tokens.find_jwt(services, call, client, token)
    if found is None:
        if isinstance(asking, IdentifiedClient):
            await _refresh_token(services, call, asking, token)
    elif isinstance(client, EntityClient) and found.claims["sub"] != client.entity_id:
        raise InvalidClient("client_id_mismatch", "The token was not issued to this client.")
    elif found.kind == id_tokens.TTY:
        raise UnsupportedTokenType("unsupported_token_type", "An ID token cannot be revoked.")
    else:
        rest_seconds = found.claims["exp"] - numeric_date(call.now)
        await services.tokens.revocations.revoke(client.tenant_id, [found.claims["jti"]], rest_seconds)


async def _refresh_token(services: Services, call: Call, identified: IdentifiedClient, token: str) -> None:
    """Revoking a token that was rotated recently also revokes its successor."""
    client = identified.client
    presented = await issued_tokens.find_refresh_token(services, call, client, token)
    if presented is None:
        return
    record = presented.record
    identified.require(refresh_token.grant_type, pkce_verified=bool(record["private"].get("hasProof")))
    user = await services.directory.users.find_cached(client.tenant_id, record["userId"])
    await token_responses.revoke_refresh_token(services, call, client, user, record["id"])
