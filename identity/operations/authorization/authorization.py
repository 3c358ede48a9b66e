"""An authorization request, from its validation to its response (RFC 6749 section 4.1, OpenID Connect Core 3.1.2).

    verify_client        find the client and verify its redirect URI; errors are shown on an error page
    begin                answer from the browser's SSO session, or show the login page
    log_in               verify the credentials of the login page
    continue_with_login  create the session of a user who authenticated
    proceed              requirements, registration and consent
    respond              the authorization response

From `begin` on, errors are redirected to the client (`authorization_responses.error`). `restore_login` returns to
`proceed` from a page that came between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.authorization import authorization_request
from identity.domain.authorization import step_up as step_up_rules
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.authorization.consent import ConsentPrompt
from identity.domain.clients import scopes
from identity.domain.login import login_outcomes
from identity.domain.users import users
from identity.errors import (
    AccessDenied,
    ConsentRequired,
    InteractionRequired,
    LoginPrevented,
    LoginRequired,
    OAuth2Error,
    Unavailable,
    UnmetAuthenticationRequirements,
    WebhookTransactionFailed,
)
from identity.operations.authorization import (
    account_logins,
    administrator_logins,
    authorization_responses,
    current_logins,
    device_approvals,
    first_party_redirects,
    just_in_time_registration,
    login_requirements,
)
from identity.operations.clients import clients, ip_access_lists
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.configuration import scope_consents
from identity.operations.login import password_login
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    CONSENT_PAGE,
    PASSKEY_OFFER_PAGE,
    Browser,
    Busy,
    CurrentLogin,
    IntermediatePage,
    LoginPage,
    NewLogin,
    NotRegistered,
    Problem,
    RejectedByLambda,
    RejectedByWebhook,
    SsoCookie,
    Step,
    VerifiedClient,
)
from identity.operations.login_transactions.login_transactions import (
    AuthenticatedTransaction,
    InterruptedLogin,
)
from identity.operations.objects import features
from identity.operations.providers import authorization_redirect
from identity.operations.sessions import sso_sessions
from identity.operations.webauthn import offers as passkey_offers
from identity.services import Services
from identity.store.device_grants import DeviceGrant

_INTERACTIONS: Mapping[type, str] = {
    login_outcomes.SecondFactorRequired: "multi_factor_challenge_required",
    login_outcomes.EmailNotVerified: "email_verification_required",
    login_outcomes.RegistrationNotVerified: "registration_verification_required",
    NotRegistered: "registration_required",
}
"""The `error_reason` of a requirement that `prompt=none` cannot meet."""


async def verify_client(services: Services, call: Call, hints: TenantHints, given: Mapping[str, Any]) -> VerifiedClient:
    """Find the client of a request and verify its redirect URI.

    Raises InvalidRequest, and AddressRefusedError for an IP address that may not see the client's pages; both are
    shown on an error page.
    """
    client = await clients.get_client(services, hints, given.get("client_id"))
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    client = first_party_redirects.with_page_settings(call, client, given)
    authorization_request.require_redirect_uri(given, client.application)
    return VerifiedClient(client, authorization_request.channel(given, client.application), given)


def validate(call: Call, verified_client: VerifiedClient, origin: str | None = None) -> AuthorizationRequest:
    """Validate all parameters; `origin` is the Origin header of a request from another site. Raises OAuth2Error."""
    application = verified_client.client.application
    return authorization_request.validate(
        verified_client.given, application, origin=origin, own_origin=call.origin.base_url
    )


async def begin(services: Services, call: Call, verified_client: VerifiedClient, browser: Browser) -> Step:
    """Answer from the SSO session if it is sufficient; else show the login page. Raises OAuth2Error."""
    request, client = validate(call, verified_client, browser.origin), verified_client.client
    await _require_allowed(services, call, verified_client, request)
    current = await current_logins.find(services, call, client, request, browser)
    if current is not None:
        return await proceed(services, call, verified_client, request, current)
    if request.forbids_pages:
        raise LoginRequired("authentication_required", "The user has to log in.")
    if request.idp_hint is not None:
        return await authorization_redirect.redirect_by_hint(services, call, verified_client, browser, request.idp_hint)
    login_id, redirect = request.login_hint or "", None
    if login_id:
        redirect = await authorization_redirect.redirect_by_domain(services, call, verified_client, browser, login_id)
    return redirect or LoginPage(client, login_id)


async def step_without_page(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser
) -> Step | None:
    """Return the step that replaces a page before the login; None if the page may be shown. Raises OAuth2Error."""
    request = validate(call, verified_client, browser.origin)
    if request.forbids_pages:
        return await begin(services, call, verified_client, browser)
    await _require_allowed(services, call, verified_client, request)
    return None


async def redirect_to_provider(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    provider_id: str,
    *,
    is_persistent: bool,
) -> Step:
    """Redirect to the identity provider that was chosen on the login page. Raises OAuth2Error."""
    if validate(call, verified_client).forbids_pages:
        return await begin(services, call, verified_client, browser)
    return await authorization_redirect.redirect_by_hint(
        services, call, verified_client, browser, provider_id, is_persistent=is_persistent
    )


async def log_in(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    credentials: Credentials,
    *,
    is_persistent: bool,
) -> Step:
    """Log in with the credentials of the login page and continue; on failure show the page again. Raises OAuth2Error.

    Users whose email domain is managed by an identity provider are redirected there; their password is not verified.
    """
    client, request, login_id = verified_client.client, validate(call, verified_client), credentials.login_id
    if request.forbids_pages:
        return await begin(services, call, verified_client, browser)
    await _require_allowed(services, call, verified_client, request)
    redirect = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, login_id, is_persistent=is_persistent
    )
    if redirect is not None:
        return redirect
    if not credentials.password and (await authorization_redirect.find_options(services, client)).manages_domains:
        return LoginPage(client, login_id)
    result = await authenticate(services, call.within(client.tenant_id), client, credentials)
    if isinstance(result, login_outcomes.Halt):
        identity_type = credentials.type_of(result.user)
        login = InterruptedLogin(result.user["id"], "PASSWORD", identity_type, is_persistent)
        return await login_requirements.redirect_to_step(services, call, verified_client, login, result)
    if not isinstance(result, login_outcomes.LoggedIn):
        return LoginPage(client, login_id, result)
    if is_registration_missing(client, result.user):
        return LoginPage(client, login_id, NotRegistered())
    new_login = NewLogin(result.user, "PASSWORD", is_persistent, second_factor_checked=True)
    return await continue_with_login(services, call, verified_client, request, browser, new_login)


async def continue_with_login(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    browser: Browser,
    new_login: NewLogin,
) -> Step:
    """Create the browser's session for a user who just authenticated, by any method, and continue.

    The caller has recorded the login and sent its events (`login.complete`). Raises OAuth2Error.
    """
    client = verified_client.client
    await current_logins.require_expected(services, request, new_login.user["id"])
    new_login = dataclasses.replace(new_login, realm=administrator_logins.realm_of(client, new_login))
    secret, session = await sso_sessions.begin(
        services, call, client.tenant, new_login, client_id=client.client_id, replacing=browser.sso_secret
    )
    has_second_factor = new_login.second_factor_checked or bool(new_login.second_factor)
    current = CurrentLogin(session, new_login.user, secret, new_login.authentication_type, has_second_factor)
    return await proceed(services, call, verified_client, request, current)


async def step_up(
    services: Services, call: Call, client: Client, browser: Browser, current: CurrentLogin, second_factor: str
) -> CurrentLogin:
    """Add a second factor to the session. Its secret changes, which prevents session fixation."""
    session = current.session
    new_login = NewLogin(
        current.user,
        session.authentication_type,
        session.is_persistent,
        session.auth_instant,
        second_factor,
        realm=session.realm,
        start_instant=session.start_instant,
    )
    secret, session = await sso_sessions.begin(
        services, call, client.tenant, new_login, client_id=client.client_id, replacing=browser.sso_secret
    )
    return dataclasses.replace(current, session=session, secret=secret, has_second_factor=True)


async def proceed(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
) -> Step:
    """Continue after authentication: requirements, registration, passkey offer, consent, response.

    Raises OAuth2Error, including the error by which `prompt=none` replaces a page.
    """
    if not administrator_logins.may_use(verified_client.client, current.session):
        if request.forbids_pages:
            raise administrator_logins.login_required()
        return LoginPage(verified_client.client, users.primary_login_id(current.user))
    if requires_step_up(verified_client.client, request, current.user, current.session.second_factor):
        step_up_required = login_outcomes.SecondFactorRequired(current.user)
        return await _interrupt(services, call, verified_client, request, current, step_up_required)
    found = await _ensure_registration(services, call, verified_client, request, current)
    if isinstance(found, IntermediatePage):
        return found
    if not isinstance(found, CurrentLogin):
        return await _interrupt(services, call, verified_client, request, current, found)
    if await _offers_passkey(services, call, verified_client, request, found):
        return await login_transactions.store_authenticated(services, verified_client, found, PASSKEY_OFFER_PAGE)
    granted = await scope_consents.resolve_consent(services, call, verified_client.client, found.user, request)
    if isinstance(granted, ConsentPrompt):
        return await _request_consent(services, verified_client, request, found, granted)
    return await respond(services, call, verified_client, dataclasses.replace(request, scopes=granted), found)


def requires_step_up(client: Client, request: AuthorizationRequest, user: Document, second_factor: str) -> bool:
    """Return whether the request needs a second factor that the login lacks; trust in a device is none (RFC 9470).

    Raises UnmetAuthenticationRequirements if the class is essential and the user has no method.
    """
    acr = request.claims.acr
    if second_factor or not step_up_rules.requires_second_factor(client.oauth, acr):
        return False
    if not user["twoFactor"]["methods"] and acr is not None and acr.is_essential:
        raise UnmetAuthenticationRequirements(None, "The user has no second factor, which the acr requires.")
    return bool(user["twoFactor"]["methods"])


async def respond(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
    device: DeviceGrant | None = None,
) -> Step:
    """Return the response to a request whose scopes are granted, after recording the use of the session.

    A request with a `user_code` first leads to the device page; `device` is the grant that the user approved there.
    """
    client, given = verified_client.client, verified_client.given
    administrator_logins.require_usable(client, current.session)
    _require_features(services, verified_client, request)
    if request.user_code is not None and device is None:
        return await device_approvals.request_approval(services, verified_client, request, current)
    if current.authentication_type == "PING":
        problem = await _record_session_use(services, call, client, current.user)
        if problem is not None:
            return await _interrupt(services, call, verified_client, request, current, problem)
    if device is not None and device_approvals.is_hosted(call, client, given):
        return await device_approvals.complete(services, call, verified_client, current, device)
    if account_logins.is_hosted(call, client, given):
        return account_logins.complete(client, given, current)
    return await authorization_responses.success_response(services, call, client, request, current, device)


async def restore_login(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> tuple[AuthorizationRequest, CurrentLogin] | None:
    """Return the request and the login of a transaction; None if the user logged out or was deleted meanwhile.

    Raises OAuth2Error for a request that the application's current settings do not allow.
    """
    request = validate(call, transaction.verified_client)
    current = await current_logins.restore(services, call, transaction.client, transaction.login, browser)
    return None if current is None else (request, current)


def unmet_requirement(call: Call, client: Client, current: CurrentLogin) -> Problem | None:
    """Return what prevents a login at this application: sessions have to meet the requirements of a new login."""
    authenticated = login_outcomes.Authenticated(
        client.tenant,
        client.application,
        current.user,
        call.now,
        is_federated=current.is_federated,
        has_second_factor=current.has_second_factor,
        decision=current.decision,
    )
    requirement = login_outcomes.find_halt(authenticated)
    if requirement is None and _lacks_registration(client, current.user):
        return NotRegistered()
    return requirement


async def authenticate(
    services: Services, call: Call, client: Client, credentials: Credentials
) -> login_outcomes.LoggedIn | Problem:
    """Authenticate a user by password, and return the user or what a page shows instead."""
    return await login_or_problem(password_login.authenticate(services, call, credentials, client.application))


async def login_or_problem(attempt: Awaitable[login_outcomes.LoginResult]) -> login_outcomes.LoggedIn | Problem:
    """Await a login attempt, and return its errors as problems that a page shows."""
    try:
        return await attempt
    except WebhookTransactionFailed:
        return RejectedByWebhook()
    except LoginPrevented as error:
        return RejectedByLambda(error.texts)
    except Unavailable:
        return Busy()


def is_registration_missing(client: Client, user: Document) -> bool:
    """Whether the application requires a registration that the user lacks and that the login will not create."""
    return _lacks_registration(client, user) and not just_in_time_registration.is_due(client, user)


async def _require_allowed(
    services: Services, call: Call, verified_client: VerifiedClient, request: AuthorizationRequest
) -> None:
    """Raise NotLicensed for a disabled feature, and InvalidRequest for a `user_code` that is not pending."""
    _require_features(services, verified_client, request)
    await device_approvals.require_pending(services, call, verified_client.client, request)


def _require_features(services: Services, verified_client: VerifiedClient, request: AuthorizationRequest) -> None:
    """Raise NotLicensed for a request that uses a disabled feature."""
    binds_key = request.dpop_jkt is not None
    features.require_request(services, verified_client.client.application, request.scopes, binds_key=binds_key)


async def _ensure_registration(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
) -> CurrentLogin | Problem | IntermediatePage:
    """Return the login, with a just-in-time registration where one is due; or what prevents it."""
    client = verified_client.client
    problem = unmet_requirement(call, client, current)
    if problem is not None and not isinstance(problem, NotRegistered):
        return problem
    if not just_in_time_registration.is_due(client, current.user):
        return problem or current
    registered = await just_in_time_registration.register_at_login(services, call, verified_client, request, current)
    if not isinstance(registered, CurrentLogin):
        return registered
    return unmet_requirement(call, client, registered) or registered


async def _interrupt(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
    problem: Problem,
) -> Step:
    """Return the page for what prevents a login; under `prompt=none` raise the error that names it.

    A password change requires the current password, which a session does not prove: the user has to log in.
    """
    if request.forbids_pages:
        raise _interaction_error(problem)
    client, session = verified_client.client, current.session
    # Without a session secret the tenant has SSO disabled; then only a login of this request can be continued.
    can_continue = bool(current.secret) or current.authentication_type != "PING"
    is_password_change = isinstance(problem, login_outcomes.PasswordChangeRequired)
    if not can_continue or is_password_change or not isinstance(problem, login_outcomes.Halt):
        return LoginPage(client, users.primary_login_id(current.user), problem)
    login = InterruptedLogin(
        session.user_id,
        session.authentication_type,
        is_persistent=session.is_persistent,
        second_factor=session.second_factor,
        session_id=session.session_id if current.secret else "",
    )
    cookie = SsoCookie.of(client, current)
    return await login_requirements.redirect_to_step(services, call, verified_client, login, problem, cookie)


async def _offers_passkey(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
) -> bool:
    """Whether the login is followed by the offer to add a passkey; logins of our own pages are not."""
    client, given = verified_client.client, verified_client.given
    is_own_page = device_approvals.is_hosted(call, client, given) or account_logins.is_hosted(call, client, given)
    if request.forbids_pages or is_own_page:
        return False
    return await passkey_offers.is_due(services, call, client, current.user["id"], current.authentication_type)


def _lacks_registration(client: Client, user: Document) -> bool:
    is_registered = users.find_registration(user, client.client_id) is not None
    return client.oauth.require_registration and not is_registered


def _interaction_error(problem: Problem) -> OAuth2Error:
    """Return the error by which `prompt=none` replaces a page (OpenID Connect Core 3.1.2.6)."""
    if isinstance(problem, login_outcomes.PasswordChangeRequired):
        return InteractionRequired(f"change_password_{problem.reason.lower()}", "The password has to be changed.")
    if type(problem) in _INTERACTIONS:
        return InteractionRequired(_INTERACTIONS[type(problem)], "The user has to complete a step of the login.")
    return AccessDenied("unknown", "The login was refused.")


async def _request_consent(
    services: Services,
    verified_client: VerifiedClient,
    request: AuthorizationRequest,
    current: CurrentLogin,
    prompt: ConsentPrompt,
) -> IntermediatePage:
    """Redirect to the consent page. Raises ConsentRequired under `prompt=none`."""
    if request.forbids_pages:
        missing = scopes.join(prompt.required + prompt.optional)
        raise ConsentRequired("consent_required", f"The user has to consent to: {missing}")
    return await login_transactions.store_authenticated(services, verified_client, current, CONSENT_PAGE)


async def _record_session_use(services: Services, call: Call, client: Client, user: Document) -> Problem | None:
    """Record a login that the SSO session made unnecessary."""
    try:
        await password_login.resume_session(services, call.within(client.tenant_id), user, client.application)
    except WebhookTransactionFailed:
        return RejectedByWebhook()
    return None
