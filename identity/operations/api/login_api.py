"""The Login API: logins with a password, and pings that extend a login."""

from __future__ import annotations

import dataclasses

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.login import login_outcomes
from identity.domain.objects.owner_settings import LoginSettings
from identity.domain.users import users as user_rules
from identity.errors import NotFound, Unauthorized
from identity.ids import TenantId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.clients import Client
from identity.operations.groups import administrators
from identity.operations.login import one_time_passwords, password_login, second_factor_decisions
from identity.operations.login.password_login import Credentials, LoginDetails
from identity.operations.objects import crud, user_lookup
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.services import Services

_LOGIN = "api/login.request.json"
_PING = "api/login-ping.request.json"


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> LoginResponse:
    """Log in with a login id and a password, or with a one-time password, and return the Login API response.

    `trust_id` is the two-factor trust of the browser's cookie.

    Raises Invalid, as LoginPrevented if a lambda of the tenant rejects the login; Unauthorized without a required API
    key; NotFound for an incorrect login id or password; Unavailable after too many failures; WebhookTransactionFailed.
    """
    request = services.schemas[_LOGIN].read(body)
    client = await clients.find_by_application_id(services, call.tenant_id, request.get("applicationId"))
    if client is None:
        tenant = await services.configuration.tenants.get_cached(None, crud.require_tenant(call))
    else:
        tenant = client.tenant
    _require_key(call, tenant if client is None else client.application)
    call = login_responses.with_stated_ip_address(call.within(TenantId(tenant["id"])), request)
    options = LoginOptions.from_request(request)
    if "oneTimePassword" in request:
        value, trust_id = request["oneTimePassword"], trust_id or request.get("twoFactorTrustId")
        return await _log_in_by_one_time_password(services, call, client, tenant, value, options, trust_id)
    credentials = Credentials(
        request["loginId"],
        request["password"],
        request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES,
        trust_id or request.get("twoFactorTrustId"),
        may_be_token=True,
    )
    result = await password_login.authenticate(
        services, call, credentials, clients.application_of(client), is_new_device=options.is_new_device
    )
    return await login_responses.build_response(services, call, client, result, "PASSWORD", options)


async def ping_by_token(services: Services, call: Call, body: Document, token: str | None) -> LoginResponse:
    """Ping for the user of an access token and, without one in the body, for its application.

    The response has no new access token, because a stolen one could be renewed forever. Raises InvalidToken, and
    Unauthorized for a body with another user.
    """
    bearer = await bearer_tokens.verify(services, call, token)
    if str(body.get("userId", bearer.user["id"])).lower() != bearer.user["id"]:
        raise Unauthorized(log_detail="a ping of another user than the access token's")
    body = {"applicationId": bearer.token.application["id"], **body, "userId": bearer.user["id"], "noJWT": True}
    bearer.require_usable_for(str(body["applicationId"]).lower())
    return await ping(services, call.within(TenantId(bearer.user["tenantId"])), body)


async def ping(services: Services, call: Call, body: Document) -> LoginResponse:
    """Record the activity of a user, and return the Login API response without a refresh token.

    A ping does not authenticate: it only requires that the user is neither locked nor expired. Raises Invalid,
    NotFound for an unknown user, Unauthorized for an administrator with more permissions, and WebhookTransactionFailed.
    """
    request = services.schemas[_PING].read(body)
    client = await clients.find_by_application_id(services, call.tenant_id, request.get("applicationId"))
    tenant_id = (
        await user_lookup.get_tenant_id(services, call, request["userId"]) if client is None else client.tenant_id
    )
    tenant = await services.configuration.tenants.get_cached(None, tenant_id)
    call = login_responses.with_stated_ip_address(call.within(tenant_id), request)
    user = await services.directory.users.find(tenant_id, request["userId"])
    if user is None:
        raise NotFound
    await administrators.require_authority(services, call, user)
    application = clients.application_of(client)
    options = dataclasses.replace(LoginOptions.from_request(request), no_refresh_token=True)
    halt = login_outcomes.find_halt(
        login_outcomes.Authenticated(tenant, application, user, call.now, is_federated=True)
    )
    result: login_outcomes.LoginResult
    if isinstance(halt, login_outcomes.Barred):
        result = halt
    else:
        result = await password_login.complete_login(
            services, call, user, application, "PING", LoginDetails(is_new_device=options.is_new_device)
        )
    return await login_responses.build_response(services, call, client, result, "PING", options)


async def _log_in_by_one_time_password(
    services: Services,
    call: Call,
    client: Client | None,
    tenant: Document,
    value: str,
    options: LoginOptions,
    trust_id: str | None,
) -> LoginResponse:
    """Log in with a one-time password; the response has the state of the request that issued it."""
    redeemed = await one_time_passwords.redeem(services, TenantId(tenant["id"]), value)
    application = clients.application_of(client)
    authenticated = login_outcomes.Authenticated(
        tenant,
        application,
        redeemed.user,
        call.now,
        has_second_factor=redeemed.details.satisfies_second_factor(application),
    )
    authenticated = await second_factor_decisions.decide(
        services, call, authenticated, trust_id, is_new_device=options.is_new_device
    )
    kind = one_time_passwords.AUTHENTICATION_TYPE
    result = await password_login.continue_login(
        services, call, authenticated, kind, is_new_device=options.is_new_device, side_effects=redeemed.side_effects
    )
    may_refresh = redeemed.details.may_refresh and not options.no_refresh_token
    options = dataclasses.replace(options, no_refresh_token=not may_refresh, state=redeemed.details.state)
    return await login_responses.build_response(services, call, client, result, kind, options)


def _require_key(call: Call, owner: Document) -> None:
    """Raise Unauthorized if an application, or else the tenant, requires an API key and the call has none."""
    if LoginSettings.of(owner).require_authentication and not isinstance(call.caller, ApiKeyCaller):
        raise Unauthorized(log_detail="the Login API requires an API key")
