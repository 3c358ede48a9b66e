"""Logins with passkeys on the hosted pages: with discoverable credentials, or with those of the browser's known user.

The known user is that of the SSO session, who has to authenticate again, or, where the bootstrap workflow is disabled,
the user of the last login with a passkey in this browser, whom a signed cookie names.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.users import users as user_rules
from identity.domain.webauthn import credentials, relying_party, workflows
from identity.domain.webauthn.workflows import Workflow
from identity.errors import Invalid, InvalidRequest
from identity.ids import UserId, same_secret
from identity.operations.authorization import authorization, device_approvals, login_requirements
from identity.operations.clients.clients import Client
from identity.operations.limits import anonymous_request_limits
from identity.operations.login import password_login, second_factor_decisions
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LoginPage,
    NewLogin,
    NotRegistered,
    Step,
    StepFailed,
    VerifiedClient,
)
from identity.operations.login_transactions.login_transactions import InterruptedLogin
from identity.operations.objects import features
from identity.operations.webauthn import authentication, challenges, known_browsers, offers
from identity.operations.webauthn.authentication import VerifiedPasskey
from identity.operations.webauthn.challenges import ANY_USER
from identity.operations.webauthn.known_browsers import BrowserCookie
from identity.services import Services
from identity.store.browser_sessions import SsoSession

FAILED: Final = "passkey.failed"

_RESPONSE: Final = "api/webauthn-assert.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PasskeyBrowser:
    """What identifies a browser to this page: its SSO cookie, its cookie of known_browsers, and its CSRF token."""

    sso_secret: str = dataclasses.field(repr=False)
    user_cookie: str = dataclasses.field(repr=False)
    form_token: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class _OfferedWorkflow:
    """A workflow for a browser: with the passkeys of its known user, or with discoverable credentials of any user."""

    workflow: Workflow
    user_id: str = ANY_USER
    allowed: Sequence[Document] = ()


async def is_offered(services: Services, client: Client, base_url: str, browser: PasskeyBrowser) -> bool:
    """Whether the login page of the client offers passkeys to a browser."""
    if not workflows.is_enabled(client.tenant) or not features.is_on(services, offers.FEATURE):
        return False
    party = relying_party.of_page(client.tenant, base_url)
    if party is None:
        return False
    return await _find_workflow(services, client, browser, party[1], is_conditional=False) is not None


async def start(
    services: Services, call: Call, client: Client, browser: PasskeyBrowser, *, is_conditional: bool
) -> Document:
    """Return the options to use a passkey; `is_conditional`: the browser suggests them at the login id field.

    Raises InvalidRequest if the client does not offer passkeys, and for too many requests of an address.
    """
    party = relying_party.of_page(client.tenant, call.origin.base_url)
    found = None
    if party is not None and features.is_on(services, offers.FEATURE):
        found = await _find_workflow(services, client, browser, party[1], is_conditional=is_conditional)
    if party is None or found is None:
        raise InvalidRequest("unknown", "The application does not offer passkeys to this browser.")
    await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    return await authentication.begin(
        services,
        client,
        found.workflow,
        party[1],
        {"browser": browser.form_token},
        user_id=found.user_id,
        allowed=found.allowed,
        ceremony="hosted-authentication",
    )


async def log_in(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    form_token: str,
    response: str,
    *,
    is_persistent: bool,
) -> tuple[Step, BrowserCookie | None]:
    """Log in with the response of a passkey, in JSON, and continue. Raises OAuth2Error.

    Return the cookie for the browser as well, if the application enables the reauthentication workflow.
    """
    client, inside = verified_client.client, call.within(verified_client.client.tenant_id)
    request = authorization.validate(call, verified_client)
    if request.forbids_pages:
        return await authorization.begin(services, call, verified_client, browser), None
    await device_approvals.require_pending(services, call, client, request)
    try:
        verified = await _verify(services, inside, client, form_token, response)
    except Invalid:
        return LoginPage(client, problem=StepFailed(FAILED)), None
    authenticated = login_outcomes.Authenticated(client.tenant, client.application, verified.user, call.now)
    authenticated = await second_factor_decisions.decide(services, inside, authenticated, browser.trust_id)
    attempt = password_login.continue_login(
        services,
        inside,
        authenticated,
        authentication.AUTHENTICATION_TYPE,
        side_effects=authentication.side_effects(services, inside, verified),
    )
    try:
        result = await authorization.login_or_problem(attempt)
    except Invalid:
        # The signature counter increased since, or the passkey was deleted.
        return LoginPage(client, problem=StepFailed(FAILED)), None
    cookie = _user_cookie(services, call, client, verified.user)
    if isinstance(result, login_outcomes.Halt):
        login = InterruptedLogin(result.user["id"], authentication.AUTHENTICATION_TYPE, is_persistent=is_persistent)
        return await login_requirements.redirect_to_step(services, call, verified_client, login, result), cookie
    if not isinstance(result, login_outcomes.LoggedIn):
        return LoginPage(client, user_rules.primary_login_id(verified.user), result), None
    if authorization.is_registration_missing(client, result.user):
        return LoginPage(client, user_rules.primary_login_id(result.user), NotRegistered()), None
    new_login = NewLogin(result.user, authentication.AUTHENTICATION_TYPE, is_persistent, second_factor_checked=True)
    step = await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)
    return step, cookie


async def _verify(services: Services, call: Call, client: Client, form_token: str, response: str) -> VerifiedPasskey:
    """Verify a response to a challenge that this page issued to this browser for this client. Raises Invalid."""
    party = relying_party.of_page(client.tenant, call.origin.base_url)
    if party is None or not features.is_on(services, offers.FEATURE):
        raise Invalid.whole("[WebAuthnDisabled]", "The application does not enable passkeys.")
    origin, relying_party_id = party
    body = {"credential": read_response(response), "origin": origin, "rpId": relying_party_id}
    request = services.schemas[_RESPONSE].read(body)
    challenge = await challenges.consume(
        services, client.tenant_id, "hosted-authentication", request["credential"]["response"]["clientDataJSON"]
    )
    is_own = same_secret(challenge.settings["browser"], form_token)
    if not is_own or challenge.settings["applicationId"] != client.client_id:
        raise Invalid.whole("[WebAuthnDisabled]", "The challenge was issued to another page.")
    return await authentication.verify_login(services, call, client, challenge, request)


def read_response(text: str) -> Document:
    """Return the credential that a page submits as JSON. Raises Invalid."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid.field("invalidJSON", "credential", "The [credential] is not JSON.") from error
    if not isinstance(found, dict):
        raise Invalid.field("invalidJSON", "credential", "The [credential] is not an object.")
    return found


async def _find_workflow(
    services: Services, client: Client, browser: PasskeyBrowser, relying_party_id: str, *, is_conditional: bool
) -> _OfferedWorkflow | None:
    """Return the workflow of a browser; None if there is none."""
    bootstrap = workflows.effective(client.tenant, client.application, workflows.BOOTSTRAP)
    again = workflows.effective(client.tenant, client.application, workflows.REAUTHENTICATION)
    if again.is_enabled and not (is_conditional and bootstrap.is_enabled):
        user_id = await _known_user(services, client, browser, uses_cookie=not bootstrap.is_enabled)
        owned: list[Document] = []
        if user_id is not None:
            owned = await services.directory.webauthn_credentials.find_of_user(client.tenant_id, user_id)
        allowed = credentials.usable(owned, again, relying_party_id)
        if user_id is not None and allowed:
            return _OfferedWorkflow(again, user_id, allowed)
    return _OfferedWorkflow(bootstrap) if bootstrap.is_enabled else None


async def _known_user(
    services: Services, client: Client, browser: PasskeyBrowser, *, uses_cookie: bool
) -> UserId | None:
    session: SsoSession | None = None
    if browser.sso_secret:
        session = await services.sessions.sso_sessions.find(client.tenant_id, browser.sso_secret)
    if session is not None:
        return session.user_id
    return known_browsers.find_user_id(services, client.tenant_id, browser.user_cookie) if uses_cookie else None


def _user_cookie(services: Services, call: Call, client: Client, user: Document) -> BrowserCookie | None:
    """Return the cookie for a user who used a passkey; None if the application disables the reauthentication."""
    if not workflows.effective(client.tenant, client.application, workflows.REAUTHENTICATION).is_enabled:
        return None
    return known_browsers.user_cookie(services, call, client.tenant, user)
