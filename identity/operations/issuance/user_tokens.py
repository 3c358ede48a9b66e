"""The tokens that creating a user or a registration answers with, and those of a login to a tenant alone."""

from __future__ import annotations

import dataclasses

import structlog

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.login import login_outcomes as steps
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.users import users as rules
from identity.errors import LambdaFailed, Unavailable
from identity.ids import TenantId, new_id
from identity.instants import later, numeric_date
from identity.operations.clients.clients import Client
from identity.operations.issuance import token_responses
from identity.operations.lambdas import token_lambdas
from identity.services import Services
from identity.tokens import access_tokens
from identity.tokens.access_tokens import TokenContext

_log = structlog.get_logger(__name__)


async def issue_tokens(
    services: Services, call: Call, user: Document, application: Document | None, authentication_type: str
) -> Document:
    """`token` and `tokenExpirationInstant`, for the application or, without one, of the tenant alone.

    With `refreshToken` and `refreshTokenId` where the user is registered for an application that gives them. There is
    nothing for a user who could not log in: who is locked out, has a second factor to show, or something to verify.

    A token without an audience is good for whoever verifies it with the published keys, and for no endpoint of ours.
    Empty for an application whose tokens come from the token endpoint alone; and when the key to sign with is gone or
    a lambda fails: what was created stays created.
    """
    if application is not None and not security_profiles.allows_tokens_by_api(application):
        return {}
    tenant = await services.tenants.get_cached(None, TenantId(user["tenantId"]))
    if _is_kept_out(Authenticated(tenant, application, user, call.now)):
        return {}
    if application is None:
        return await issue_tenant_token(services, call, tenant, user, authentication_type)
    try:
        return await _of_application(services, call, Client(tenant, application), user, authentication_type)
    except (LookupError, ValueError, LambdaFailed, Unavailable) as error:
        return _none(tenant, error)


async def issue_tenant_token(
    services: Services, call: Call, tenant: Document, user: Document, authentication_type: str
) -> Document:
    """Return `token` and `tokenExpirationInstant` of the tenant alone; empty as in `issue_tokens`."""
    ttl_seconds = int(tenant["jwtConfiguration"]["timeToLiveInSeconds"])
    claims = _claims(call, tenant, user, authentication_type, ttl_seconds)
    try:
        token = await services.tokens.sign(tenant["jwtConfiguration"]["accessTokenKeyId"], claims, tenant)
    except (LookupError, ValueError) as error:
        return _none(tenant, error)
    return {"token": token, "tokenExpirationInstant": later(call.now, seconds=ttl_seconds)}


async def _of_application(
    services: Services, call: Call, client: Client, user: Document, authentication_type: str
) -> Document:
    """The tokens for an application; no refresh token stays behind when the access token fails."""
    login = TokenContext(client.tenant, client.application, user, (), (), authentication_type, call.now)
    is_registered = rules.find_registration(user, client.client_id) is not None
    if not is_registered or not client.application["loginConfiguration"]["generateRefreshTokens"]:
        issued = await token_lambdas.access_token(services, call, login)
        return {"token": issued.token, "tokenExpirationInstant": later(call.now, seconds=issued.expires_in)}
    record = await token_responses.issue_refresh_token(services, call, client, login, {}, pkce_verified=False)
    try:
        login = dataclasses.replace(login, refresh_token_id=record["id"])
        issued = await token_lambdas.access_token(services, call, login)
    except BaseException:
        await services.refresh_tokens.revoke(client.tenant_id, record["id"])
        raise
    expires = later(call.now, seconds=issued.expires_in)
    refresh = {"refreshToken": record["token"], "refreshTokenId": record["id"]}
    return {"token": issued.token, "tokenExpirationInstant": expires, **refresh}


def _none(tenant: Document, error: Exception) -> Document:
    _log.warning("a login, a new user or a registration has no token", tenant=tenant["id"], reason=str(error))
    return {}


def _is_kept_out(login: Authenticated) -> bool:
    """Whether a login would end otherwise than in tokens; a password that has to be changed waits for the next one.

    A new user who has yet to add a second factor is let in as well: there was no login to add it in.
    """
    halt = steps.find_halt(login)
    waits = isinstance(halt, steps.SecondFactorRequired) and bool(login.user["twoFactor"]["methods"])
    return isinstance(halt, steps.Barred) or waits or steps.find_verification_gate(login) is not None


def _claims(call: Call, tenant: Document, user: Document, authentication_type: str, ttl_seconds: int) -> Document:
    now = numeric_date(call.now)
    claims = {
        "auth_time": now,
        "authenticationType": authentication_type,
        "email": user.get("email"),
        "email_verified": user["verified"] if "email" in user else None,
        "exp": now + ttl_seconds,
        "iat": now,
        "iss": tenant["issuer"],
        "jti": new_id(),
        "preferred_username": user.get("username"),
        "sub": user["id"],
        "tid": tenant["id"],
        "tty": access_tokens.TTY,
    }
    return {name: value for name, value in claims.items() if value is not None}
