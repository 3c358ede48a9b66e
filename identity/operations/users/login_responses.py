"""What a login by API answers: the Login API response for a user and an application, whatever proved who it is."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.login import login_outcomes as steps
from identity.domain.login.login_outcomes import LoggedIn, LoginResult
from identity.domain.objects import event_info
from identity.domain.user_actions import action_logs
from identity.errors import NotFound, Unavailable
from identity.ids import TenantId
from identity.instants import Instant, later
from identity.operations.clients.clients import Client
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
    """A status with its body; `refresh_token_expires` goes with a refresh token, for its cookie.

    `reason` explains an answer without a body, for the log alone.
    """

    status: int
    body: Document | None = None
    refresh_token_expires: Instant | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LoginOptions:
    """What a login request says beside who logs in: which tokens are wanted, and what device the user is at.

    `state` is what was given when the login was started, for the answer of the completed one.
    """

    no_jwt: bool = False
    no_refresh_token: bool = False
    is_new_device: bool = False
    device: Document = dataclasses.field(default_factory=dict)
    state: Document | None = None

    @classmethod
    def of(cls, request: Document) -> LoginOptions:
        """The wishes of a request body."""
        device = request.get("metaData", {}).get("device", {})
        return cls(request.get("noJWT", False), is_new_device=request.get("newDevice", False), device=device)


def with_stated_ip_address(call: Call, request: Document) -> Call:
    """The call with the user's `ipAddress`, which only callers with an API key may state. Raises Invalid."""
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
    wishes: LoginOptions,
) -> LoginResponse:
    """The answer to a login with this result; without a client it is a login to the tenant alone.

    Raises NotFound for wrong credentials, Unavailable after too many attempts. What a user still has to do is answered
    without tokens.
    """
    match result:
        case LoggedIn():
            authentication_type = result.authentication_type or authentication_type
            return await _completed(services, call, client, result, authentication_type, wishes)
        case steps.Deactivated():
            return LoginResponse(423, reason="the user is deactivated")
        case steps.ActionPrevents() | steps.AccountLocked():
            return LoginResponse(409, {"actions": action_logs.summaries(result.actions)})
        case steps.Expired():
            return LoginResponse(410, reason="the user has expired")
        case steps.SecondFactorRequired():
            is_new = wishes.is_new_device
            waiting = await two_factor_challenges.challenge_login(
                services, call, client, result, state=wishes.state, is_new_device=is_new
            )
            return LoginResponse(242, waiting)
        case steps.PasswordChangeRequired():
            return await _must_change(services, call, client, result, wishes)
        case steps.EmailNotVerified():
            return LoginResponse(212, await verification_responses.for_gated_user(services, call, client, result))
        case steps.RegistrationNotVerified():
            return LoginResponse(
                213, await verification_responses.for_gated_registration(services, call, client, result)
            )
        case steps.TooManyAttempts():
            raise Unavailable(f"Too many attempts failed. Try again in {result.wait_seconds} seconds.")
        case _:
            raise NotFound(log_detail="wrong credentials")


async def _must_change(
    services: Services, call: Call, client: Client | None, result: steps.PasswordChangeRequired, wishes: LoginOptions
) -> LoginResponse:
    """203 with the id that changes the password."""
    change_id = await password_changes.issue_required_change_id(
        services,
        call,
        await services.tenants.get(None, TenantId(result.user["tenantId"])),
        result.user,
        reason=result.reason,
        state=wishes.state,
        application=None if client is None else client.application,
        is_trusted=result.has_second_factor,
    )
    return LoginResponse(203, {"changePasswordId": change_id, "changePasswordReason": result.reason})


async def _completed(
    services: Services,
    call: Call,
    client: Client | None,
    result: LoggedIn,
    authentication_type: str,
    wishes: LoginOptions,
) -> LoginResponse:
    """The answer to a login that lacks nothing."""
    if client is None:
        answered = await _logged_in_to_tenant(services, call, result, authentication_type, wishes)
    else:
        answered = await _logged_in(services, call, client, result, authentication_type, wishes)
    told: Document = {} if wishes.state is None else {"state": wishes.state}
    if result.threats:
        told["threatsDetected"] = list(result.threats)
    return dataclasses.replace(answered, body={**(answered.body or {}), **told})


async def _logged_in(
    services: Services, call: Call, client: Client, result: LoggedIn, authentication_type: str, wishes: LoginOptions
) -> LoginResponse:
    """200 with tokens; 202 for a user who is not registered, whose token says nothing of the application's roles."""
    status = 202 if result.registration is None else 200
    body: Document = {"user": await user_views.answer(services, result.user)}
    if wishes.no_jwt or not security_profiles.allows_tokens_by_api(client.application):
        return LoginResponse(status, body)
    found = TokenContext(client.tenant, client.application, result.user, (), (), authentication_type, call.now)
    expires = None
    is_given = client.application["loginConfiguration"]["generateRefreshTokens"] and not wishes.no_refresh_token
    if result.registration is not None and is_given:
        record = await token_responses.issue_refresh_token(
            services, call, client, found, wishes.device, pkce_verified=False
        )
        found = dataclasses.replace(found, refresh_token_id=record["id"])
        body |= {"refreshToken": record["token"], "refreshTokenId": record["id"]}
        expires = client.refresh_policy.expires(call.now, call.now)
    issued = await token_lambdas.access_token(services, call, found)
    body |= {"token": issued.token, "tokenExpirationInstant": later(call.now, seconds=issued.expires_in)}
    return LoginResponse(status, body, expires)


async def _logged_in_to_tenant(
    services: Services, call: Call, result: LoggedIn, authentication_type: str, wishes: LoginOptions
) -> LoginResponse:
    """200 with a token that names no application."""
    body: Document = {"user": await user_views.answer(services, result.user)}
    if not wishes.no_jwt:
        tenant = await services.tenants.get(None, TenantId(result.user["tenantId"]))
        body |= await user_tokens.issue_tenant_token(services, call, tenant, result.user, authentication_type)
    return LoginResponse(200, body)
