"""Logout tokens: what tells an application that a session has ended (OpenID Connect Back-Channel Logout 2.4)."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.ids import new_id
from identity.instants import NumericDate

TYPE: Final = "logout+jwt"
"""The `typ` by which a logout token is nothing else; it has no `tty` either, without which no token of ours counts."""

EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
TTL_SECONDS: Final = 120
"""Section 2.4 recommends two minutes at the most: every attempt carries a fresh one."""


def claims(issuer: str, client_id: str, user_id: str, session_id: str | None, now: NumericDate) -> Document:
    """The claims, and no others; never a nonce, as ID tokens have. Without `sid` every session of the user is meant."""
    answer: Document = {
        "aud": client_id,
        "events": {EVENT: {}},
        "exp": now + TTL_SECONDS,
        "iat": now,
        "iss": issuer,
        "jti": new_id(),
        "sub": user_id,
    }
    return answer if session_id is None else answer | {"sid": session_id}
