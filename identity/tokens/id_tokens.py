"""ID tokens and logout tokens: their claims, and the hashes that bind ID tokens to code and access token.

ID tokens are those of OpenID Connect Core 2 and 3, logout tokens those of OpenID Connect Back-Channel Logout 2.4.
"""

from __future__ import annotations

import hashlib
from typing import Final

from identity.call import Document
from identity.domain.authorization import jwt_claims, step_up
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.ids import base64url, new_id
from identity.instants import NumericDate
from identity.tokens.access_tokens import TokenContext, common_claims

TTY: Final = "id"
"""The `tty` of an ID token, which distinguishes it from an access token."""

_NOT_MINIMAL: Final = frozenset({"gty", "scope", "tty"})

_DIGESTS: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}

LOGOUT_TYPE: Final = "logout+jwt"
"""The `typ` that only logout tokens have. They have no `tty`, which our endpoints require of tokens."""

_LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_LOGOUT_TTL_SECONDS: Final = 120
"""Section 2.4 recommends at most two minutes; every delivery attempt has a new token."""


def claims(
    context: TokenContext,
    token_id: str,
    now: NumericDate,
    ttl_seconds: int,
    algorithm: str,
    *,
    access_token: str | None = None,
    code: str | None = None,
) -> Document:
    """Return the claims of an ID token, signed with `algorithm`, that is issued with `access_token` and `code`.

    A minimal one has no `gty`, `scope` and `tty`.
    """
    # With a code the client can get the remaining claims from userinfo later.
    requested = context.claims_request
    is_alone = access_token is None and code is None
    claims_ = {
        **jwt_claims.id_token_claims(context.user, context.application, context.scopes, alone=is_alone),
        **jwt_claims.requested_claims(context.user, context.application, context.scopes, requested.id_token),
        **common_claims(context, token_id, now, ttl_seconds),
        "authenticationType": context.authentication_type,
        "tid": context.tenant["id"],
        "tty": TTY,
    }
    if jwt_claims.has_minimal_id_token(context.application):
        claims_ = {name: value for name, value in claims_.items() if name not in _NOT_MINIMAL}
    oauth = OAuthSettings.of(context.application)
    bound = {
        "acr": None if requested.acr is None else step_up.achieved_class(oauth, context.authentication_methods),
        "amr": list(context.authentication_methods) if oauth.authentication_methods_enabled else None,
        "nonce": context.nonce,
        "sid": context.sso_session_id or context.refresh_token_id,
        "at_hash": None if access_token is None else half_hash(access_token, algorithm),
        "c_hash": None if code is None else half_hash(code, algorithm),
    }
    return claims_ | {name: value for name, value in bound.items() if value not in (None, [])}


def half_hash(text: str, algorithm: str) -> str:
    """Return `at_hash` or `c_hash`: base64url of the left half of the digest (Core 3.1.3.6 and 3.3.2.11)."""
    # Ed25519 uses SHA-512 (RFC 8032).
    digest = _DIGESTS.get(algorithm[2:], hashlib.sha512)(text.encode("ascii")).digest()
    return base64url(digest[: len(digest) // 2])


def logout_claims(issuer: str, client_id: str, user_id: str, session_id: str | None, now: NumericDate) -> Document:
    """Return the claims, without a nonce, unlike ID tokens. Without `sid` all sessions of the user have ended."""
    claims_: Document = {
        "aud": client_id,
        "events": {_LOGOUT_EVENT: {}},
        "exp": now + _LOGOUT_TTL_SECONDS,
        "iat": now,
        "iss": issuer,
        "jti": new_id(),
        "sub": user_id,
    }
    return claims_ if session_id is None else claims_ | {"sid": session_id}
