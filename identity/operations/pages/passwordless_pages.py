"""Passwordless logins on the hosted pages: enter a login id, then follow the link or enter the code of the message.

The responses do not reveal whether the login id exists. The link of a message repeats the authorization request, which
is validated again. Only a submitted form consumes the code: mail scanners open links before their reader does, and
would otherwise consume every code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call
from identity.domain.login import login_outcomes
from identity.domain.users import users as user_rules
from identity.errors import Invalid, InvalidRequest, NotFound, Unavailable
from identity.operations.authorization import (
    authorization,
    device_approvals,
    login_requirements,
    passwordless,
    request_sources,
)
from identity.operations.clients.clients import Client
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
from identity.operations.providers import authorization_redirect
from identity.services import Services

BROWSER_PARAMETER: Final = "browser"
"""The parameter of a link that identifies the browser that requested the message."""
REMEMBER_PARAMETER: Final = "rememberDevice"
LINK_EXPIRED: Final = "passwordless.over"

_REQUEST: Final = "oauth2/authorize.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class MessageSent:
    """A message was sent, if the login id exists; `code` is the login's code if the user has to enter another one."""

    code: str = dataclasses.field(default="", repr=False)


def require_enabled(client: Client) -> None:
    """Raise InvalidRequest unless the application enables passwordless logins."""
    if not passwordless.is_offered(client):
        raise InvalidRequest("unknown", "Passwordless login is not enabled for the application.")


async def step_before_page(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser
) -> Step | None:
    """Return the step that replaces the page; None if the page has to be shown. Raises OAuth2Error."""
    require_enabled(verified_client.client)
    return await authorization.step_without_page(services, call, verified_client, browser)


async def send_message(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    login_id: str,
    browser_id: str,
    *,
    is_persistent: bool,
) -> MessageSent | login_outcomes.TooManyAttempts | Step:
    """Send a link or a code to the user with a login id. Raises OAuth2Error.

    `browser_id` is the value of the link's BROWSER_PARAMETER. If an identity provider manages the domain of the login
    id, the browser is redirected there instead.
    """
    step = await step_before_page(services, call, verified_client, browser)
    if step is not None:
        return step
    client = verified_client.client
    provider_redirect = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, login_id, is_persistent=is_persistent
    )
    if provider_redirect is not None:
        return provider_redirect
    state = {
        **_link_parameters(services, verified_client),
        BROWSER_PARAMETER: browser_id,
        REMEMBER_PARAMETER: str(is_persistent).lower(),
    }
    try:
        started = await passwordless.send_to(services, call.within(client.tenant_id), client, login_id, state=state)
    except Unavailable:
        return login_outcomes.TooManyAttempts(0)
    return MessageSent(started.code) if passwordless.uses_one_time_code(client) else MessageSent()


async def find_login_id(services: Services, call: Call, verified_client: VerifiedClient, code: str) -> str | None:
    """Return the login id of the user whom a code logs in, without consuming it; None if it is invalid.

    Raises Unavailable after too many invalid codes.
    """
    client = verified_client.client
    try:
        found = await passwordless.redeem(
            services, call.within(client.tenant_id), code, application_id=client.client_id
        )
    except (NotFound, Invalid):
        return None
    return user_rules.primary_login_id(found.authenticated.user)


async def log_in(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    code: str,
    one_time_code: str | None,
    *,
    is_persistent: bool,
) -> Step | None:
    """Log in with the code of a message and continue. Returns None if the entered `one_time_code` is invalid.

    Raises OAuth2Error.
    """
    client, inside = verified_client.client, call.within(verified_client.client.tenant_id)
    request = authorization.validate(call, verified_client)
    if request.forbids_pages:
        return await authorization.begin(services, call, verified_client, browser)
    await device_approvals.require_pending(services, call, client, request)
    try:
        found = await passwordless.redeem(services, inside, code, one_time_code, application_id=client.client_id)
        authenticated = await second_factor_decisions.decide(services, inside, found.authenticated, browser.trust_id)
        attempt = password_login.continue_login(
            services, inside, authenticated, passwordless.AUTHENTICATION_TYPE, side_effects=found.side_effects
        )
        result = await authorization.login_or_problem(attempt)
    except (NotFound, Invalid):
        return None if one_time_code is not None else LoginPage(client, problem=StepFailed(LINK_EXPIRED))
    except Unavailable:
        return LoginPage(client, problem=login_outcomes.TooManyAttempts(0))
    if isinstance(result, login_outcomes.Halt):
        login = InterruptedLogin(result.user["id"], passwordless.AUTHENTICATION_TYPE, is_persistent=is_persistent)
        return await login_requirements.redirect_to_step(services, call, verified_client, login, result)
    if not isinstance(result, login_outcomes.LoggedIn):
        return LoginPage(client, user_rules.primary_login_id(found.authenticated.user), result)
    if authorization.is_registration_missing(client, result.user):
        return LoginPage(client, user_rules.primary_login_id(result.user), NotRegistered())
    new_login = NewLogin(result.user, passwordless.AUTHENTICATION_TYPE, is_persistent, second_factor_checked=True)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)


def _link_parameters(services: Services, verified_client: VerifiedClient) -> Mapping[str, str]:
    """Return the authorization request as the link of a message repeats it."""
    given = request_sources.form_parameters(verified_client.given)
    names = services.schemas[_REQUEST].schema["properties"]
    client = verified_client.client
    request = {name: str(given[name]) for name in names if name in given}
    return {**request, "client_id": client.presented_client_id, "tenantId": client.tenant_id}
