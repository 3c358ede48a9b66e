"""What the grants share: required parameters, the tokens of a login, and undoing what was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.clients import refresh_tokens as rules
from identity.domain.clients import scopes
from identity.errors import InvalidRequest, ServiceError
from identity.events.changes import Event
from identity.ids import TenantId, UserId
from identity.operations.clients import dpop_proofs
from identity.operations.clients.clients import Client
from identity.operations.lambdas import token_lambdas
from identity.operations.messaging import user_events
from identity.services import Services
from identity.store.mongo import Session
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import IssuedToken, ttl_seconds


def required_parameter(form: Document, name: str, reason: str) -> str:
    """A parameter that must be there. Raises InvalidRequest."""
    if name not in form:
        raise InvalidRequest(reason, f"The request is missing a required parameter: {name}.")
    return str(form[name])


async def issue_access_token(
    services: Services, call: Call, login: TokenContext, *, code: str | None = None, ttl: int | None = None
) -> tuple[IssuedToken, Document]:
    """The access token of a login, and the token response: with an ID token where openid was granted."""
    access_token = await token_lambdas.access_token(services, call, login, ttl=ttl)
    answer: Document = {
        "access_token": access_token.token,
        "expires_in": access_token.expires_in,
        "token_type": dpop_proofs.token_type(login.confirmation),
        "userId": login.user["id"],
    }
    if scopes.OPENID in login.scopes:
        id_token = await token_lambdas.id_token(services, call, login, access_token=access_token.token, code=code)
        answer["id_token"] = id_token.token
        access_token = dataclasses.replace(access_token, others=(id_token,))
    return access_token, answer


async def issue_tokens(
    services: Services,
    call: Call,
    client: Client,
    login: TokenContext,
    device: Mapping[str, str],
    *,
    pkce_verified: bool,
    code: str | None = None,
    resources: tuple[str, ...] | None = None,
) -> tuple[IssuedToken, Document]:
    """The access token of a fresh login, and the token response, with a refresh token where it is to have one.

    `device` is what the request told of the user's device; `has_proof`: the login was bound by PKCE; `resources` are
    those that the refresh token is good for, where they are more than those of this access token.
    """
    lasting = login if resources is None else dataclasses.replace(login, resources=resources)
    record = await _refresh_token(services, call, client, lasting, device, pkce_verified=pkce_verified)
    if record is not None:
        login = dataclasses.replace(login, refresh_token_id=record["id"])
    try:
        access_token, answer = await issue_access_token(services, call, login, code=code)
    except ServiceError:
        # A lambda failed, or had no room: nobody will ever hear of the refresh token.
        if record is not None:
            await services.refresh_tokens.revoke(client.tenant_id, record["id"])
        raise
    if record is not None:
        answer |= {"refresh_token": record["token"], "refresh_token_id": record["id"]}
    if login.scopes:
        answer["scope"] = scopes.join(login.scopes)
    return access_token, answer


async def revoke_refresh_token(
    services: Services, call: Call, client: Client, user: Document | None, record_id: str
) -> None:
    """End a refresh token and every access token that came of it; of several callers one tells of it."""
    tenant_id = client.tenant_id
    ttl = ttl_seconds(client.tenant, client.application)
    await services.revocations.revoke(tenant_id, [record_id], ttl)

    async def write(session: Session | None) -> Document | None:
        return await services.refresh_tokens.revoke(tenant_id, record_id, session)

    def events(record: Document | None) -> list[Event]:
        return [] if record is None or user is None else [revocation_event(client.client_id, user, record, ttl)]

    await services.bus.perform(call.within(tenant_id), write, announced=events)


async def revoke_issued_tokens(
    services: Services, call: Call, client: Client, tenant_id: TenantId, given: Document
) -> None:
    """Take back what a code gave, because the code was used again (RFC 6749 section 4.1.2)."""
    ttl = ttl_seconds(client.tenant, client.application)
    await services.revocations.revoke(tenant_id, given["tokenIds"], ttl)
    record_id = given.get("refreshTokenId")
    if record_id is not None:
        user = await services.users.find_cached(tenant_id, given["userId"])
        await revoke_refresh_token(services, call, client, user, record_id)


async def _refresh_token(
    services: Services,
    call: Call,
    client: Client,
    login: TokenContext,
    device: Mapping[str, str],
    *,
    pkce_verified: bool,
) -> Document | None:
    """A new refresh token, where offline access was granted and the application gives any."""
    if scopes.OFFLINE_ACCESS not in login.scopes or not client.oauth["generateRefreshTokens"]:
        return None
    return await issue_refresh_token(services, call, client, login, device, pkce_verified=pkce_verified)


async def issue_refresh_token(
    services: Services,
    call: Call,
    client: Client,
    login: TokenContext,
    device: Mapping[str, str],
    *,
    pkce_verified: bool,
) -> Document:
    """A new refresh token of a login, whether it may have one being settled."""
    private = {
        "authInstant": login.auth_instant,
        "grants": list(login.grants),
        "hasProof": pkce_verified,
        "ssoSessionId": login.sso_session_id,
        "authenticationMethods": list(login.authentication_methods),
    }
    if wishes := login.claims_request.document():
        private["claims"] = wishes
    if login.confirmation is not None:
        private["dpopJkt"] = login.confirmation["jkt"]
    seen = rules.device(device, call.origin.ip_address, call.now)
    record = rules.new_record(UserId(login.user["id"]), client.client_id, login.scopes, seen, private, call.now)
    if login.resources:
        record["metaData"]["resources"] = list(login.resources)
    expires = client.refresh_policy.expires(call.now, call.now)
    return await services.refresh_tokens.insert(client.tenant_id, record, expires)


def revocation_event(application_id: str, user: Document, record: Document, ttl: int) -> Event:
    """The event about the end of one refresh token; `ttl` is how many seconds its access tokens live."""
    return user_events.about(
        "jwt.refresh-token.revoke",
        user,
        applicationId=application_id,
        applicationTimeToLiveInSeconds={application_id: ttl},
        refreshToken=rules.to_event(record),
        userId=user["id"],
    )
