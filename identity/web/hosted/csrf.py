"""CSRF protection of the hosted forms: the token of a form must match the browser's cookie.

Without it another site could submit the login form and sign its victim in to the attacker's account (login CSRF).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from http.cookies import Morsel
from typing import Any, Final

from identity.ids import fingerprint, same_secret
from identity.web.endpoint import Reply
from identity.web.hosted import render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import OAuth2Handler

COOKIE: Final = "fusionauth.csrf"
FIELD: Final = "csrf_token"
INVALID_TOKEN: Final = "[InvalidOrMissingCSRFToken]"  # noqa: S105 (the key of a page text)

_FORBIDDEN: Final = 403


def issue(handler: OAuth2Handler) -> tuple[str, Morsel[str]]:
    """Return the token for a form and its cookie; a browser keeps one cookie for all its forms."""
    secret = handler.cookie(COOKIE) or handler.new_browser_secret
    return fingerprint(secret), handler.new_cookie(COOKIE, secret)


def browser(handler: OAuth2Handler) -> str:
    """Return the token of this browser's forms, which identifies the browser; empty before it was issued one."""
    secret = handler.cookie(COOKIE)
    return fingerprint(secret) if secret else ""


def is_valid(handler: OAuth2Handler, token: str) -> bool:
    """Whether a token was issued to this browser and the request comes from our own origin."""
    secret = handler.cookie(COOKIE)
    return bool(secret) and same_secret(token, fingerprint(secret)) and not handler.is_cross_origin()


def has_valid_token(handler: OAuth2Handler, form: Mapping[str, str]) -> bool:
    """Whether a form was submitted from the page that this browser was served."""
    return is_valid(handler, form.get(FIELD, ""))


def form_page(
    handler: OAuth2Handler,
    template: str,
    values: Mapping[str, Any],
    theme: PageTheme,
    hidden: Iterable[tuple[str, str]],
    *,
    redirect_uri: str | None = None,
    message: str = "",
) -> Reply:
    """Return a page with a form that has hidden fields and the CSRF token, and posts to the same path.

    `values` may replace the action and the message. `redirect_uri` is where the response to the form may lead,
    `message` is the key of a page text.
    """
    token, cookie = issue(handler)
    common = {"action": handler.request.path, "hidden": [*hidden, (FIELD, token)], "message": theme.message(message)}
    page = render.form(template, {**common, **values}, theme, redirect_uri=redirect_uri, cookies=[cookie])
    return with_status(page, message)


def with_status(page: Reply, message: str) -> Reply:
    """Return a page that shows `message`, with status 403 if the message rejects a form without a valid token."""
    return dataclasses.replace(page, status=_FORBIDDEN) if message == INVALID_TOKEN else page
