"""Token revocation (RFC 7009): a client gives back a token that it has no more use for.

A refresh token ends with every access token that came of it; an access token ends alone. Unlike introspection this is
open to a client that proves itself by PKCE alone, as far as the refresh grant is: it can only take from itself.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import UnsupportedTokenType
from identity.instants import numeric_date
from identity.operations import issued_tokens
from identity.operations.client_authentication import Identified
from identity.operations.clients import Client
from identity.operations.grants import common, refresh_token
from identity.services import Services
from identity.tokens import id_tokens
from identity.tokens.issuer import VerifiedToken


async def revoke(services: Services, call: Call, identified: Identified, form: Document) -> None:
    """End a token of the client. Nothing happens to one that is unknown, expired, forged or revoked already.

    Every kind is looked for, so that no hint is needed (RFC 7009 section 2.1). Raises InvalidClient also for the token
    of another client, InvalidRequest when there is no token, UnsupportedTokenType for an ID token, which says who
    logged in and opens nothing.
    """
    identified.require(refresh_token.grant_type, has_proof=True)
    token = common.required(form, "token", "missing_token")
    found = await issued_tokens.find_jwt(services, call, identified.client, token)
    if found is None:
        await _refresh_token(services, call, identified, token)
    elif found.claims["tty"] == id_tokens.TTY:
        raise UnsupportedTokenType("unsupported_token_type", "An ID token cannot be revoked.")
    else:
        await _access_token(services, call, identified.client, found)


async def _access_token(services: Services, call: Call, client: Client, found: VerifiedToken) -> None:
    rest_seconds = found.claims["exp"] - numeric_date(call.now)
    await services.revocations.revoke(client.tenant_id, [found.claims["jti"]], rest_seconds)


async def _refresh_token(services: Services, call: Call, identified: Identified, token: str) -> None:
    """One that was rotated out lately ends its successor, too: whoever gives it back wants none."""
    client = identified.client
    presented = await issued_tokens.find_refresh_token(services, call, client, token)
    if presented is None:
        return
    record = presented.record
    identified.require(refresh_token.grant_type, has_proof=bool(record["private"].get("hasProof")))
    user = await services.users.cached(client.tenant_id, record["userId"])
    await common.revoke_record(services, call, client, user, record["id"])
