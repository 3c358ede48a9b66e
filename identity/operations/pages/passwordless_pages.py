"""Logins by a mailed link or code on our own pages: asked for with a login id, completed by what the mail has.

Whether anybody has the login id is never told. What the mail leads back with is the authorization request itself, which
is judged again from its beginning; the code of the mail is used up by a form of ours, never by looking at an address:
programs that look at the links of a mail before its reader does would otherwise log nobody in and use up every code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call
from identity.domain.login import login_outcomes as steps
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
from identity.operations.login import password_login
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
from identity.operations.two_factor import two_factor_trust
from identity.services import Services

BROWSER_PARAMETER: Final = "browser"
"""The parameter that says in which browser a mail was asked for."""
REMEMBER_PARAMETER: Final = "rememberDevice"

_OVER: Final = "passwordless.over"
_REQUEST: Final = "oauth2/authorize.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class MessageSent:
    """A mail is on its way, or would be if anybody had the login id; `code` only where the mail has a code to type."""

    client: Client
    code: str = dataclasses.field(default="", repr=False)


def require_enabled(client: Client) -> None:
    """Raise InvalidRequest unless the application lets its users log in by mail."""
    if not passwordless.is_offered(client):
        raise InvalidRequest("unknown", "The application does not offer logins without a password.")


async def step_before_page(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser
) -> Step | None:
    """What comes in place of the page; None when that is to be shown. Raises OAuth2Error."""
    require_enabled(verified_client.client)
    return await authorization.step_without_page(services, call, verified_client, browser)


async def send_message(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    login_id: str,
    mark: str,
    *,
    is_persistent: bool,
) -> MessageSent | steps.TooManyAttempts | Step:
    """Mail a link or a code to whoever has a login id. Raises OAuth2Error.

    `mark` is what the link says of the browser that asked. Who manages the domain of a login id answers for its users.
    """
    step = await step_before_page(services, call, verified_client, browser)
    if step is not None:
        return step
    client = verified_client.client
    away = await authorization_redirect.redirect_by_domain(
        services, call, verified_client, browser, login_id, is_persistent=is_persistent
    )
    if away is not None:
        return away
    state = {
        **link_parameters(services, verified_client),
        BROWSER_PARAMETER: mark,
        REMEMBER_PARAMETER: str(is_persistent).lower(),
    }
    try:
        begun = await passwordless.send_to(services, call.within(client.tenant_id), client, login_id, state=state)
    except Unavailable:
        return steps.TooManyAttempts(0)
    if not passwordless.uses_one_time_code(client):
        return MessageSent(client)
    return MessageSent(client, begun.code)


async def login_id_of(services: Services, call: Call, verified_client: VerifiedClient, code: str) -> str | None:
    """Whom a code would log in, for the page that asks whether to; None where it is over. Nothing is used up.

    Raises Unavailable after too many codes that were none.
    """
    client = verified_client.client
    inside = call.within(client.tenant_id)
    try:
        found = await passwordless.redeem(services, inside, code, application_id=client.client_id)
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
    """Log in with what a mail had, and go on; None for a code to type in that is wrong, or one that is over.

    Raises OAuth2Error.
    """
    client, inside = verified_client.client, call.within(verified_client.client.tenant_id)
    request = authorization.validate(call, verified_client)
    if request.forbids_pages:
        return await authorization.begin(services, call, verified_client, browser)
    await device_approvals.require_pending(services, call, client, request)
    try:
        found = await passwordless.redeem(services, inside, code, one_time_code, application_id=client.client_id)
        credentials = await two_factor_trust.apply_device_trust(services, inside, found.authenticated, browser.trust_id)
        attempt = password_login.continue_login(
            services, inside, credentials, passwordless.AUTHENTICATION_TYPE, side_effects=found.side_effects
        )
        result = await authorization.login_or_problem(attempt)
    except (NotFound, Invalid):
        return None if one_time_code is not None else LoginPage(client, problem=StepFailed(_OVER))
    except Unavailable:
        return LoginPage(client, problem=steps.TooManyAttempts(0))
    if isinstance(result, steps.Halt):
        halted = InterruptedLogin(result.user["id"], passwordless.AUTHENTICATION_TYPE, is_persistent=is_persistent)
        return await login_requirements.redirect_to_step(services, call, verified_client, halted, result)
    if not isinstance(result, steps.LoggedIn):
        return LoginPage(client, user_rules.primary_login_id(found.authenticated.user), result)
    if authorization.is_registration_missing(client, result.user):
        return LoginPage(client, user_rules.primary_login_id(result.user), NotRegistered())
    fresh = NewLogin(result.user, passwordless.AUTHENTICATION_TYPE, is_persistent, second_factor_checked=True)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, fresh)


def link_parameters(services: Services, verified_client: VerifiedClient) -> Mapping[str, str]:
    """The request as the link of a mail has it."""
    declared, kept = (
        services.schemas[_REQUEST].schema["properties"],
        request_sources.form_parameters(verified_client.given),
    )
    found = {name: str(kept[name]) for name in declared if name in kept}
    return {**found, "client_id": verified_client.client.client_id, "tenantId": verified_client.client.tenant_id}
