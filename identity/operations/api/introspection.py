"""Token introspection (RFC 7662): whether a token of the calling client still counts, and what stands in it.

Access tokens are judged by their signature, the cached client and user, and one question to Redis; MongoDB is asked
for refresh tokens only. Nothing of an answer is kept: a revocation acts at the next question.

A token of an entity is described to that entity, and to those that the token is for.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.clients import dpop_proofs as dpop_rules
from identity.errors import InvalidRequest, InvalidToken, UnsupportedTokenType
from identity.ids import TenantId
from identity.instants import Instant, numeric_date
from identity.operations.clients import active_users, dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
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
    """The form with the client of its token, where the request names no client and presents no credentials.

    The token is not verified here: its `aud` stands in for a client_id, which any caller may send. So it is of use only
    for a client that need not authenticate.
    """
    if authorization or form.keys() & _CLIENT_PARAMETERS:
        return form
    token = jws.parse(form.get("token", ""))
    client_id = None if isinstance(token, Rejection) else access_tokens.audience(token.claims)
    return form if client_id is None else {**form, "client_id": client_id}


async def introspect(
    services: Services, call: Call, asking: IdentifiedClient | EntityClient, form: Document
) -> Document:
    """The claims of a live token, or just that it is not active: unknown, expired, revoked or forged look alike.

    Raises InvalidClient also for the token of another client, InvalidRequest when there is no token or it is not what
    the hint says, UnsupportedTokenType for an unknown hint.
    """
    if isinstance(asking, IdentifiedClient):
        asking.require("introspection", pkce_verified=False)
    client = asking if isinstance(asking, EntityClient) else asking.client
    token = token_responses.required_parameter(form, "token", "missing_token")
    hint = form.get("token_type_hint")
    if hint not in {None, ACCESS_TOKEN, ID_TOKEN, REFRESH_TOKEN}:
        raise UnsupportedTokenType("unsupported_token_type", f"The token_type_hint is not supported: {hint[:100]}")
    if hint == REFRESH_TOKEN and isinstance(client, Client):
        return await _refresh_token(services, call, client, token)
    return await _jwt(services, call, client, token, hint)


async def _jwt(services: Services, call: Call, client: Client | EntityClient, token: str, hint: str | None) -> Document:
    found = await issued_tokens.find_jwt(services, call, client, token)
    if found is None:
        if hint is not None and await _is_refresh_token(services, call, client, token):
            raise _mismatch()
        return _inactive()
    if hint not in {None, _KINDS[found.kind]}:
        raise _mismatch()
    is_of_user = isinstance(found, VerifiedToken)
    if is_of_user and not await _is_live(services, client.tenant_id, found.claims["sub"], call.now):
        return _inactive()
    if await services.tokens.revocations.is_revoked(client.tenant_id, found.revocable_ids):
        return _inactive()
    bound = {"token_type": dpop_rules.SCHEME} if dpop_proofs.bound_key_thumbprint(found.claims) is not None else {}
    return {**found.claims, **bound, "active": True}


async def _refresh_token(services: Services, call: Call, client: Client, token: str) -> Document:
    """A refresh token counts as long as the refresh grant would take it."""
    presented = await issued_tokens.find_refresh_token(services, call, client, token)
    if presented is None:
        if await issued_tokens.find_jwt(services, call, client, token) is not None:
            raise _mismatch()
        return _inactive()
    policy = client.refresh_policy
    is_graced = policy.is_one_time and presented.is_graced(policy.grace_seconds, call.now)
    if not (presented.is_current or is_graced):
        return _inactive()
    if not await _is_live(services, client.tenant_id, presented.record["userId"], call.now):
        return _inactive()
    return {"active": True, "exp": numeric_date(presented.record["expiresAt"])}


async def _is_refresh_token(services: Services, call: Call, client: Client | EntityClient, token: str) -> bool:
    """Whether it is one of the client's; entities have none."""
    # None of ours holds a dot: what looks like a JWS is not worth a question to MongoDB.
    if isinstance(client, EntityClient) or "." in token:
        return False
    return await issued_tokens.find_refresh_token(services, call, client, token) is not None


async def _is_live(services: Services, tenant_id: TenantId, user_id: str, now: Instant) -> bool:
    try:
        await active_users.get_active_user(services, tenant_id, user_id, now, InvalidToken)
    except InvalidToken:
        return False
    return True


def _inactive() -> Document:
    return {"active": False}


def _mismatch() -> InvalidRequest:
    return InvalidRequest("token_type_hint_mismatch", "The token is of another type than the token_type_hint says.")
