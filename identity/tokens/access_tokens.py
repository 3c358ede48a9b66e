"""Access tokens of users and of entities: their claims (spec: OAuth, JWT contents)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization import claims_request, jwt_claims, step_up
from identity.domain.authorization.authorization_codes import AuthorizationCode
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import OAuthSettings, client_id_of
from identity.instants import Instant, NumericDate, numeric_date

TTY: Final = "at"
"""The `tty` of an access token, which distinguishes it from other kinds of tokens."""

ENTITY_GRANTS: Final = ["client_credentials"]
"""The `gty` that only tokens of entities have, so that none is accepted as a token of a user."""


@dataclasses.dataclass(frozen=True, slots=True)
class TokenContext:
    """What tokens are issued for: the user, the application, the authentication and what was granted.

    `grants` are the grant types in the order of their use (`gty`). `refresh_token_id` is the `sid` of the access token;
    that of the ID token is the SSO session, for logout, or else the refresh token. `authentication_methods` (`amr`) are
    those of the actual authentication, also for a login by session or refresh token. `confirmation` is the `cnf` of an
    access token that is bound to a key (RFC 7800), `actor` the `act` of a delegated one (RFC 8693 section 4.1).
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
    actor: Document | None = None

    @classmethod
    def of_code(
        cls, tenant: Document, application: Document, user: Document, code: AuthorizationCode, grant_type: str
    ) -> TokenContext:
        """Return the context of the authorization that a code stands for."""
        return cls(
            tenant,
            application,
            user,
            code.scopes,
            (grant_type,),
            code.authentication_type,
            code.auth_instant,
            code.nonce,
            sso_session_id=code.sso_session_id,
            authentication_methods=code.authentication_methods,
            claims_request=code.claims,
            resources=code.resources,
        )


def claims(context: TokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """Return the claims of an access token."""
    claims_: Document = {
        **jwt_claims.access_token_claims(context.user, context.application),
        **common_claims(context, token_id, now, ttl_seconds),
        "authenticationType": context.authentication_type,
        "tid": context.tenant["id"],
        "tty": TTY,
    }
    if context.resources:
        claims_["aud"] = [claims_["aud"], *context.resources]
    if context.refresh_token_id is not None:
        claims_["sid"] = context.refresh_token_id
    if context.confirmation is not None:
        claims_["cnf"] = context.confirmation
    if step_up.is_configured(context.application) and context.authentication_methods:
        acr = step_up.achieved_class(OAuthSettings.of(context.application), context.authentication_methods)
        claims_ |= {} if acr is None else {"acr": acr}
    if context.actor is not None:
        claims_["act"] = context.actor
    if context.claims_request.userinfo and scopes.OPENID in context.scopes:
        claims_[jwt_claims.USERINFO_CLAIMS] = claims_request.claims_to_document(context.claims_request.userinfo)
    return claims_


def common_claims(context: TokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """Return the claims that access and ID tokens share."""
    claims_: Document = {
        "aud": client_id_of(context.application),
        "auth_time": numeric_date(context.auth_instant),
        "exp": now + ttl_seconds,
        "gty": list(context.grants),
        "iat": now,
        "iss": context.tenant["issuer"],
        "jti": token_id,
        "sub": context.user["id"],
    }
    if context.scopes:
        claims_["scope"] = " ".join(context.scopes)
    return claims_


def audience(claims_: Mapping[str, Any]) -> str | None:
    """Return the client of a token: its `aud`, or the first of several."""
    return next(iter(audiences(claims_)), None)


def audiences(claims_: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all audiences of a token (RFC 7519 section 4.1.3)."""
    audience_ = claims_.get("aud", ())
    entries = audience_ if isinstance(audience_, list | tuple) else [audience_]
    return tuple(entry for entry in entries if isinstance(entry, str))


@dataclasses.dataclass(frozen=True, slots=True)
class EntityTokenContext:
    """What a token is issued for: the entity, and its permissions on each target.

    `confirmation` is the `cnf` of a token that is bound to a key (RFC 7800).
    """

    tenant: Document
    entity: Document
    entity_type: Document
    permissions: Mapping[str, tuple[str, ...]]
    scope: str | None = None
    confirmation: Document | None = None


def entity_claims(context: EntityTokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """Return the claims of an entity's access token (client credentials); without targets it has no audience."""
    claims_: Document = {
        "exp": now + ttl_seconds,
        "gty": list(ENTITY_GRANTS),
        "iat": now,
        "iss": context.tenant["issuer"],
        "jti": token_id,
        "sub": context.entity["id"],
        "tid": context.tenant["id"],
        "tty": TTY,
    }
    if context.scope is not None:
        claims_["scope"] = context.scope
    if context.confirmation is not None:
        claims_["cnf"] = context.confirmation
    if context.permissions:
        targets = list(context.permissions)
        claims_["aud"] = targets[0] if len(targets) == 1 else targets
        claims_["permissions"] = {target: list(granted) for target, granted in context.permissions.items()}
    return claims_


def is_entity_token(claims_: Mapping[str, Any]) -> bool:
    """Whether these are the claims of an entity's token."""
    return claims_.get("gty") == ENTITY_GRANTS
