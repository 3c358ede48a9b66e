"""Issues access and ID tokens with the keys of tenant and application, and verifies them when they come back."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.configuration import key_usage
from identity.domain.configuration.key_rotation import entity_key, setting, signing_key, trusted_keys
from identity.ids import new_id
from identity.instants import Instant, numeric_date
from identity.tokens import access_tokens, entity_tokens, id_tokens, jws, logout_tokens
from identity.tokens.access_tokens import TokenContext
from identity.tokens.entity_tokens import EntityTokenContext
from identity.tokens.jws import Rejection, VerifiedJwt
from identity.tokens.key_refresh_throttling import KeyRefreshThrottle
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing, SigningKey, from_client_secret

FindClient = Callable[[str], Awaitable[tuple[Document, Document] | None]]
"""client_id -> (tenant, application) of a client that may be spoken for."""

FindEntity = Callable[[str], Awaitable[tuple[Document, Document, Document] | None]]
"""entity id -> (tenant, entity, entity type) of an entity that may be spoken for."""

Populate = Callable[[Document], Awaitable[Document]]
"""claims -> the claims that a token shall have instead."""

_KEY_MEMBERS: Final = {access_tokens.TTY: "accessTokenKeyId", id_tokens.TTY: "idTokenKeyId"}

_VENDED: Final = "vended"
"""Marks, in the header, what was signed for a caller who chose the claims."""


@dataclasses.dataclass(frozen=True, slots=True)
class IssuedToken:
    """A fresh token: its wire string, its `jti`, and the seconds it lives; `others` are issued along with it."""

    token: str = dataclasses.field(repr=False)
    token_id: str
    expires_in: int
    others: tuple[IssuedToken, ...] = ()

    @property
    def token_ids(self) -> list[str]:
        """The ids of all of them."""
        return [self.token_id, *(other.token_id for other in self.others)]


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token of ours that holds: signed by a key of its client, by its tenant's issuer, and still alive."""

    claims: Document
    tenant: Document
    application: Document

    @property
    def kind(self) -> str:
        """The `tty` of the token, which a minimal ID token does not have as a claim."""
        return str(self.claims.get("tty", id_tokens.TTY))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The granted scopes."""
        return tuple(str(self.claims.get("scope", "")).split())

    @property
    def revocable_ids(self) -> tuple[str, ...]:
        """The ids under which this token may have been revoked: its own, and that of its refresh token or session."""
        return tuple(self.claims[name] for name in ("jti", "sid") if name in self.claims)


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedEntityToken:
    """A token of an entity that holds, as far as `VerifiedToken` does."""

    claims: Document
    tenant: Document
    entity: Document
    kind = access_tokens.TTY

    @property
    def targets(self) -> tuple[str, ...]:
        """The entities that it is for."""
        return access_tokens.audiences(self.claims)

    @property
    def revocable_ids(self) -> tuple[str, ...]:
        """The ids under which this token may have been revoked."""
        return (self.claims["jti"],)


@dataclasses.dataclass(frozen=True, slots=True)
class _Owner:
    """Whose keys a token may be signed with: the tenant's, and those of its application or entity type."""

    tenant: Document
    settings: Document
    entity: Document | None = None


_Locate = Callable[[Mapping[str, Any]], Awaitable[_Owner | None]]
"""claims that nobody has verified yet -> whose token this would be."""


class TokenIssuer:
    """Signs and verifies for all tenants, with the parsed keys of a ring."""

    def __init__(self, ring: KeyRing, second_looks: KeyRefreshThrottle) -> None:
        self._ring = ring
        self._second_looks = second_looks

    async def access_token(
        self, login: TokenContext, now: Instant, *, ttl: int | None = None, populate: Populate | None = None
    ) -> IssuedToken:
        """A new access token, which lives `ttl` seconds where that is given.

        Raises LookupError when its key is gone, ValueError when that cannot sign; and what `populate` raises.
        """
        key = await self._key(login, access_tokens.TTY, now)
        ttl, token_id = ttl or ttl_seconds(login.tenant, login.application), new_id()
        claims = access_tokens.claims(login, token_id, numeric_date(now), ttl)
        return await _signed(key, claims, ttl, populate)

    async def id_token(
        self,
        login: TokenContext,
        now: Instant,
        *,
        access_token: str | None = None,
        code: str | None = None,
        populate: Populate | None = None,
    ) -> IssuedToken:
        """A new ID token; `access_token` and `code` are what it comes with. Raises as `access_token` does."""
        key = await self._key(login, id_tokens.TTY, now)
        ttl, token_id = ttl_seconds(login.tenant, login.application), new_id()
        claims = id_tokens.claims(
            login, token_id, numeric_date(now), ttl, key.algorithm, access_token=access_token, code=code
        )
        return await _signed(key, claims, ttl, populate)

    async def entity_token(
        self, login: EntityTokenContext, now: Instant, populate: Populate | None = None
    ) -> IssuedToken:
        """A new access token of an entity. Raises as `access_token` does."""
        key_id, ttl = entity_key(login.tenant, login.entity_type, now)
        claims = entity_tokens.claims(login, new_id(), numeric_date(now), ttl)
        return await _signed(await self._get(key_id, login.tenant), claims, ttl, populate)

    async def logout_token(
        self, tenant: Document, application: Document, user_id: str, session_id: str | None, now: Instant
    ) -> str:
        """A logout token for an application, signed as its ID tokens are (Back-Channel Logout 1.0 section 2.4).

        Raises LookupError when the key is gone, ValueError when it cannot sign.
        """
        key = await self._signing_key(tenant, application, id_tokens.TTY, now)
        claims = logout_tokens.claims(tenant["issuer"], application["id"], user_id, session_id, numeric_date(now))
        return await jws.sign(key, claims, typ=logout_tokens.TYPE)

    async def verify_access_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """A user's access token of ours, of a client that `find_client` knows; whether it is revoked is not asked."""
        verified = await self._verify(token, access_tokens.TTY, _by_audience(find_client), now)
        return verified if isinstance(verified, Rejection) else _of_client(*verified)

    async def verify_any_access_token(
        self, token: str, find_client: FindClient, find_entity: FindEntity, now: Instant
    ) -> VerifiedToken | VerifiedEntityToken | Rejection:
        """As `verify_access_token`, but the token may also be an entity's."""
        by_audience = _by_audience(find_client)

        async def locate(unverified: Mapping[str, Any]) -> _Owner | None:
            if not entity_tokens.is_entity_token(unverified):
                return await by_audience(unverified)
            subject = unverified.get("sub")
            found = await find_entity(subject) if isinstance(subject, str) else None
            return None if found is None else _Owner(tenant=found[0], settings=found[2], entity=found[1])

        verified = await self._verify(token, access_tokens.TTY, locate, now)
        if isinstance(verified, Rejection):
            return verified
        claims, owner = verified
        return (
            _of_client(*verified) if owner.entity is None else VerifiedEntityToken(claims, owner.tenant, owner.entity)
        )

    async def verify_id_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """An ID token of ours, still alive."""
        verified = await self._verify(token, id_tokens.TTY, _by_audience(find_client), now)
        return verified if isinstance(verified, Rejection) else _of_client(*verified)

    async def verify_id_token_hint(self, token: str, find_client: FindClient) -> VerifiedToken | Rejection:
        """An ID token of ours, alive or not, and even if its key has been retired (RP-Initiated Logout 2)."""
        verified = await self._verify(token, id_tokens.TTY, _by_audience(find_client), None)
        return verified if isinstance(verified, Rejection) else _of_client(*verified)

    async def key(self, key_id: str) -> SigningKey | None:
        """One of our keys, by its id."""
        return await self._ring.get(key_id)

    async def sign(self, key_id: str, claims: Document, tenant: Document) -> str:
        """A JWS of the tenant over any claims.

        Raises LookupError for a key that does not exist or belongs to others, ValueError when it has no private half.
        """
        return await jws.sign(await self._get(key_id, tenant), claims)

    async def vend(self, key_id: str, claims: Document, tenant: Document) -> str:
        """As `sign`, for claims that a caller chose: a header marks the token, and our endpoints do not accept it."""
        return await jws.sign(await self._get(key_id, tenant), claims, {_VENDED: True})

    async def _verify(
        self, token: str, kind: str, locate: _Locate, now: Instant | None
    ) -> tuple[Document, _Owner] | Rejection:
        """The owner comes from the unverified claims, and only its own keys are asked (RFC 8725 section 3.1).

        Without `now` times are not judged, and keys that were retired count.
        """
        owner: _Owner | None = None

        async def trusted(unverified: Mapping[str, Any]) -> Iterable[str]:
            nonlocal owner
            owner = await locate(unverified)
            return () if owner is None else trusted_keys(owner.tenant, owner.settings, _KEY_MEMBERS[kind], now)

        async def find(kid: str, unverified: Mapping[str, Any]) -> SigningKey | None:
            key = await self._among(await trusted(unverified), kid)
            if key is None and owner is not None and await self._is_news(owner, kid, now):
                key = await self._among(await trusted(unverified), kid)
            return key

        async def find_secret(algorithm: str, unverified: Mapping[str, Any]) -> SigningKey | None:
            allowed = [key_id for key_id in await trusted(unverified) if CLIENT_SECRET_KEYS.get(key_id) == algorithm]
            if owner is None or not allowed:
                return None
            return from_client_secret(allowed[0], owner.settings["oauthConfiguration"]["clientSecret"])

        verified = await jws.verify(token, find, find_secret)
        if isinstance(verified, Rejection):
            return verified
        assert owner is not None, "no key is found without an owner"
        claims = verified.claims
        is_ours = (
            claims.get("iss") == owner.tenant["issuer"] and claims.get("tid", owner.tenant["id"]) == owner.tenant["id"]
        )
        is_vended = _VENDED in verified.header
        has_all = all(name in claims for name in ("sub", "jti", "exp"))
        if is_vended or not is_ours or _kind(verified) != kind or not has_all:
            return Rejection.INVALID
        rejection = None if now is None else jws.check_times(claims, numeric_date(now))
        return rejection or (claims, owner)

    async def _is_news(self, owner: _Owner, kid: str, now: Instant | None) -> bool:
        """Whether a kid that is in none of the owner's keys may be in those that it has by now."""
        every = {
            key_id
            for member in _KEY_MEMBERS.values()
            for key_id in trusted_keys(owner.tenant, owner.settings, member, now)
        }
        return await self._among(every, kid) is None and self._second_looks.take(owner.tenant, owner.settings)

    async def _among(self, key_ids: Iterable[str], kid: str) -> SigningKey | None:
        for key_id in key_ids:
            key = await self._ring.get(key_id)
            if key is not None and key.kid == kid:
                return key
        return None

    async def _key(self, login: TokenContext, kind: str, now: Instant) -> SigningKey:
        return await self._signing_key(login.tenant, login.application, kind, now)

    async def _signing_key(self, tenant: Document, application: Document, kind: str, now: Instant) -> SigningKey:
        key_id = signing_key(tenant, application, _KEY_MEMBERS[kind], now)
        if key_id in CLIENT_SECRET_KEYS:
            return from_client_secret(key_id, application["oauthConfiguration"]["clientSecret"])
        return await self._get(key_id, tenant)

    async def _get(self, key_id: str, tenant: Document) -> SigningKey:
        key = await self._ring.get(key_id, lambda stored: key_usage.may_sign_tokens(stored, tenant["id"]))
        if key is None:
            raise LookupError(f"there is no signing key {key_id} for the tenant {tenant['id']}")
        return key


def _by_audience(find_client: FindClient) -> _Locate:
    """Whose token of a user it would be: that of the client that it is for."""

    async def locate(unverified: Mapping[str, Any]) -> _Owner | None:
        client_id = None if entity_tokens.is_entity_token(unverified) else access_tokens.audience(unverified)
        client = None if client_id is None else await find_client(client_id)
        return None if client is None else _Owner(*client)

    return locate


def _of_client(claims: Document, owner: _Owner) -> VerifiedToken:
    return VerifiedToken(claims, owner.tenant, owner.settings)


def _kind(verified: VerifiedJwt) -> object:
    """The kind of a token of ours: its `tty`.

    A minimal ID token has neither `tty` nor `gty`, which all other tokens have, and another `typ` than a logout token.
    """
    if "tty" in verified.claims or "gty" in verified.claims:
        return verified.claims.get("tty")
    return id_tokens.TTY if verified.header.get("typ") == "JWT" else None


async def _signed(key: SigningKey, claims: Document, ttl: int, populate: Populate | None) -> IssuedToken:
    """The token; the `gty` of its header stays, whatever a lambda makes of the claims. A minimal ID token has none."""
    header = {"gty": claims["gty"]} if "gty" in claims else {}
    if populate is not None:
        claims = await populate(claims)
    return IssuedToken(await jws.sign(key, claims, header), str(claims.get("jti", "")), ttl)


def ttl_seconds(tenant: Document, application: Document) -> int:
    """How long access and ID tokens of an application live."""
    ttl: int = setting(tenant, application, "timeToLiveInSeconds")
    return ttl
