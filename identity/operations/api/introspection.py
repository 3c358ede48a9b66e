"""Token introspection (RFC 7662): whether a token of the calling client is active, and its claims.

Access tokens are checked by signature, cached client and user, and one query to Redis; MongoDB is queried for refresh
tokens only. Responses are not cached, so that a revocation takes effect immediately.

A token of an entity is described to that entity and to its audience.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.clients import dpop_proofs as dpop_proof_rules
from identity.domain.clients import sender_constraints
from identity.errors import InvalidRequest, InvalidToken, UnsupportedTokenType
from identity.ids import TenantId
from identity.instants import Instant, numeric_date
from identity.operations.clients import active_users
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import Client
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.issuance import issued_tokens, token_responses
from identity.operations.issuance.issued_tokens import ACCESS_TOKEN, ID_TOKEN, REFRESH_TOKEN
from identity.services import Services
from identity.tokens import access_tokens, id_tokens, jws
from identity.tokens.issuer import VerifiedToken
from identity.tokens.jws import Rejection

_CLIENT_PARAMETERS = frozenset({"client_id", "client_secret", "client_assertion", "client_assertion_type"})
_KINDS = {access_tokens.TTY: ACCESS_TOKEN, id_tokens.TTY: ID_TOKEN}


def with_client_id(form: Document, authorization: str) -> Document:
    """Return the form with the client of its token, if the request has no client and no credentials.

    The token is not verified here. Its `aud` replaces a client_id, which any caller may send, so that it only helps
    clients without authentication.
    """
    if authorization or form.keys() & _CLIENT_PARAMETERS:
        return form
    token = jws.parse(form.get("token", ""))
    client_id = None if isinstance(token, Rejection) else access_tokens.audience(token.claims)
    return form if client_id is None else {**form, "client_id": client_id}


async def introspect(
    services: Services, call: Call, caller: AuthenticatedClient | EntityClient, form: Document
) -> Document:
    """Return the claims of an active token; the response for unknown, expired, revoked and forged ones is the same.

    Raises InvalidClient, also for the token of another client; InvalidRequest without a token, or if the hint is
    incorrect; UnsupportedTokenType for an unknown hint.
    """
    client = caller if isinstance(caller, EntityClient) else caller.client
    token = token_responses.required_parameter(form, "token", "missing_token")
    hint = form.get("token_type_hint")
    if hint not in {None, ACCESS_TOKEN, ID_TOKEN, REFRESH_TOKEN}:
        raise UnsupportedTokenType("unsupported_token_type", f"The token_type_hint is not supported: {hint[:100]}")
    if hint == REFRESH_TOKEN and isinstance(client, Client):
        return await _introspect_refresh_token(services, call, client, token)
    return await _introspect_jwt(services, call, client, token, hint)


async def _introspect_jwt(
    services: Services, call: Call, client: Client | EntityClient, token: str, hint: str | None
) -> Document:
    issued = await issued_tokens.find_jwt(services, call, client, token)
    if issued is None:
        if hint is not None and await _is_refresh_token(services, call, client, token):
            raise _mismatch()
        return _inactive()
    if hint not in {None, _KINDS[issued.kind]}:
        raise _mismatch()
    has_user = isinstance(issued, VerifiedToken)
    if has_user and not await _is_active_user(services, client.tenant_id, issued.claims["sub"], call.now):
        return _inactive()
    if await services.tokens.revocations.is_revoked(client.tenant_id, issued.revocable_ids):
        return _inactive()
    is_key_bound = sender_constraints.key_thumbprint(issued.claims) is not None
    token_type = {"token_type": dpop_proof_rules.SCHEME} if is_key_bound else {}
    return {**issued.claims, **token_type, "active": True}


async def _introspect_refresh_token(services: Services, call: Call, client: Client, token: str) -> Document:
    """A refresh token is active as long as the refresh grant accepts it."""
    presented = await issued_tokens.find_refresh_token(services, call, client, token)
    if presented is None:
        if await issued_tokens.find_jwt(services, call, client, token) is not None:
            raise _mismatch()
        return _inactive()
    policy = client.refresh_policy
    is_graced = policy.is_one_time and presented.is_graced(policy.grace_seconds, call.now)
    if not (presented.is_current or is_graced):
        return _inactive()
    if not await _is_active_user(services, client.tenant_id, presented.record["userId"], call.now):
        return _inactive()
    return {"active": True, "exp": numeric_date(presented.record["expiresAt"])}


async def _is_refresh_token(services: Services, call: Call, client: Client | EntityClient, token: str) -> bool:
    """Return whether the token is a refresh token of the client; entities have none."""
    # Refresh tokens contain no dot, so that a JWS needs no query.
    if isinstance(client, EntityClient) or "." in token:
        return False
    return await issued_tokens.find_refresh_token(services, call, client, token) is not None


async def _is_active_user(services: Services, tenant_id: TenantId, user_id: str, now: Instant) -> bool:
    try:
        await active_users.get_active_user(services, tenant_id, user_id, now, InvalidToken)
    except InvalidToken:
        return False
    return True


def _inactive() -> Document:
    return {"active": False}


def _mismatch() -> InvalidRequest:
    return InvalidRequest("token_type_hint_mismatch", "The token_type_hint does not match the type of the token.")
