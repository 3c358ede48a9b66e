"""ID tokens: what stands in one, and the hashes that tie it to what it came with (OpenID Connect Core 2 and 3)."""

from __future__ import annotations

import hashlib
from typing import Final

from identity.call import Document
from identity.domain.authorization import jwt_claims as user_claims
from identity.ids import base64url
from identity.instants import NumericDate
from identity.tokens.access_tokens import TokenContext, common_claims

TTY: Final = "id"
"""The `tty` of an ID token, by which it is refused wherever an access token is wanted."""

_NOT_MINIMAL: Final = frozenset({"gty", "scope", "tty"})

_DIGESTS: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}


def claims(
    login: TokenContext,
    token_id: str,
    now: NumericDate,
    ttl_seconds: int,
    algorithm: str,
    *,
    access_token: str | None = None,
    code: str | None = None,
) -> Document:
    """The claims of an ID token that is signed with `algorithm`; `access_token` and `code` are what comes with it.

    A minimal one has no `gty`, `scope` and `tty`.
    """
    # A code gives an access token too, later, which userinfo can be asked with.
    wishes = login.claims_request
    is_alone = access_token is None and code is None
    answer = {
        **user_claims.id_token_claims(login.user, login.application, login.scopes, alone=is_alone),
        **user_claims.requested_claims(login.user, login.application, login.scopes, wishes.id_token),
        **common_claims(login, token_id, now, ttl_seconds),
        "authenticationType": login.authentication_type,
        "tid": login.tenant["id"],
        "tty": TTY,
    }
    if user_claims.has_minimal_id_token(login.application):
        answer = {name: value for name, value in answer.items() if name not in _NOT_MINIMAL}
    oauth = login.application["oauthConfiguration"]
    bound = {
        "acr": None if wishes.acr is None else oauth.get("authenticationContextClass"),
        "amr": list(login.authentication_methods) if oauth.get("authenticationMethodsEnabled") else None,
        "nonce": login.nonce,
        "sid": login.sso_session_id or login.refresh_token_id,
        "at_hash": None if access_token is None else half_hash(access_token, algorithm),
        "c_hash": None if code is None else half_hash(code, algorithm),
    }
    return answer | {name: value for name, value in bound.items() if value not in (None, [])}


def half_hash(text: str, algorithm: str) -> str:
    """`at_hash` or `c_hash`: base64url of the left half of the algorithm's digest (Core 3.1.3.6 and 3.3.2.11)."""
    # Ed25519 has SHA-512 inside (RFC 8032).
    digest = _DIGESTS.get(algorithm[2:], hashlib.sha512)(text.encode("ascii")).digest()
    return base64url(digest[: len(digest) // 2])
