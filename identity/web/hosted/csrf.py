"""Forms of our own pages: a token in the form must match the browser's cookie, and no other site may send it.

A login form that another site could send would log its victim into the attacker's account (login CSRF).
"""

from __future__ import annotations

from http.cookies import Morsel

from identity.ids import fingerprint, new_secret, same_secret
from identity.web.oauth2.oauth_handlers import OAuth2Handler

COOKIE = "fusionauth.csrf"
FIELD = "csrf_token"


def issue(handler: OAuth2Handler) -> tuple[str, Morsel[str]]:
    """The token for a form, and the cookie that it matches; one browser keeps its cookie over all its forms."""
    secret = handler.cookie(COOKIE) or new_secret()
    return fingerprint(secret), handler.new_cookie(COOKIE, secret)


def browser(handler: OAuth2Handler) -> str:
    """What tells this browser from others: the token of its forms, or nothing before it was given one."""
    secret = handler.cookie(COOKIE)
    return fingerprint(secret) if secret else ""


def is_valid(handler: OAuth2Handler, token: str) -> bool:
    """Whether a form was sent by the page that we showed to this browser."""
    secret = handler.cookie(COOKIE)
    return bool(secret) and same_secret(token, fingerprint(secret)) and not handler.is_from_elsewhere()
