"""CSRF protection of the hosted forms: the token of a form must match the browser's cookie.

Without it another site could submit the login form and sign its victim in to the attacker's account (login CSRF).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http.cookies import Morsel
from typing import Final

from identity.ids import fingerprint, new_secret, same_secret
from identity.web.endpoint import Reply
from identity.web.oauth2.oauth_handlers import OAuth2Handler

COOKIE: Final = "fusionauth.csrf"
FIELD: Final = "csrf_token"
INVALID_TOKEN: Final = "[InvalidOrMissingCSRFToken]"  # noqa: S105 (the key of a page text)

_FORBIDDEN: Final = 403


def issue(handler: OAuth2Handler) -> tuple[str, Morsel[str]]:
    """Return the token for a form and its cookie; a browser keeps one cookie for all its forms."""
    secret = handler.cookie(COOKIE) or new_secret()
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


def with_status(page: Reply, message: str) -> Reply:
    """Return a page that shows `message`, with status 403 if the message rejects a form without a valid token."""
    return dataclasses.replace(page, status=_FORBIDDEN) if message == INVALID_TOKEN else page
