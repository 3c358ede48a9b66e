"""The two-factor login API: starting a challenge for a user, and completing a login with a second factor."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import LoginResult
from identity.domain.users.users import LOGIN_ID_TYPES
from identity.errors import FieldError, Invalid, NotFound
from identity.ids import TenantId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.groups import administrators
from identity.operations.login import password_login, two_factor_challenges
from identity.operations.login.two_factor_challenges import VerifiedChallenge
from identity.operations.objects import crud, user_lookup
from identity.operations.two_factor import two_factor_codes, two_factor_trust
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.services import Services

_LOGIN = "api/two-factor-login.request.json"
_START = "api/two-factor-start.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class TwoFactorLoginResponse:
    """The Login API response; `trust_seconds` is the lifetime of the cookie of a `twoFactorTrustId`."""

    response: LoginResponse
    trust_seconds: int | None = None


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> TwoFactorLoginResponse:
    """Complete a challenge with a code; `trust_id` is the two-factor trust of the browser's cookie.

    Raises NotFound for an unknown challenge, WrongCode, Unavailable after too many incorrect codes, Invalid for
    another application than that of the challenge, LoginPrevented, and WebhookTransactionFailed, after which challenge
    and code remain valid.
    """
    request = services.schemas[_LOGIN].read(body)
    challenge = await two_factor_challenges.get_challenge(services, call, request["twoFactorId"])
    client = await _find_client(services, challenge, request.get("applicationId"))
    call = login_responses.with_stated_ip_address(call.within(challenge.token.tenant_id), request)
    verified = await two_factor_challenges.verify_code(services, call, request["twoFactorId"], request["code"])
    options, login_state = LoginOptions.from_request(request), verified.challenge.login_state
    is_new = options.is_new_device or login_state.get("isNewDevice", False)
    options = dataclasses.replace(options, is_new_device=is_new, state=login_state.get("state"))
    application = clients.application_of(client)
    result = await password_login.continue_login(
        services,
        call,
        verified.authenticated(call, application),
        verified.authentication_type,
        identity_type=verified.identity_type,
        is_new_device=options.is_new_device,
        side_effects=verified.side_effects(),
    )
    kind = verified.authentication_type
    response = await login_responses.build_response(services, call, client, result, kind, options)
    return await _with_trust(services, call, verified, result, response, application, request, trust_id)


async def start(services: Services, call: Call, body: Document) -> Document:
    """Start a challenge for a user, and return `twoFactorId`, `code` and `methods`.

    The code is that of the request or a generated one; the caller sends it to the user. Raises Invalid, NotFound for
    an unknown user, and Unauthorized for an administrator with more permissions.
    """
    request = services.schemas[_START].read(body)
    client = await clients.find_by_application_id(services, call.tenant_id, request.get("applicationId"))
    if client is not None:
        call = call.within(client.tenant_id)
    user = await _get_user(services, call, request)
    await administrators.require_authority(services, call, user)
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    code = request.get("code") or two_factor_codes.generate(tenant)
    login_state: Document = {
        "applicationId": None if client is None else client.client_id,
        "authenticationType": "PASSWORD",
        "isStarted": True,
        "sent": {"code": two_factor_codes.hash_code(code), "method": _method(user)},
        "state": request.get("state"),
        "trustChallenge": request.get("trustChallenge"),
    }
    two_factor_id = await two_factor_challenges.issue_challenge(
        services, call.within(tenant_id), tenant, clients.application_of(client), user, login_state
    )
    return {"twoFactorId": two_factor_id, "code": code, "methods": two_factor_challenges.visible_methods(call, user)}


async def _find_client(
    services: Services, challenge: two_factor_challenges.Challenge, application_id: str | None
) -> Client | None:
    """Return the client of the challenge, or that of the request if the API started the challenge without one.

    The application cannot change, because its requirements were checked when the login started. Raises Invalid.
    """
    started = challenge.login_state.get("applicationId")
    if application_id not in {None, started} and not (started is None and challenge.login_state.get("isStarted")):
        raise Invalid([FieldError.invalid("applicationId", "must be the application of the login that was started")])
    return await clients.find_by_application_id(services, challenge.token.tenant_id, application_id or started)


async def _with_trust(
    services: Services,
    call: Call,
    verified: VerifiedChallenge,
    result: LoginResult,
    response: LoginResponse,
    application: Document | None,
    request: Document,
    trust_id: str | None,
) -> TwoFactorLoginResponse:
    """Add the trust token, and the trust of the device, unless the user is barred."""
    if response.body is None or isinstance(result, login_outcomes.Barred):
        return TwoFactorLoginResponse(response)
    tenant, trust_challenge = verified.challenge.tenant, verified.challenge.login_state.get("trustChallenge")
    token = await two_factor_trust.issue_trust_token(services, tenant, verified.user, trust_challenge)
    body: Document = {**response.body, "trustToken": token}
    seconds = None
    if request["trustComputer"]:
        secret, seconds = await two_factor_trust.trust_device(
            services, call, tenant, application, verified.user, secret=trust_id
        )
        body["twoFactorTrustId"] = secret
    return TwoFactorLoginResponse(dataclasses.replace(response, body=body), seconds)


async def _get_user(services: Services, call: Call, request: Document) -> Document:
    """Return the user by id, or else by login id. Raises Invalid and NotFound."""
    if request.get("userId") is not None:
        tenant_id = await user_lookup.get_tenant_id(services, call, request["userId"])
        return await services.directory.users.get(tenant_id, request["userId"])
    if request.get("loginId") is None:
        raise Invalid.field("blank", "loginId", "You must specify the [loginId] or the [userId] property.")
    types = request.get("loginIdTypes") or LOGIN_ID_TYPES
    user = await services.directory.users.find_by_login_id(crud.require_tenant(call), request["loginId"], types)
    if user is None:
        raise NotFound
    return user


def _method(user: Document) -> str:
    """Return the method that the code of the caller counts as: the user's first message method, or email."""
    kinds = [method["method"] for method in user["twoFactor"]["methods"]]
    return next((kind for kind in kinds if kind in {"email", "sms"}), "email")
