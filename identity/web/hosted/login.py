"""The login page: what it says of a failed attempt, and how it carries the authorization request along."""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from http.cookies import Morsel

from identity.domain.login import login_outcomes
from identity.domain.users import self_registration as rules
from identity.operations.authorization import passwordless, request_sources
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import authorization_steps as outcomes
from identity.operations.login_transactions.authorization_steps import LoginPage, Problem
from identity.operations.messaging import user_notifications
from identity.operations.password_changes import password_changes
from identity.operations.providers import authorization_redirect
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, page_theme, render
from identity.web.oauth2.oauth_handlers import OAuth2Handler

REMEMBER_COOKIE = "fusionauth.remember-device"
"""The cookie with the last choice of the checkbox."""

_REMEMBER_SECONDS = 31_536_000

_MESSAGES: Mapping[type[Problem], str] = {
    login_outcomes.WrongCredentials: "[InvalidLogin]",
    login_outcomes.TooManyAttempts: "[RateLimitedException]",
    login_outcomes.Deactivated: "[UserLockedException]",
    login_outcomes.AccountLocked: "[LoginPreventedException]",
    login_outcomes.ActionPrevents: "[LoginPreventedException]",
    login_outcomes.Expired: "[UserExpiredException]",
    login_outcomes.SecondFactorRequired: "[TwoFactorRequired]",
    login_outcomes.PasswordChangeRequired: "[PasswordChangeRequired]",
    login_outcomes.EmailNotVerified: "[EmailNotVerified]",
    login_outcomes.RegistrationNotVerified: "[RegistrationNotVerified]",
    outcomes.NotRegistered: "[UserAuthorizedNotRegisteredException]",
    outcomes.UnknownProvider: "[InvalidIdentityProviderId]",
    outcomes.RejectedByWebhook: "[WebhookTransactionException]",
    outcomes.RejectedByLambda: "[LoginPreventedException]",
    outcomes.Busy: "[ServiceBusy]",
}
"""Problem -> the key of its text."""


async def reply(
    handler: OAuth2Handler,
    page: LoginPage,
    given: Mapping[str, str],
    names: Collection[str],
    *,
    remember_device: bool = False,
    message: str = "",
) -> Reply:
    """The page. `given` are the parameters of the request, of which those in `names` are carried along.

    `message` is the key of a text that is shown instead of the problem's.
    """
    look = await page_theme.load(handler, page.client.tenant, page.client.application, given)
    offer = await authorization_redirect.find_options(handler.services, page.client)
    token, cookie = csrf.issue(handler)
    kept = request_sources.form_parameters(given)
    carried = tuple((name, kept[name]) for name in names if name in kept)
    is_by_mail = passwordless.is_offered(page.client)
    form = render.LoginForm(
        application_name=page.client.application["name"],
        action=authorize_path(handler),
        hidden=(*carried, (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=page.login_id,
        remember_device=remember_device,
        message=look[message] if message else message_of(page.problem, look),
        is_invalid=is_credential_error(page.problem),
        # A provider may manage the domain of the login id: then nobody here has a password to ask for.
        asks_password=bool(page.login_id) or not offer.manages_domains,
        offer=offer,
        passwordless=url_with_request(handler, "passwordless", given, names) if is_by_mail else "",
        forgot=_forgot(page.client, given, names),
        register=url_with_request(handler, "register", given, names)
        if rules.is_enabled(page.client.application)
        else "",
    )
    return csrf.with_status(render.login(form, look, [cookie, *page_theme.locale_cookies(handler, given)]), message)


def remember_cookie(handler: OAuth2Handler, *, is_persistent: bool) -> Morsel[str]:
    """The cookie that ticks the checkbox, or not, when the page is shown the next time."""
    return handler.new_cookie(REMEMBER_COOKIE, str(is_persistent).lower(), _REMEMBER_SECONDS)


def message_of(problem: Problem | None, look: page_theme.PageTheme) -> str:
    """What a page says of a problem; what a lambda says of a login that it refuses stands as it is."""
    if problem is None:
        return ""
    if isinstance(problem, outcomes.RejectedByLambda):
        return " ".join(problem.messages)
    if isinstance(problem, outcomes.ProviderFailed | outcomes.StepFailed):
        return look[problem.key]
    return look[_MESSAGES[type(problem)]]


def is_credential_error(problem: Problem | None) -> bool:
    """Whether what was typed in is what is wrong."""
    return isinstance(problem, login_outcomes.WrongCredentials)


def authorize_path(handler: OAuth2Handler) -> str:
    """Where the form of the login page goes, whichever page of the login shows it."""
    return f"{base_path(handler)}/authorize"


def url_with_request(handler: OAuth2Handler, page: str, given: Mapping[str, str], names: Iterable[str]) -> str:
    """The address of another page of the login, such as `register`, with the whole request."""
    kept = request_sources.form_parameters(given)
    query = {name: kept[name] for name in names if name in kept}
    return f"{base_path(handler)}/{page}?{urllib.parse.urlencode(query)}"


def _forgot(client: Client, given: Mapping[str, str], names: Iterable[str]) -> str:
    """The way to the page for a forgotten password, which stands beside no tenant; nothing where no mail is sent."""
    if user_notifications.template_of(client.tenant, client.application, password_changes.FORGOT_TEMPLATE) is None:
        return ""
    kept = request_sources.form_parameters(given)
    query = {name: kept[name] for name in names if name in kept}
    if client.application["universalConfiguration"].get("universal"):
        query["tenantId"] = client.tenant_id
    return f"/password/forgot?{urllib.parse.urlencode(query)}"


def base_path(handler: OAuth2Handler) -> str:
    """The path that all pages of the protocol share, with the tenant where that stands in it."""
    return handler.request.path.rpartition("/oauth2/")[0] + "/oauth2"
