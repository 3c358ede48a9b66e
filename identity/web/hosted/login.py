"""The login page, with the problem of a failed attempt and the parameters of the authorization request."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

from identity.domain.captcha import captchas
from identity.domain.login import login_outcomes
from identity.domain.users import self_registration
from identity.operations.authorization import passwordless
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import authorization_steps
from identity.operations.login_transactions.authorization_steps import LoginPage, Problem
from identity.operations.messaging import user_notifications
from identity.operations.pages import passkey_login
from identity.operations.password_changes import password_changes
from identity.operations.providers import authorization_redirect
from identity.operations.sessions import sso_sessions
from identity.operations.webauthn import known_browsers
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler, PageHandler

REMEMBER_COOKIE = "fusionauth.remember-device"
"""Remembers the state of the "keep me signed in" checkbox."""

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
    authorization_steps.NotRegistered: "[UserAuthorizedNotRegisteredException]",
    authorization_steps.UnknownProvider: "[InvalidIdentityProviderId]",
    authorization_steps.RejectedByWebhook: "[WebhookTransactionException]",
    authorization_steps.RejectedByLambda: "[LoginPreventedException]",
    authorization_steps.Busy: "[ServiceBusy]",
}
"""Problem -> key of its page text."""


async def reply(
    handler: PageHandler,
    page: LoginPage,
    given: Mapping[str, str],
    *,
    remember_device: bool = False,
    message: str = "",
) -> Reply:
    """Return the page, whose form repeats the authorization request of `given`.

    `message` is the key of a page text that replaces that of the problem.
    """
    theme = await page_theme.load(handler, page.client.tenant, page.client.application, given)
    offer = await authorization_redirect.find_options(handler.services, page.client)
    token, cookie = csrf.issue(handler)
    is_by_mail = passwordless.is_offered(page.client)
    base_url, cookies = handler.addresses.base_url(handler.request), passkey_browser(handler, page.client)
    has_passkeys = await passkey_login.is_offered(handler.services, page.client, base_url, cookies)
    form = render.LoginForm(
        application_name=page.client.application["name"],
        action=authorize_path(handler),
        hidden=(*handler.request_parameters(given).items(), (csrf.FIELD, token)),
        redirect_uri=given["redirect_uri"],
        login_id=page.login_id,
        remember_device=remember_device,
        message=theme.message(message) or message_of(page.problem, theme),
        is_invalid=is_credential_error(page.problem),
        # If a provider manages the domain of the login id, its users have no password here.
        asks_password=bool(page.login_id) or not offer.manages_domains,
        offer=offer,
        passwordless=url_with_request(handler, "passwordless", given) if is_by_mail else "",
        captcha=captchas.find_widget(page.client.tenant),
        passkey=f"{base_path(handler)}/webauthn" if has_passkeys else "",
        forgot=_forgot_url(handler, page.client, given),
        register=url_with_request(handler, "register", given)
        if self_registration.is_enabled(page.client.application)
        else "",
    )
    return csrf.with_status(render.login(form, theme, [cookie]), message)


def passkey_browser(handler: PageHandler, client: Client) -> passkey_login.PasskeyBrowser:
    """Return what identifies the browser of a request to the pages with passkeys."""
    user_cookie = handler.cookie(known_browsers.cookie_name(client.tenant))
    return passkey_login.PasskeyBrowser(handler.cookie(sso_sessions.COOKIE), user_cookie, csrf.browser(handler))


def with_remember_cookie(handler: OAuth2Handler, reply: Reply, *, is_persistent: bool) -> Reply:
    """Return the reply with the cookie that sets the checkbox the next time."""
    remembered = handler.new_cookie(REMEMBER_COOKIE, str(is_persistent).lower(), _REMEMBER_SECONDS)
    return dataclasses.replace(reply, cookies=[*reply.cookies, remembered])


def message_of(problem: Problem | None, theme: PageTheme) -> str:
    """Return the message for a problem: of a lambda's error the theme's text for its code, or else its own."""
    if problem is None:
        return ""
    if isinstance(problem, authorization_steps.RejectedByLambda):
        return " ".join(theme.find(code, message) for code, message in problem.texts)
    if isinstance(problem, authorization_steps.ProviderFailed | authorization_steps.StepFailed):
        return theme[problem.key]
    return theme[_MESSAGES[type(problem)]]


def is_credential_error(problem: Problem | None) -> bool:
    """Whether the login id or password was incorrect."""
    return isinstance(problem, login_outcomes.WrongCredentials)


def authorize_path(handler: OAuth2Handler) -> str:
    """Return the path of the authorization endpoint."""
    return f"{base_path(handler)}/authorize"


def url_with_request(handler: PageHandler, page: str, given: Mapping[str, str]) -> str:
    """Return the URL of another page of the login, such as `register`, with the authorization request."""
    return f"{base_path(handler)}/{page}?{urllib.parse.urlencode(handler.request_parameters(given))}"


def _forgot_url(handler: PageHandler, client: Client, given: Mapping[str, str]) -> str:
    """Return the URL of the page for forgotten passwords; empty if no email template is configured."""
    if user_notifications.template_of(client.tenant, client.application, password_changes.FORGOT_TEMPLATE) is None:
        return ""
    query = handler.request_parameters(given)
    if client.application["universalConfiguration"].get("universal"):
        query["tenantId"] = client.tenant_id
    return f"/password/forgot?{urllib.parse.urlencode(query)}"


def base_path(handler: OAuth2Handler) -> str:
    """Return the common path of the protocol endpoints, including the tenant if the request path has one."""
    return handler.request.path.rpartition("/oauth2/")[0] + "/oauth2"
