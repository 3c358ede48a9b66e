"""An authorization request, from its checks to its response (RFC 6749 section 4.1, OpenID Connect Core 3.1.2).

`prove` finds client and redirect URI: what fails there is told on a page. Everything that fails later belongs at the
redirect URI (`authorization_responses.refusal`). `begin` answers from the browser's SSO session or wants the login
page; `log_in` takes what the login page sends; `enter` takes a user whom somebody else authenticated. All end in
`proceed`, which is everything that comes after authentication; where a page comes between, `recall` finds the way back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.authorization import authorization_request as rules
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.authorization.consent import Question
from identity.domain.clients import scopes
from identity.domain.login import login_outcomes as steps
from identity.domain.users import users
from identity.errors import (
    AccessDenied,
    ConsentRequired,
    InteractionRequired,
    LoginPrevented,
    LoginRequired,
    OAuth2Error,
    Unavailable,
    WebhookTransactionFailed,
)
from identity.operations.authorization import (
    account_logins,
    authorization_responses,
    current_logins,
    device_approvals,
    hosted_backend_callback,
    just_in_time_registration,
    login_gates,
)
from identity.operations.clients import clients, ip_access_lists
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.configuration import scope_consents
from identity.operations.login import password_login
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions import login_intents
from identity.operations.login_transactions.authorization_steps import (
    CONSENT_PAGE,
    Browser,
    Busy,
    Current,
    Interlude,
    LoginPage,
    NewLogin,
    NotRegistered,
    Prevented,
    Problem,
    SsoCookie,
    Step,
    VerifiedClient,
    Vetoed,
)
from identity.operations.login_transactions.halted_logins import HaltedLogin
from identity.operations.login_transactions.login_intents import LoginIntent
from identity.operations.objects import features
from identity.operations.providers import authorization_redirect
from identity.operations.sessions import sso_sessions
from identity.services import Services
from identity.store.device_grants import DeviceGrant

_INTERACTIONS: Mapping[type, str] = {
    steps.SecondFactorRequired: "multi_factor_challenge_required",
    steps.EmailNotVerified: "email_verification_required",
    steps.RegistrationNotVerified: "registration_verification_required",
    NotRegistered: "registration_required",
}


async def prove(services: Services, call: Call, hints: TenantHints, given: Mapping[str, Any]) -> VerifiedClient:
    """The client of a request and its redirect URI.

    Raises InvalidRequest, and AddressRefusedError for a browser that is kept from the client's pages; both belong on
    a page.
    """
    client = await clients.find(services, hints, given.get("client_id"))
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    if device_approvals.is_hosted(call, client, given):
        client = device_approvals.hosted(call, client)
    elif account_logins.is_hosted(call, client, given):
        client = account_logins.hosted(client, given)
    elif hosted_backend_callback.is_redirect_uri(call, client, given):
        client = hosted_backend_callback.with_redirect_uri(call, client)
    rules.require_redirect_uri(given, client.application)
    return VerifiedClient(client, rules.channel(given, client.application), given)


def validated(call: Call, proven: VerifiedClient, origin: str | None = None) -> AuthorizationRequest:
    """The request, when it passes every check; `origin` as a browser sends it from outside. Raises OAuth2Error."""
    application = proven.client.application
    return rules.validated(proven.given, application, origin=origin, own_origin=call.origin.base_url)


async def begin(services: Services, call: Call, proven: VerifiedClient, browser: Browser) -> Step:
    """Answer from the SSO session where that will do; else the login page. Raises OAuth2Error."""
    request = validated(call, proven, browser.origin)
    _require_features(services, proven, request)
    await device_approvals.require(services, call, proven.client, request)
    current = await current_logins.find(services, call, proven.client, request, browser)
    if current is not None:
        return await proceed(services, call, proven, request, current)
    if request.forbids_pages:
        raise LoginRequired("authentication_required", "The user has to log in.")
    if request.idp_hint is not None:
        return await authorization_redirect.by_hint(services, call, proven, browser, request.idp_hint)
    login_id = request.login_hint or ""
    away = await authorization_redirect.by_domain(services, call, proven, browser, login_id) if login_id else None
    return away or LoginPage(proven.client, login_id)


def _require_features(services: Services, proven: VerifiedClient, request: AuthorizationRequest) -> None:
    """Raise NotLicensed for a request that uses a feature which is switched off."""
    binds_key = request.dpop_jkt is not None
    features.require_request(services, proven.client.application, request.scopes, binds_key=binds_key)


async def in_place_of_page(services: Services, call: Call, proven: VerifiedClient, browser: Browser) -> Step | None:
    """What comes in place of a page that stands before the login; None when it is to be shown. Raises OAuth2Error."""
    request = validated(call, proven, browser.origin)
    if request.forbids_pages:
        return await begin(services, call, proven, browser)
    _require_features(services, proven, request)
    await device_approvals.require(services, call, proven.client, request)
    return None


async def depart(
    services: Services, call: Call, proven: VerifiedClient, browser: Browser, provider_id: str, *, is_persistent: bool
) -> Step:
    """To the identity provider whose button was pressed on the login page. Raises OAuth2Error."""
    if validated(call, proven).forbids_pages:
        return await begin(services, call, proven, browser)
    return await authorization_redirect.by_hint(
        services, call, proven, browser, provider_id, is_persistent=is_persistent
    )


async def log_in(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    browser: Browser,
    credentials: Credentials,
    *,
    is_persistent: bool,
) -> Step:
    """Log in with what the login page sent, and go on; or the page again. Raises OAuth2Error.

    Who manages the domain of a login id answers for its users: they are sent there, and no password is looked at.
    """
    client, request = proven.client, validated(call, proven)
    if request.forbids_pages:
        return await begin(services, call, proven, browser)
    _require_features(services, proven, request)
    await device_approvals.require(services, call, client, request)
    login_id = credentials.login_id
    away = await authorization_redirect.by_domain(
        services, call, proven, browser, login_id, is_persistent=is_persistent
    )
    if away is not None:
        return away
    if not credentials.password and (await authorization_redirect.offer(services, client)).manages_domains:
        return LoginPage(client, login_id)
    found = await authenticated(services, call.within(client.tenant_id), client, credentials)
    if isinstance(found, steps.Halt):
        kind = users.may_log_in_as(found.user, login_id, credentials.types)
        halted = HaltedLogin(found.user["id"], "PASSWORD", kind, is_persistent)
        return await login_gates.stop(services, call, proven, halted, found)
    if not isinstance(found, steps.LoggedIn):
        return LoginPage(client, credentials.login_id, found)
    if is_kept_out(client, found.user):
        return LoginPage(client, credentials.login_id, NotRegistered())
    fresh = NewLogin(found.user, "PASSWORD", is_persistent, is_judged=True)
    return await enter(services, call, proven, request, browser, fresh)


async def enter(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    request: AuthorizationRequest,
    browser: Browser,
    fresh: NewLogin,
) -> Step:
    """Begin the browser's session for a user who authenticated just now, in whatever way, and go on.

    The login was noted and told of by whoever authenticated the user (`login.complete`). Raises OAuth2Error.
    """
    await current_logins.require_expected(services, request, fresh.user["id"])
    secret, session = await sso_sessions.begin(
        services,
        call,
        proven.client.tenant,
        fresh,
        client_id=proven.client.client_id,
        replacing=browser.sso_secret,
    )
    has_factor = fresh.is_judged or bool(fresh.second_factor)
    current = Current(session, fresh.user, secret, fresh.authentication_type, has_factor)
    return await proceed(services, call, proven, request, current)


async def step_up(
    services: Services, call: Call, client: Client, browser: Browser, current: Current, second_factor: str
) -> Current:
    """The session, with a second factor from now on, under a new secret: nobody goes on with the one of before."""
    session = current.session
    fresh = NewLogin(
        current.user, session.authentication_type, session.is_persistent, session.auth_instant, second_factor
    )
    replacing = browser.sso_secret
    secret, session = await sso_sessions.begin(
        services, call, client.tenant, fresh, client_id=client.client_id, replacing=replacing
    )
    return dataclasses.replace(current, session=session, secret=secret, has_second_factor=True)


async def proceed(
    services: Services, call: Call, proven: VerifiedClient, request: AuthorizationRequest, current: Current
) -> Step:
    """Everything that comes after authentication: the gates, the pages that come between, the response.

    Raises OAuth2Error, among them what `prompt=none` answers in place of a page.
    """
    found = await _registered(services, call, proven, request, current)
    if isinstance(found, Interlude):
        return found
    if not isinstance(found, Current):
        return await _stopped(services, call, proven, request, current, found)
    granted = await scope_consents.resolve_consent(services, call, proven.client, found.user, request)
    if isinstance(granted, Question):
        return await _asked(services, proven, request, found, granted)
    return await finish(services, call, proven, dataclasses.replace(request, scopes=granted), found)


async def finish(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    request: AuthorizationRequest,
    current: Current,
    device: DeviceGrant | None = None,
) -> Step:
    """The response, when no page is left to show: its scopes are granted. A session's use is noted first.

    The last page, where the request names a device, asks about that; `device` is what the user agreed to there.
    """
    _require_features(services, proven, request)
    if request.user_code is not None and device is None:
        return await device_approvals.ask(services, proven, request, current)
    problem = None
    if current.authentication_type == "PING":
        problem = await _recorded(services, call, proven.client, current.user)
    if problem is None and device is not None and device_approvals.is_hosted(call, proven.client, proven.given):
        return await device_approvals.complete(services, call, proven, current, device)
    if problem is None and account_logins.is_hosted(call, proven.client, proven.given):
        return account_logins.complete(proven.client, proven.given, current)
    if problem is None:
        return await authorization_responses.success(services, call, proven.client, request, current, device)
    return await _stopped(services, call, proven, request, current, problem)


async def recall(
    services: Services, call: Call, proven: VerifiedClient, intent: LoginIntent, browser: Browser
) -> tuple[AuthorizationRequest, Current] | None:
    """The request and the login that an intent remembers; None when the user logged out, or is gone, meanwhile.

    Raises OAuth2Error for a request that the application would not make any more.
    """
    request = validated(call, proven)
    current = await current_logins.recall(services, call, proven.client, intent, browser)
    return None if current is None else (request, current)


def gate(call: Call, client: Client, current: Current) -> Problem | None:
    """What stands between a login and this application: the gates of a fresh login hold for a session too."""
    authenticated = steps.Authenticated(
        client.tenant,
        client.application,
        current.user,
        call.now,
        is_federated=current.is_federated,
        has_second_factor=current.has_second_factor,
    )
    halt = steps.find_halt(authenticated)
    if halt is None and _lacks_registration(client, current.user):
        return NotRegistered()
    return halt


async def _registered(
    services: Services, call: Call, proven: VerifiedClient, request: AuthorizationRequest, current: Current
) -> Current | Problem | Interlude:
    """The login of a user whom nothing stops, registered where that comes by itself; or what is in the way."""
    problem = gate(call, proven.client, current)
    if problem is not None and not isinstance(problem, NotRegistered):
        return problem
    if not just_in_time_registration.is_due(proven.client, current.user):
        return problem or current
    settled = await just_in_time_registration.settle(services, call, proven, request, current)
    if not isinstance(settled, Current):
        return settled
    return gate(call, proven.client, settled) or settled


async def _stopped(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    request: AuthorizationRequest,
    current: Current,
    problem: Problem,
) -> Step:
    """The page for what is in the way of a session; where no page may be shown, the error that says so.

    A password is changed by whoever knows the present one, which a session does not show: they have to log in.
    """
    if request.forbids_pages:
        raise _interaction(problem)
    is_here = bool(current.secret) or current.authentication_type != "PING"
    if is_here and isinstance(problem, steps.Halt) and not isinstance(problem, steps.PasswordChangeRequired):
        session = current.session
        halted = HaltedLogin(
            session.user_id,
            session.authentication_type,
            is_persistent=session.is_persistent,
            second_factor=session.second_factor,
            # Where the tenant has no sessions it is the login that waits.
            session_id=session.session_id if current.secret else "",
        )
        cookie = SsoCookie.of(proven.client, current)
        return await login_gates.stop(services, call, proven, halted, problem, cookie)
    return LoginPage(proven.client, users.primary_login_id(current.user), problem)


async def authenticated(
    services: Services, call: Call, client: Client, credentials: Credentials
) -> steps.LoggedIn | Problem:
    """The user with these credentials, or what is wrong: for any page that asks for a password."""
    return await told(password_login.authenticate(services, call, credentials, client.application))


async def told(attempt: Awaitable[steps.LoginResult]) -> steps.LoggedIn | Problem:
    """What comes of an attempt to log in; a refusal as what a page says of it."""
    try:
        return await attempt
    except WebhookTransactionFailed:
        return Vetoed()
    except LoginPrevented as error:
        return Prevented(tuple(error.messages))
    except Unavailable:
        return Busy()


def is_kept_out(client: Client, user: Document) -> bool:
    """Whether the application takes only users who are registered for it, and this one is not, nor will be."""
    return _lacks_registration(client, user) and not just_in_time_registration.is_due(client, user)


def _lacks_registration(client: Client, user: Document) -> bool:
    is_registered = users.find_registration(user, client.client_id) is not None
    return bool(client.oauth["requireRegistration"]) and not is_registered


def _interaction(problem: Problem) -> OAuth2Error:
    """What prompt=none answers in place of a page (OpenID Connect Core 3.1.2.6)."""
    if isinstance(problem, steps.PasswordChangeRequired):
        return InteractionRequired(f"change_password_{problem.reason.lower()}", "The password has to be changed.")
    if type(problem) in _INTERACTIONS:
        return InteractionRequired(_INTERACTIONS[type(problem)], "The user has to do something first.")
    return AccessDenied("unknown", "The login was refused.")


async def _asked(
    services: Services, proven: VerifiedClient, request: AuthorizationRequest, current: Current, question: Question
) -> Interlude:
    """The way to the consent page. Raises ConsentRequired where no page may be shown."""
    if request.forbids_pages:
        asked = scopes.joined(question.required + question.optional)
        raise ConsentRequired("consent_required", f"The user has to agree to: {asked}")
    intent = await login_intents.remember(services, proven, current, CONSENT_PAGE)
    return Interlude(proven.client, CONSENT_PAGE, intent, SsoCookie.of(proven.client, current))


async def _recorded(services: Services, call: Call, client: Client, user: Document) -> Problem | None:
    """Note a login that the session made unnecessary to repeat."""
    try:
        await password_login.resume_session(services, call.within(client.tenant_id), user, client.application)
    except WebhookTransactionFailed:
        return Vetoed()
    return None
