"""The cookies by which the pages with passkeys recognize a browser."""

from __future__ import annotations

from http.cookies import Morsel

from identity.operations.clients.clients import Client
from identity.operations.pages.passkey_login import PasskeyBrowser
from identity.operations.sessions import sso_sessions
from identity.operations.webauthn import known_browsers
from identity.operations.webauthn.known_browsers import BrowserCookie
from identity.web.hosted import csrf
from identity.web.oauth2.oauth_handlers import OAuth2Handler


def browser(handler: OAuth2Handler, client: Client) -> PasskeyBrowser:
    """Return what identifies the browser of a request."""
    user_cookie = handler.cookie(known_browsers.cookie_name(client.tenant))
    return PasskeyBrowser(handler.cookie(sso_sessions.COOKIE), user_cookie, csrf.browser(handler))


def cookies(handler: OAuth2Handler, cookie: BrowserCookie | None) -> list[Morsel[str]]:
    """Return the cookie to set, if there is one."""
    return [] if cookie is None else [handler.new_cookie(cookie.name, cookie.value, cookie.max_age_seconds)]
