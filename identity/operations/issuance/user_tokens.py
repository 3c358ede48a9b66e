"""Tokens over the API: for a new user or registration, and for logins to a tenant without an application."""

from __future__ import annotations

import dataclasses

import structlog

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.configuration.token_settings import ACCESS_MEMBER, TokenSettings
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.objects.owner_settings import LoginSettings
from identity.domain.users import users as user_rules
from identity.errors import LambdaFailed, Unavailable
from identity.ids import TenantId, new_id
from identity.instants import later, numeric_date
from identity.operations.clients import client_ids
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
    """Return `token` and `tokenExpirationInstant` for the application; without one, of the tenant alone.

    Adds `refreshToken` and `refreshTokenId` if the user is registered for an application that issues them. Returns
    nothing for a user who could not log in (locked, second factor or verification required), for an application that
    issues tokens at the token endpoint only, and when signing or a lambda fails: the created object stays created.

    A token of the tenant has no audience: verifiers of the published keys accept it, our own endpoints do not.
    """
    if application is not None and not security_profiles.allows_tokens_by_api(application):
        return {}
    tenant = await services.configuration.tenants.get_cached(None, TenantId(user["tenantId"]))
    if _requires_login_step(Authenticated(tenant, application, user, call.now)):
        return {}
    if application is None:
        return await issue_tenant_token(services, call, tenant, user, authentication_type)
    try:
        client = Client(tenant, client_ids.under_its_id(application))
        return await _issue_application_tokens(services, call, client, user, authentication_type)
    except (LookupError, ValueError, LambdaFailed, Unavailable) as error:
        return _log_failure(tenant, error)


async def issue_tenant_token(
    services: Services, call: Call, tenant: Document, user: Document, authentication_type: str
) -> Document:
    """Return `token` and `tokenExpirationInstant` of the tenant alone; empty as in `issue_tokens`."""
    settings = TokenSettings.of(tenant)
    ttl_seconds = settings.ttl_seconds
    claims = _claims(call, tenant, user, authentication_type, ttl_seconds)
    try:
        token = await services.tokens.issuer.sign(settings.signing_key(ACCESS_MEMBER), claims, tenant)
    except (LookupError, ValueError) as error:
        return _log_failure(tenant, error)
    return {"token": token, "tokenExpirationInstant": later(call.now, seconds=ttl_seconds)}


async def _issue_application_tokens(
    services: Services, call: Call, client: Client, user: Document, authentication_type: str
) -> Document:
    """Issue the tokens for an application; the refresh token is revoked if the access token fails."""
    context = TokenContext(client.tenant, client.application, user, (), (), authentication_type, call.now)
    is_registered = user_rules.find_registration(user, client.client_id) is not None
    if not is_registered or not LoginSettings.of(client.application).generate_refresh_tokens:
        issued = await token_lambdas.access_token(services, call, context)
        return {"token": issued.token, "tokenExpirationInstant": later(call.now, seconds=issued.expires_in)}
    record = await token_responses.issue_refresh_token(services, call, client, context, {}, pkce_verified=False)
    try:
        context = dataclasses.replace(context, refresh_token_id=record["id"])
        issued = await token_lambdas.access_token(services, call, context)
    except BaseException:
        await services.tokens.refresh_tokens.revoke(client.tenant_id, record["id"])
        raise
    expires = later(call.now, seconds=issued.expires_in)
    refresh = {"refreshToken": record["token"], "refreshTokenId": record["id"]}
    return {"token": issued.token, "tokenExpirationInstant": expires, **refresh}


def _log_failure(tenant: Document, error: Exception) -> Document:
    _log.warning("no token issued over the API", tenant=tenant["id"], reason=str(error))
    return {}


def _requires_login_step(login: Authenticated) -> bool:
    """Whether a login would not end in tokens. Required password changes are left to the next login.

    A new user without a second factor may have tokens even if one is required: there was no login to set it up in.
    """
    requirement = login_outcomes.find_halt(login)
    if isinstance(requirement, login_outcomes.SecondFactorRequired) and login.user["twoFactor"]["methods"]:
        return True
    is_barred = isinstance(requirement, login_outcomes.Barred)
    return is_barred or login_outcomes.find_verification_gate(login) is not None


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
