"""Logout tokens, which notify an application of a logout (OpenID Connect Back-Channel Logout 2.4)."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.ids import new_id
from identity.instants import NumericDate

TYPE: Final = "logout+jwt"
"""The `typ` that only logout tokens have. They have no `tty`, which our endpoints require of tokens."""

EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
TTL_SECONDS: Final = 120
"""Section 2.4 recommends at most two minutes; every delivery attempt has a new token."""


def claims(issuer: str, client_id: str, user_id: str, session_id: str | None, now: NumericDate) -> Document:
    """Return the claims, without a nonce, unlike ID tokens. Without `sid` all sessions of the user have ended."""
    claims_: Document = {
        "aud": client_id,
        "events": {EVENT: {}},
        "exp": now + TTL_SECONDS,
        "iat": now,
        "iss": issuer,
        "jti": new_id(),
        "sub": user_id,
    }
    return claims_ if session_id is None else claims_ | {"sid": session_id}
