"""The Login API: logins with a password, and pings that extend a login."""

from __future__ import annotations

import dataclasses

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.login import login_outcomes
from identity.domain.users import users as user_rules
from identity.errors import NotFound, Unauthorized
from identity.ids import TenantId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.clients import Client
from identity.operations.login import one_time_passwords, password_login
from identity.operations.login.password_login import Credentials
from identity.operations.objects import crud, user_lookup
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.services import Services

_LOGIN = "api/login.request.json"
_PING = "api/login-ping.request.json"


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> LoginResponse:
    """The Login API response for a login id and a password, or for a one-time password.

    `trust_id` is what the browser's cookie has of trust.

    Raises Invalid, as LoginPrevented where the tenant's lambda refuses the login; Unauthorized without an API key where
    application or tenant want one; NotFound for a wrong login id or password; Unavailable after too many failures;
    WebhookTransactionFailed.
    """
    request = services.schemas[_LOGIN].read(body)
    client = await _client(services, call, request.get("applicationId"))
    tenant = (
        client.tenant
        if client is not None
        else await services.configuration.tenants.get_cached(None, crud.require_tenant(call))
    )
    _require_key(call, tenant if client is None else client.application)
    call = login_responses.with_stated_ip_address(call.within(TenantId(tenant["id"])), request)
    wishes = LoginOptions.from_request(request)
    if "oneTimePassword" in request:
        trust = trust_id or request.get("twoFactorTrustId")
        return await _log_in_once(services, call, client, tenant, request["oneTimePassword"], wishes, trust)
    credentials = Credentials(
        request["loginId"],
        request["password"],
        request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES,
        trust_id or request.get("twoFactorTrustId"),
        may_be_token=True,
    )
    application = None if client is None else client.application
    result = await password_login.authenticate(
        services, call, credentials, application, is_new_device=wishes.is_new_device
    )
    return await login_responses.build_response(services, call, client, result, "PASSWORD", wishes)


async def ping_by_token(services: Services, call: Call, body: Document, token: str | None) -> LoginResponse:
    """As `ping`, for the user of an access token and, where the body names none, the token's application.

    No fresh access token comes of it: one that was stolen would live for ever. Raises InvalidToken, and Unauthorized
    for a body that names another user.
    """
    shown = await bearer_tokens.verify(services, call, token)
    if str(body.get("userId", shown.user["id"])).lower() != shown.user["id"]:
        raise Unauthorized(log_detail="a ping of another user than the access token's")
    named = {"applicationId": shown.token.application["id"], **body, "userId": shown.user["id"], "noJWT": True}
    shown.require_usable_for(str(named["applicationId"]).lower())
    return await ping(services, call.within(TenantId(shown.user["tenantId"])), named)


async def ping(services: Services, call: Call, body: Document) -> LoginResponse:
    """Note that a user who logged in before is there: the Login API response, without a refresh token.

    A ping authenticates nobody: it only requires that the user is neither locked nor expired. Raises Invalid,
    NotFound for an unknown user, and WebhookTransactionFailed.
    """
    request = services.schemas[_PING].read(body)
    client = await _client(services, call, request.get("applicationId"))
    tenant_id = (
        await user_lookup.get_tenant_id(services, call, request["userId"]) if client is None else client.tenant_id
    )
    tenant = await services.configuration.tenants.get_cached(None, tenant_id)
    call = login_responses.with_stated_ip_address(call.within(tenant_id), request)
    user = await services.directory.users.find(tenant_id, request["userId"])
    if user is None:
        raise NotFound
    application = None if client is None else client.application
    wishes = dataclasses.replace(LoginOptions.from_request(request), no_refresh_token=True)
    halt = login_outcomes.find_halt(
        login_outcomes.Authenticated(tenant, application, user, call.now, is_federated=True)
    )
    result: login_outcomes.LoginResult
    if isinstance(halt, login_outcomes.Barred):
        result = halt
    else:
        result = await password_login.complete_login(
            services, call, user, application, "PING", is_new_device=wishes.is_new_device
        )
    return await login_responses.build_response(services, call, client, result, "PING", wishes)


async def _log_in_once(
    services: Services,
    call: Call,
    client: Client | None,
    tenant: Document,
    value: str,
    wishes: LoginOptions,
    trust_id: str | None,
) -> LoginResponse:
    """The response for a one-time password, with the state of the change that it comes from."""
    found = await one_time_passwords.redeem(services, TenantId(tenant["id"]), value)
    application = None if client is None else client.application
    proven = login_outcomes.Authenticated(
        tenant, application, found.user, call.now, has_second_factor=found.details.satisfies_second_factor(application)
    )
    proven = await two_factor_trust.apply_device_trust(services, call, proven, trust_id)
    kind = one_time_passwords.AUTHENTICATION_TYPE
    result = await password_login.continue_login(
        services, call, proven, kind, is_new_device=wishes.is_new_device, side_effects=found.side_effects
    )
    may_refresh = found.details.may_refresh and not wishes.no_refresh_token
    wishes = dataclasses.replace(wishes, no_refresh_token=not may_refresh, state=found.details.state)
    return await login_responses.build_response(services, call, client, result, kind, wishes)


async def _client(services: Services, call: Call, application_id: str | None) -> Client | None:
    return (
        None
        if application_id is None
        else await clients.get_by_application_id(services, call.tenant_id, application_id)
    )


def _require_key(call: Call, place: Document) -> None:
    """Raise Unauthorized where an application or, without one, the tenant lets only callers with an API key log in."""
    if place["loginConfiguration"]["requireAuthentication"] and not isinstance(call.caller, ApiKeyCaller):
        raise Unauthorized(log_detail="the Login API wants an API key here")
