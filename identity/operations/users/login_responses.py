"""Responses of the Login API to a login with any authentication method."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import LoggedIn, LoginResult
from identity.domain.objects import event_info
from identity.domain.objects.owner_settings import LoginSettings
from identity.domain.user_actions import action_logs
from identity.errors import NotFound, Unavailable
from identity.ids import TenantId
from identity.instants import Instant, later
from identity.operations.clients.clients import Client, application_of
from identity.operations.issuance import token_responses, user_tokens
from identity.operations.lambdas import token_lambdas
from identity.operations.login import two_factor_challenges
from identity.operations.messaging import user_views
from identity.operations.password_changes import password_changes
from identity.operations.verification import verification_responses
from identity.services import Services
from identity.tokens.access_tokens import TokenContext


@dataclasses.dataclass(frozen=True, slots=True)
class LoginResponse:
    """A status with its body.

    `refresh_token_expires` is the expiry of the cookie of a refresh token. `reason` is only logged.
    """

    status: int
    body: Document | None = None
    refresh_token_expires: Instant | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LoginOptions:
    """Options of a login request: the tokens to issue, and the user's device.

    `state` was given when the login was started and is returned when it completes. `auth_instant` is when the user
    authenticated, if not now.
    """

    no_jwt: bool = False
    no_refresh_token: bool = False
    is_new_device: bool = False
    device: Document = dataclasses.field(default_factory=dict)
    state: Document | None = None
    auth_instant: Instant | None = None

    @classmethod
    def from_request(cls, request: Document) -> LoginOptions:
        """Read the options of a request body."""
        device = request.get("metaData", {}).get("device", {})
        return cls(request.get("noJWT", False), is_new_device=request.get("newDevice", False), device=device)


def with_stated_ip_address(call: Call, request: Document) -> Call:
    """Return the call with the `ipAddress` of the request, if the caller may state it. Raises Invalid."""
    stated = request.get("ipAddress")
    if not stated or not call.may_state_origin:
        return call
    address = event_info.address(stated, "ipAddress")
    return dataclasses.replace(call, event_info={**call.event_info, "ipAddress": address})


async def build_response(
    services: Services,
    call: Call,
    client: Client | None,
    result: LoginResult,
    authentication_type: str,
    options: LoginOptions,
) -> LoginResponse:
    """Return the response to a login; without a client, to a login to the tenant only.

    A login that needs a further step gets no tokens. Raises NotFound for wrong credentials, and Unavailable after too
    many attempts.
    """
    match result:
        case LoggedIn():
            authentication_type = result.authentication_type or authentication_type
            return await _complete_login_response(services, call, client, result, authentication_type, options)
        case login_outcomes.Deactivated():
            return LoginResponse(423, reason="the user is deactivated")
        case login_outcomes.ActionPrevents() | login_outcomes.AccountLocked():
            return LoginResponse(409, {"actions": action_logs.summaries(result.actions)})
        case login_outcomes.Expired():
            return LoginResponse(410, reason="the user has expired")
        case login_outcomes.SecondFactorRequired():
            is_new = options.is_new_device
            challenge = await two_factor_challenges.challenge_login(
                services, call, client, result, state=options.state, is_new_device=is_new
            )
            return LoginResponse(242, challenge)
        case login_outcomes.PasswordChangeRequired():
            return await _password_change_required(services, client, result, options)
        case login_outcomes.EmailNotVerified():
            return LoginResponse(212, await verification_responses.for_gated_user(services, call, client, result))
        case login_outcomes.RegistrationNotVerified():
            return LoginResponse(
                213, await verification_responses.for_gated_registration(services, call, client, result)
            )
        case login_outcomes.TooManyAttempts():
            raise Unavailable.for_seconds(result.wait_seconds, "Too many attempts failed.")
        case _:
            raise NotFound(log_detail="wrong credentials")


async def _password_change_required(
    services: Services, client: Client | None, result: login_outcomes.PasswordChangeRequired, options: LoginOptions
) -> LoginResponse:
    """Return 203 with the id that authorizes the password change."""
    tenant = await services.configuration.tenants.get(None, TenantId(result.user["tenantId"]))
    change_id = await password_changes.issue_required_change_id(
        services, tenant, result, application_of(client), options.state
    )
    return LoginResponse(203, {"changePasswordId": change_id, "changePasswordReason": result.reason})


async def _complete_login_response(
    services: Services,
    call: Call,
    client: Client | None,
    result: LoggedIn,
    authentication_type: str,
    options: LoginOptions,
) -> LoginResponse:
    """Return the response to a complete login."""
    if client is None:
        response = await _logged_in_to_tenant(services, call, result, authentication_type, options)
    else:
        response = await _logged_in(services, call, client, result, authentication_type, options)
    further: Document = {} if options.state is None else {"state": options.state}
    if result.threats:
        further["threatsDetected"] = list(result.threats)
    return dataclasses.replace(response, body={**(response.body or {}), **further})


async def _logged_in(
    services: Services, call: Call, client: Client, result: LoggedIn, authentication_type: str, options: LoginOptions
) -> LoginResponse:
    """Return 200 with tokens, or 202 for an unregistered user, whose token has no roles of the application."""
    status = 202 if result.registration is None else 200
    body: Document = {"user": await user_views.to_response(services, result.user)}
    if options.no_jwt or not security_profiles.allows_tokens_by_api(client.application):
        return LoginResponse(status, body)
    auth_instant = options.auth_instant or call.now
    context = TokenContext(client.tenant, client.application, result.user, (), (), authentication_type, auth_instant)
    expires = None
    issues_refresh_token = LoginSettings.of(client.application).generate_refresh_tokens and not options.no_refresh_token
    if result.registration is not None and issues_refresh_token:
        record = await token_responses.issue_refresh_token(
            services, call, client, context, options.device, pkce_verified=False
        )
        context = dataclasses.replace(context, refresh_token_id=record["id"])
        body |= {"refreshToken": record["token"], "refreshTokenId": record["id"]}
        expires = client.refresh_policy.expires(call.now, call.now)
    issued = await token_lambdas.access_token(services, call, context)
    body |= {"token": issued.token, "tokenExpirationInstant": later(call.now, seconds=issued.expires_in)}
    return LoginResponse(status, body, expires)


async def _logged_in_to_tenant(
    services: Services, call: Call, result: LoggedIn, authentication_type: str, options: LoginOptions
) -> LoginResponse:
    """Return 200 with a token that names no application."""
    body: Document = {"user": await user_views.to_response(services, result.user)}
    if not options.no_jwt:
        tenant = await services.configuration.tenants.get(None, TenantId(result.user["tenantId"]))
        body |= await user_tokens.issue_tenant_token(services, call, tenant, result.user, authentication_type)
    return LoginResponse(200, body)
