"""The two-factor login API: starting a challenge for a user, and completing a login with a second factor."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import LoginResult
from identity.domain.users.users import LOGIN_ID_TYPES
from identity.errors import Invalid, NotFound
from identity.ids import TenantId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
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
    """The Login API response; `trust_seconds` goes with a `twoFactorTrustId`, for its cookie."""

    answer: LoginResponse
    trust_seconds: int | None = None


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> TwoFactorLoginResponse:
    """The Login API response for a challenge and a code; `trust_id` is what the browser's cookie has of trust.

    Raises NotFound for a challenge that does not wait, WrongCode, Unavailable after too many wrong codes, Invalid for
    an application that the challenge is not for, LoginPrevented, and WebhookTransactionFailed, after which challenge
    and code are still good.
    """
    request = services.schemas[_LOGIN].read(body)
    waiting = await two_factor_challenges.get_challenge(services, call, request["twoFactorId"])
    client = await _client(services, waiting, request.get("applicationId"))
    call = login_responses.with_stated_ip_address(call.within(waiting.token.tenant_id), request)
    verified = await two_factor_challenges.verify_code(services, call, request["twoFactorId"], request["code"])
    asked = LoginOptions.from_request(request)
    is_new = asked.is_new_device or verified.challenge.login_state.get("isNewDevice", False)
    wishes = dataclasses.replace(asked, is_new_device=is_new, state=verified.challenge.login_state.get("state"))
    application = None if client is None else client.application
    proven = verified.authenticated(call, application)
    result = await password_login.continue_login(
        services,
        call,
        proven,
        verified.authentication_type,
        identity_type=verified.identity_type,
        is_new_device=wishes.is_new_device,
        side_effects=verified.side_effects(),
    )
    answer = await login_responses.build_response(services, call, client, result, verified.authentication_type, wishes)
    return await _with_trust(services, call, verified, result, answer, application, request, trust_id)


async def start(services: Services, call: Call, body: Document) -> Document:
    """A challenge for a user whom the caller wants to be sure of: `twoFactorId`, `code` and `methods`.

    The code is the caller's own or made here, and the caller sends it. Raises Invalid, and NotFound for an unknown
    user.
    """
    request = services.schemas[_START].read(body)
    client = None
    if request.get("applicationId") is not None:
        client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
        call = call.within(client.tenant_id)
    user = await _user(services, call, request)
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    code = request.get("code") or two_factor_codes.generate(tenant)
    about: Document = {
        "applicationId": None if client is None else client.client_id,
        "authenticationType": "PASSWORD",
        "isStarted": True,
        "sent": {"code": two_factor_codes.hash_code(code), "method": _method(user)},
        "state": request.get("state"),
        "trustChallenge": request.get("trustChallenge"),
    }
    application = None if client is None else client.application
    two_factor_id = await two_factor_challenges.issue_challenge(
        services, call.within(tenant_id), tenant, application, user, about
    )
    return {"twoFactorId": two_factor_id, "code": code, "methods": two_factor_challenges.visible_methods(call, user)}


async def _client(
    services: Services, waiting: two_factor_challenges.Challenge, application_id: str | None
) -> Client | None:
    """The client of the login: the challenge's; the request may name one where the API began without any.

    Whether an application lets callers without an API key log in was judged when the login began: it stays the one that
    it was. Raises Invalid.
    """
    begun = waiting.login_state.get("applicationId")
    if application_id not in {None, begun} and not (begun is None and waiting.login_state.get("isStarted")):
        message = "The [applicationId] must name the application of the login that was begun."
        raise Invalid.field("invalid", "applicationId", message)
    wanted = application_id or begun
    return None if wanted is None else await clients.get_by_application_id(services, waiting.token.tenant_id, wanted)


async def _with_trust(
    services: Services,
    call: Call,
    verified: VerifiedChallenge,
    result: LoginResult,
    answer: LoginResponse,
    application: Document | None,
    request: Document,
    trust_id: str | None,
) -> TwoFactorLoginResponse:
    """The answer with what the second factor is good for beside the login, unless the user may not log in at all."""
    if answer.body is None or isinstance(result, login_outcomes.Barred):
        return TwoFactorLoginResponse(answer)
    tenant, about = verified.challenge.tenant, verified.challenge.login_state
    token = await two_factor_trust.issue_trust_token(services, tenant, verified.user, about.get("trustChallenge"))
    body: Document = {**answer.body, "trustToken": token}
    seconds = None
    if request["trustComputer"]:
        shown, seconds = await two_factor_trust.trust_device(
            services, call, tenant, application, verified.user, secret=trust_id
        )
        body["twoFactorTrustId"] = shown
    return TwoFactorLoginResponse(dataclasses.replace(answer, body=body), seconds)


async def _user(services: Services, call: Call, request: Document) -> Document:
    """The user of a start: by id, else by login id. Raises Invalid, and NotFound."""
    if request.get("userId") is not None:
        tenant_id = await user_lookup.get_tenant_id(services, call, request["userId"])
        return await services.directory.users.get(tenant_id, request["userId"])
    if request.get("loginId") is None:
        message = "You must specify the [loginId] or the [userId] property."
        raise Invalid.field("blank", "loginId", message)
    types = request.get("loginIdTypes") or LOGIN_ID_TYPES
    found = await services.directory.users.find_by_login_id(crud.require_tenant(call), request["loginId"], types)
    if found is None:
        raise NotFound
    return found


def _method(user: Document) -> str:
    """What the caller's own code counts as: the user's method by messages, if there is one."""
    kinds = [method["method"] for method in user["twoFactor"]["methods"]]
    return next((kind for kind in kinds if kind in {"email", "sms"}), "email")
