"""The access token that creating a user or a registration answers with."""

from __future__ import annotations

import structlog

from identity.call import Call, Document
from identity.domain import login as steps
from identity.domain import profiles
from identity.domain.login import Authenticated
from identity.errors import LambdaFailed, Unavailable
from identity.ids import TenantId, new_id
from identity.instants import later, numeric_date
from identity.operations import token_lambdas
from identity.services import Services
from identity.tokens import access_tokens
from identity.tokens.access_tokens import Login

_log = structlog.get_logger(__name__)


async def issue(
    services: Services, call: Call, user: Document, application: Document | None, authentication_type: str
) -> Document:
    """`token` and `tokenExpirationInstant`, for the application or, without one, of the tenant alone.

    Nor is there one for a user who could not log in for want of a verification.

    A token without an audience is good for whoever verifies it with the published keys, and for no endpoint of ours.
    Empty for an application whose tokens come from the token endpoint alone; and when the key to sign with is gone or
    a lambda fails: what was created stays created.
    """
    if application is not None and not profiles.has_tokens_by_api(application):
        return {}
    tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
    if steps.gate(Authenticated(tenant, application, user, call.now)) is not None:
        return {}
    try:
        if application is None:
            ttl_seconds = int(tenant["jwtConfiguration"]["timeToLiveInSeconds"])
            claims = _claims(call, tenant, user, authentication_type, ttl_seconds)
            token = await services.tokens.sign(tenant["jwtConfiguration"]["accessTokenKeyId"], claims)
        else:
            login = Login(tenant, application, user, (), (), authentication_type, call.now)
            issued = await token_lambdas.access_token(services, call, login)
            token, ttl_seconds = issued.token, issued.expires_in
    except (LookupError, ValueError, LambdaFailed, Unavailable) as error:
        _log.warning("no token with a new user or registration", tenant=tenant["id"], reason=str(error))
        return {}
    return {"token": token, "tokenExpirationInstant": later(call.now, seconds=ttl_seconds)}


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
