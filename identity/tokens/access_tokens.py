"""Access tokens: what stands in one beside what it says of the user (spec: OAuth, JWT contents)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization import claims_request
from identity.domain.authorization import jwt_claims as user_claims
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.clients import scopes
from identity.instants import Instant, NumericDate, numeric_date

TTY: Final = "at"
"""The `tty` of an access token, by which it is refused wherever another kind of token is wanted."""


@dataclasses.dataclass(frozen=True, slots=True)
class TokenContext:
    """What tokens are issued for: who logged in to what, when and how, and what was granted.

    `grants` are the grant types in the order of their use (`gty`). `refresh_token_id` is the `sid` of the access token;
    the ID token names the SSO session by which logouts are told, and the refresh token only where there is no session.
    `authentication_methods` are how the user really authenticated (`amr`), also where a session or a refresh token made
    it unnecessary this time. `confirmation` is the `cnf` of an access token that is bound to a key (RFC 7800).
    """

    tenant: Document
    application: Document
    user: Document
    scopes: tuple[str, ...]
    grants: tuple[str, ...]
    authentication_type: str
    auth_instant: Instant
    nonce: str | None = None
    refresh_token_id: str | None = None
    sso_session_id: str | None = None
    authentication_methods: tuple[str, ...] = ()
    claims_request: ClaimsRequest = claims_request.NO_CLAIMS
    resources: tuple[str, ...] = ()
    confirmation: Document | None = None


def claims(login: TokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """The claims of an access token."""
    answer: Document = {
        **user_claims.access_token_claims(login.user, login.application),
        **common_claims(login, token_id, now, ttl_seconds),
        "authenticationType": login.authentication_type,
        "tid": login.tenant["id"],
        "tty": TTY,
    }
    if login.resources:
        answer["aud"] = [login.application["id"], *login.resources]
    if login.refresh_token_id is not None:
        answer["sid"] = login.refresh_token_id
    if login.confirmation is not None:
        answer["cnf"] = login.confirmation
    if login.claims_request.userinfo and scopes.OPENID in login.scopes:
        answer[user_claims.USERINFO_CLAIMS] = claims_request.claims_to_document(login.claims_request.userinfo)
    return answer


def common_claims(login: TokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """The claims that access and ID tokens share."""
    answer: Document = {
        "aud": login.application["id"],
        "auth_time": numeric_date(login.auth_instant),
        "exp": now + ttl_seconds,
        "gty": list(login.grants),
        "iat": now,
        "iss": login.tenant["issuer"],
        "jti": token_id,
        "sub": login.user["id"],
    }
    if login.scopes:
        answer["scope"] = " ".join(login.scopes)
    return answer


def audience(claims_: Mapping[str, Any]) -> str | None:
    """The client a token is for: its `aud`, or the first of several."""
    return next(iter(audiences(claims_)), None)


def audiences(claims_: Mapping[str, Any]) -> tuple[str, ...]:
    """Everybody a token is for (RFC 7519 section 4.1.3)."""
    named = claims_.get("aud", ())
    return tuple(entry for entry in (named if isinstance(named, list | tuple) else [named]) if isinstance(entry, str))
