"""Token responses, shared by all grants: required parameters, issuing tokens, and revoking them after a replay."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

from identity.call import Call, Document
from identity.domain.clients import refresh_tokens, scopes, sender_constraints
from identity.domain.clients.refresh_tokens import RefreshToken
from identity.domain.configuration.token_settings import effective_ttl_seconds
from identity.errors import InvalidRequest, ServiceError
from identity.events.changes import Change, Event
from identity.ids import UserId
from identity.operations.clients import dpop_proofs
from identity.operations.clients.clients import Client
from identity.operations.lambdas import token_lambdas
from identity.operations.messaging import user_events
from identity.services import Services
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import IssuedToken


def required_parameter(form: Document, name: str, reason: str) -> str:
    """Return a parameter. Raises InvalidRequest with `reason` if it is missing."""
    if name not in form:
        raise InvalidRequest(reason, f"The request is missing a required parameter: {name}.")
    return str(form[name])


async def issue_access_token(
    services: Services, call: Call, context: TokenContext, *, code: str | None = None, ttl: int | None = None
) -> tuple[IssuedToken, Document]:
    """Return an access token and the token response, with an ID token if the scope openid is granted."""
    access_token = await token_lambdas.access_token(services, call, context, ttl=ttl)
    response: Document = {
        "access_token": access_token.token,
        "expires_in": access_token.expires_in,
        "token_type": dpop_proofs.token_type(context.confirmation),
        "userId": context.user["id"],
    }
    if scopes.OPENID in context.scopes:
        id_token = await token_lambdas.id_token(services, call, context, access_token=access_token.token, code=code)
        response["id_token"] = id_token.token
        access_token = dataclasses.replace(access_token, others=(id_token,))
    return access_token, response


async def issue_tokens(
    services: Services,
    call: Call,
    client: Client,
    context: TokenContext,
    device: Mapping[str, str],
    *,
    pkce_verified: bool,
    code: str | None = None,
    resources: tuple[str, ...] | None = None,
) -> tuple[IssuedToken, Document]:
    """Return an access token and the token response of a new login, with a refresh token if one is granted.

    `device` describes the user's device. `pkce_verified`: the login was bound by PKCE. `resources` are those of the
    refresh token, if they differ from those of this access token.
    """
    record = None
    if scopes.OFFLINE_ACCESS in context.scopes and client.oauth.generate_refresh_tokens:
        granted = context if resources is None else dataclasses.replace(context, resources=resources)
        record = await issue_refresh_token(services, call, client, granted, device, pkce_verified=pkce_verified)
        context = dataclasses.replace(context, refresh_token_id=record["id"])
    try:
        access_token, response = await issue_access_token(services, call, context, code=code)
    except ServiceError:
        # The client never receives a refresh token whose lambda failed.
        if record is not None:
            await services.tokens.refresh_tokens.revoke(client.tenant_id, record["id"])
        raise
    if record is not None:
        response |= {"refresh_token": record["token"], "refresh_token_id": record["id"]}
    if context.scopes:
        response["scope"] = scopes.join(context.scopes)
    return access_token, response


async def issue_refresh_token(
    services: Services,
    call: Call,
    client: Client,
    context: TokenContext,
    device: Mapping[str, str],
    *,
    pkce_verified: bool,
) -> Document:
    """Store a new refresh token and return its record; whether one is granted is decided by the caller."""
    confirmation = context.confirmation or {}
    refresh_token = RefreshToken(
        UserId(context.user["id"]),
        client.client_id,
        context.scopes,
        context.auth_instant,
        context.grants,
        context.authentication_methods,
        pkce_verified,
        context.sso_session_id,
        confirmation.get(sender_constraints.KEY),
        context.claims_request.to_document(),
        context.resources,
        confirmation.get(sender_constraints.CERTIFICATE),
    )
    record = refresh_token.new_record(refresh_tokens.device(device, call.origin.ip_address, call.now), call.now)
    expires = client.refresh_policy.expires(call.now, call.now)
    return await services.tokens.refresh_tokens.insert(client.tenant_id, record, expires)


async def revoke_refresh_token(
    services: Services, call: Call, client: Client, user: Document | None, record_id: str
) -> None:
    """Revoke a refresh token and all its access tokens; of concurrent requests one sends the event."""
    ttl = effective_ttl_seconds(client.tenant, client.application)
    await services.tokens.revocations.revoke(client.tenant_id, [record_id], ttl)
    change = Change(
        writes=[functools.partial(services.tokens.refresh_tokens.revoke, client.tenant_id, record_id)],
        after_commit=functools.partial(_revocation_events, client, user, ttl),
    )
    await services.bus.commit(call.within(client.tenant_id), change)


def issued_document(
    access_token: IssuedToken, response: Document, user: Document, other_token_ids: Iterable[str] = ()
) -> Document:
    """Return what `revoke_issued_tokens` needs to revoke the tokens of a response."""
    issued: Document = {"tokenIds": [*other_token_ids, *access_token.token_ids], "userId": user["id"]}
    if "refresh_token_id" in response:
        issued["refreshTokenId"] = response["refresh_token_id"]
    return issued


async def revoke_issued_tokens(services: Services, call: Call, client: Client, issued: Document) -> None:
    """Revoke all tokens of a code that was used again (RFC 6749 section 4.1.2)."""
    ttl = effective_ttl_seconds(client.tenant, client.application)
    await services.tokens.revocations.revoke(client.tenant_id, issued["tokenIds"], ttl)
    record_id = issued.get("refreshTokenId")
    if record_id is not None:
        user = await services.directory.users.find_cached(client.tenant_id, issued["userId"])
        await revoke_refresh_token(services, call, client, user, record_id)


def revocation_event(application_id: str, user: Document, record: Document, ttl: int) -> Event:
    """Return the event about a revoked refresh token; `ttl` is the lifetime of its access tokens in seconds."""
    return user_events.user_event(
        "jwt.refresh-token.revoke",
        user,
        applicationId=application_id,
        applicationTimeToLiveInSeconds={application_id: ttl},
        refreshToken=refresh_tokens.to_event(record),
        userId=user["id"],
    )


def _revocation_events(
    client: Client, user: Document | None, ttl: int, results: Sequence[Document | None]
) -> list[Event]:
    (record,) = results
    return [] if record is None or user is None else [revocation_event(client.client_id, user, record, ttl)]
