"""Issue and verify access, ID and logout tokens with the keys of their tenant and application."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from cachetools import TTLCache

from identity.call import Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.domain.configuration import key_usage
from identity.domain.configuration.key_rotation import entity_key, signing_key, trusted_keys
from identity.domain.configuration.token_settings import ACCESS_MEMBER, ID_MEMBER, effective_ttl_seconds
from identity.ids import new_id
from identity.instants import Instant, numeric_date
from identity.tokens import access_tokens, id_tokens, jws
from identity.tokens.access_tokens import EntityTokenContext, TokenContext
from identity.tokens.jws import Rejection, VerifiedJwt
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing, SigningKey, from_client_secret

FindClient = Callable[[str], Awaitable[tuple[Document, Document] | None]]
"""client_id -> (tenant, application) of an active client."""

FindEntity = Callable[[str], Awaitable[tuple[Document, Document, Document] | None]]
"""entity id -> (tenant, entity, entity type) of an active entity."""

Populate = Callable[[Document], Awaitable[Document]]
"""claims -> the claims that replace them in the token."""

_KEY_MEMBERS: Final = {access_tokens.TTY: ACCESS_MEMBER, id_tokens.TTY: ID_MEMBER}

_VENDED: Final = "vended"
"""The header member that marks a token whose claims were chosen by an API caller."""

_REFRESH_SECONDS: Final = 1.0
_MAXIMUM_CLIENTS: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token: its wire string, its `jti` and its lifetime in seconds; `others` are issued with it."""

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
    """A verified token: signed by a key of its client, issued by its tenant, not expired."""

    claims: Document
    tenant: Document
    application: Document

    @property
    def kind(self) -> str:
        """The `tty` of the token; a minimal ID token has no such claim."""
        return str(self.claims.get("tty", id_tokens.TTY))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The granted scopes."""
        return tuple(str(self.claims.get("scope", "")).split())

    @property
    def revocable_ids(self) -> tuple[str, ...]:
        """The ids by which this token can be revoked: its own, and that of its refresh token or session."""
        return tuple(self.claims[name] for name in ("jti", "sid") if name in self.claims)


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedEntityToken:
    """A verified token of an entity."""

    claims: Document
    tenant: Document
    entity: Document
    kind = access_tokens.TTY

    @property
    def targets(self) -> tuple[str, ...]:
        """The target entities."""
        return access_tokens.audiences(self.claims)

    @property
    def revocable_ids(self) -> tuple[str, ...]:
        """The ids by which this token can be revoked."""
        return (self.claims["jti"],)


@dataclasses.dataclass(frozen=True, slots=True)
class _Owner:
    """The owner of a token, whose keys may sign it: a tenant, and the settings of its application or entity type."""

    tenant: Document
    settings: Document
    entity: Document | None = None


_Locate = Callable[[Mapping[str, Any]], Awaitable[_Owner | None]]
"""unverified claims -> the owner of the token, if it is valid."""


class TokenIssuer:
    """Signs and verifies the tokens of all tenants, with the parsed keys of a key ring."""

    def __init__(self, ring: KeyRing, refresh_throttle: KeyRefreshThrottle) -> None:
        self._ring = ring
        self._refresh_throttle = refresh_throttle

    async def access_token(
        self, context: TokenContext, now: Instant, *, ttl: int | None = None, populate: Populate | None = None
    ) -> IssuedToken:
        """Issue an access token, with a lifetime of `ttl` seconds if given.

        Raises LookupError if its key does not exist, ValueError if the key cannot sign, and what `populate` raises.
        """
        key = await self._signing_key(context.tenant, context.application, access_tokens.TTY, now)
        ttl, token_id = ttl or effective_ttl_seconds(context.tenant, context.application), new_id()
        claims = access_tokens.claims(context, token_id, numeric_date(now), ttl)
        return await _signed(key, claims, ttl, populate)

    async def id_token(
        self,
        context: TokenContext,
        now: Instant,
        *,
        access_token: str | None = None,
        code: str | None = None,
        populate: Populate | None = None,
    ) -> IssuedToken:
        """Issue an ID token together with `access_token` and `code`. Raises as `access_token` does."""
        key = await self._signing_key(context.tenant, context.application, id_tokens.TTY, now)
        ttl, token_id = effective_ttl_seconds(context.tenant, context.application), new_id()
        claims = id_tokens.claims(
            context, token_id, numeric_date(now), ttl, key.algorithm, access_token=access_token, code=code
        )
        return await _signed(key, claims, ttl, populate)

    async def entity_token(
        self, context: EntityTokenContext, now: Instant, populate: Populate | None = None
    ) -> IssuedToken:
        """Issue an access token of an entity. Raises as `access_token` does."""
        key_id, ttl = entity_key(context.tenant, context.entity_type, now)
        claims = access_tokens.entity_claims(context, new_id(), numeric_date(now), ttl)
        return await _signed(await self._get(key_id, context.tenant), claims, ttl, populate)

    async def logout_token(
        self, tenant: Document, application: Document, user_id: str, session_id: str | None, now: Instant
    ) -> str:
        """Issue a logout token for an application, signed like its ID tokens (Back-Channel Logout 1.0 section 2.4).

        Raises LookupError if the key does not exist, ValueError if it cannot sign.
        """
        key = await self._signing_key(tenant, application, id_tokens.TTY, now)
        client_id = client_id_of(application)
        claims = id_tokens.logout_claims(tenant["issuer"], client_id, user_id, session_id, numeric_date(now))
        return await jws.sign(key, claims, typ=id_tokens.LOGOUT_TYPE)

    async def verify_access_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """Verify a user's access token; revocation is not checked."""
        return await self._verify_of_client(token, access_tokens.TTY, find_client, now)

    async def verify_any_access_token(
        self, token: str, find_client: FindClient, find_entity: FindEntity, now: Instant
    ) -> VerifiedToken | VerifiedEntityToken | Rejection:
        """Verify an access token of a user or an entity; revocation is not checked."""
        locate = functools.partial(_user_or_entity_owner, find_client, find_entity)
        verified = await self._verify(token, access_tokens.TTY, locate, now)
        if isinstance(verified, Rejection):
            return verified
        claims, owner = verified
        if owner.entity is None:
            return VerifiedToken(claims, owner.tenant, owner.settings)
        return VerifiedEntityToken(claims, owner.tenant, owner.entity)

    async def verify_id_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """Verify an ID token."""
        return await self._verify_of_client(token, id_tokens.TTY, find_client, now)

    async def verify_id_token_hint(self, token: str, find_client: FindClient) -> VerifiedToken | Rejection:
        """Verify an ID token that may have expired, and whose key may have been retired (RP-Initiated Logout 2)."""
        return await self._verify_of_client(token, id_tokens.TTY, find_client, None)

    async def _verify_of_client(
        self, token: str, kind: str, find_client: FindClient, now: Instant | None
    ) -> VerifiedToken | Rejection:
        verified = await self._verify(token, kind, functools.partial(_user_token_owner, find_client), now)
        if isinstance(verified, Rejection):
            return verified
        claims, owner = verified
        return VerifiedToken(claims, owner.tenant, owner.settings)

    async def key(self, key_id: str) -> SigningKey | None:
        """Return a key by its id."""
        return await self._ring.get(key_id)

    async def sign(self, key_id: str, claims: Document, tenant: Document) -> str:
        """Sign any claims with a key that the tenant may use.

        Raises LookupError for a key that does not exist or belongs to another tenant, ValueError without a private key.
        """
        return await jws.sign(await self._get(key_id, tenant), claims)

    async def vend(self, key_id: str, claims: Document, tenant: Document) -> str:
        """Sign claims that an API caller chose; a header member marks the token, which our endpoints reject."""
        return await jws.sign(await self._get(key_id, tenant), claims, {_VENDED: True})

    async def _verify(
        self, token: str, kind: str, locate: _Locate, now: Instant | None
    ) -> tuple[Document, _Owner] | Rejection:
        """Verify a token with the keys of the owner that its unverified claims name (RFC 8725 section 3.1).

        Without `now` its lifetime is not checked, and retired keys are accepted.
        """
        keys = _OwnerKeys(self._ring, self._refresh_throttle, locate, kind, now)
        verified = await jws.verify(token, keys.find, keys.find_secret)
        if isinstance(verified, Rejection):
            return verified
        owner, claims = keys.owner, verified.claims
        assert owner is not None, "no key is found without an owner"
        # Tenants may share an issuer and keys; `tid` tells their tokens apart.
        is_ours = claims.get("iss") == owner.tenant["issuer"] and claims.get("tid") == owner.tenant["id"]
        is_vended = _VENDED in verified.header
        is_complete = all(name in claims for name in ("sub", "jti", "exp"))
        if is_vended or not is_ours or _kind(verified) != kind or not is_complete:
            return Rejection.INVALID
        rejection = None if now is None else jws.check_times(claims, numeric_date(now))
        return rejection or (claims, owner)

    async def _signing_key(self, tenant: Document, application: Document, kind: str, now: Instant) -> SigningKey:
        key_id = signing_key(tenant, application, _KEY_MEMBERS[kind], now)
        if key_id in CLIENT_SECRET_KEYS:
            return from_client_secret(key_id, application["oauthConfiguration"]["clientSecret"])
        return await self._get(key_id, tenant)

    async def _get(self, key_id: str, tenant: Document) -> SigningKey:
        key = await self._ring.get(key_id, functools.partial(key_usage.may_sign_tokens, tenant_id=tenant["id"]))
        if key is None:
            raise LookupError(f"there is no signing key {key_id} for the tenant {tenant['id']}")
        return key


@dataclasses.dataclass(slots=True)
class _OwnerKeys:
    """Finds the key that may have signed a token, among those of the owner that the token names."""

    ring: KeyRing
    refresh_throttle: KeyRefreshThrottle
    locate: _Locate
    kind: str
    now: Instant | None
    owner: _Owner | None = None

    async def find(self, kid: str, unverified: Mapping[str, Any]) -> SigningKey | None:
        """Return the owner's key with this kid; an unknown kid refreshes the owner's cached settings, throttled."""
        key = await self._with_kid(await self._trusted_ids(unverified), kid)
        if key is None and self.owner is not None and await self._may_be_new(self.owner, kid):
            key = await self._with_kid(await self._trusted_ids(unverified), kid)
        return key

    async def find_secret(self, algorithm: str, unverified: Mapping[str, Any]) -> SigningKey | None:
        """Return the owner's client secret as a key, if its settings sign with it."""
        trusted_ids = await self._trusted_ids(unverified)
        key_ids = [key_id for key_id in trusted_ids if CLIENT_SECRET_KEYS.get(key_id) == algorithm]
        if self.owner is None or not key_ids:
            return None
        return from_client_secret(key_ids[0], self.owner.settings["oauthConfiguration"]["clientSecret"])

    async def _trusted_ids(self, unverified: Mapping[str, Any]) -> Iterable[str]:
        self.owner = await self.locate(unverified)
        if self.owner is None:
            return ()
        return trusted_keys(self.owner.tenant, self.owner.settings, _KEY_MEMBERS[self.kind], self.now)

    async def _may_be_new(self, owner: _Owner, kid: str) -> bool:
        """Whether a kid is none of the owner's keys of any kind, and the cached settings may be refreshed."""
        for member in _KEY_MEMBERS.values():
            if await self._with_kid(trusted_keys(owner.tenant, owner.settings, member, self.now), kid) is not None:
                return False
        return self.refresh_throttle.try_refresh(owner.tenant, owner.settings)

    async def _with_kid(self, key_ids: Iterable[str], kid: str) -> SigningKey | None:
        for key_id in key_ids:
            key = await self.ring.get(key_id)
            if key is not None and key.kid == kid:
                return key
        return None


async def _user_token_owner(find_client: FindClient, unverified: Mapping[str, Any]) -> _Owner | None:
    """Return the owner of a user's token: the client of its audience."""
    client_id = None if access_tokens.is_entity_token(unverified) else access_tokens.audience(unverified)
    client = None if client_id is None else await find_client(client_id)
    return None if client is None else _Owner(*client)


async def _user_or_entity_owner(
    find_client: FindClient, find_entity: FindEntity, unverified: Mapping[str, Any]
) -> _Owner | None:
    """Return the owner of a token: the client of its audience, or the entity of its subject."""
    if not access_tokens.is_entity_token(unverified):
        return await _user_token_owner(find_client, unverified)
    subject = unverified.get("sub")
    found = await find_entity(subject) if isinstance(subject, str) else None
    return None if found is None else _Owner(tenant=found[0], settings=found[2], entity=found[1])


def _kind(verified: VerifiedJwt) -> object:
    """Return the kind of one of our tokens: its `tty`.

    A minimal ID token has neither `tty` nor `gty`, unlike all other tokens, and the `typ` JWT, unlike a logout token.
    """
    if "tty" in verified.claims or "gty" in verified.claims:
        return verified.claims.get("tty")
    return id_tokens.TTY if verified.header.get("typ") == "JWT" else None


async def _signed(key: SigningKey, claims: Document, ttl: int, populate: Populate | None) -> IssuedToken:
    """Sign a token. A lambda cannot change the `gty` of its header, which a minimal ID token does not have."""
    header = {"gty": claims["gty"]} if "gty" in claims else {}
    if populate is not None:
        claims = await populate(claims)
    return IssuedToken(await jws.sign(key, claims, header), str(claims.get("jti", "")), ttl)


class KeyRefreshThrottle:
    """Invalidates a client's cached documents for tokens whose key is unknown, at most once a second per client.

    Most such tokens are invalid. But a process that was suspended may have missed a key change, so the settings are
    read again, rarely enough that invalid tokens cost little.
    """

    def __init__(self, forget: Callable[[str, str], None]) -> None:
        """`forget` invalidates a tenant and an application or entity type by their ids."""
        self._forget = forget
        self._recent: TTLCache[str, bool] = TTLCache(_MAXIMUM_CLIENTS, _REFRESH_SECONDS, timer=time.monotonic)

    def try_refresh(self, tenant: Document, settings: Document) -> bool:
        """Invalidate the documents and return True, unless they were invalidated within the last second."""
        if settings["id"] in self._recent:
            return False
        self._recent[settings["id"]] = True
        self._forget(tenant["id"], settings["id"])
        return True
