"""Issues access and ID tokens with the keys of tenant and application, and verifies them when they come back."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.key_rotation import setting, signing_key, trusted_keys
from identity.ids import new_id
from identity.instants import Instant, numeric_date
from identity.tokens import access_tokens, id_tokens, jws
from identity.tokens.access_tokens import Login
from identity.tokens.jws import Rejection
from identity.tokens.second_looks import SecondLooks
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, KeyRing, SigningKey, of_client_secret

FindClient = Callable[[str], Awaitable[tuple[Document, Document] | None]]
"""client_id -> (tenant, application) of a client that may be spoken for."""

Populate = Callable[[Document], Awaitable[Document]]
"""claims -> the claims that a token shall have instead."""

_KEY_MEMBERS: Final = {access_tokens.TTY: "accessTokenKeyId", id_tokens.TTY: "idTokenKeyId"}


@dataclasses.dataclass(frozen=True, slots=True)
class IssuedToken:
    """A fresh token: its wire string, its `jti`, and the seconds it lives."""

    token: str = dataclasses.field(repr=False)
    token_id: str
    expires_in: int


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token of ours that holds: signed by a key of its client, by its tenant's issuer, and still alive."""

    claims: Document
    tenant: Document
    application: Document

    @property
    def scopes(self) -> tuple[str, ...]:
        """The granted scopes."""
        return tuple(str(self.claims.get("scope", "")).split())

    @property
    def revocable_ids(self) -> tuple[str, ...]:
        """The ids under which this token may have been revoked: its own, and that of its refresh token or session."""
        return tuple(self.claims[name] for name in ("jti", "sid") if name in self.claims)


class TokenIssuer:
    """Signs and verifies for all tenants, with the parsed keys of a ring."""

    def __init__(self, ring: KeyRing, second_looks: SecondLooks) -> None:
        self._ring = ring
        self._second_looks = second_looks

    async def access_token(
        self, login: Login, now: Instant, *, ttl: int | None = None, populate: Populate | None = None
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
        login: Login,
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

    async def verify_access_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """An access token of ours, by `find_client`'s judgement of its audience; whether it is revoked is not asked."""
        verified = await self._verify(token, access_tokens.TTY, find_client, now)
        if isinstance(verified, Rejection):
            return verified
        return jws.judge_times(verified.claims, numeric_date(now)) or verified

    async def verify_id_token(self, token: str, find_client: FindClient, now: Instant) -> VerifiedToken | Rejection:
        """An ID token of ours, still alive."""
        verified = await self._verify(token, id_tokens.TTY, find_client, now)
        if isinstance(verified, Rejection):
            return verified
        return jws.judge_times(verified.claims, numeric_date(now)) or verified

    async def verify_id_token_hint(self, token: str, find_client: FindClient) -> VerifiedToken | Rejection:
        """An ID token of ours, alive or not, and even if its key has been retired (RP-Initiated Logout 2)."""
        return await self._verify(token, id_tokens.TTY, find_client, None)

    async def key(self, key_id: str) -> SigningKey | None:
        """One of our keys, by its id."""
        return await self._ring.get(key_id)

    async def sign(self, key_id: str, claims: Document) -> str:
        """A JWS over any claims. Raises LookupError when the key is gone, ValueError when it has no private half."""
        return await jws.sign(await self._get(key_id), claims)

    async def _verify(
        self, token: str, kind: str, find_client: FindClient, now: Instant | None
    ) -> VerifiedToken | Rejection:
        """The client comes from the unverified audience, and only its own keys are asked (RFC 8725 section 3.1)."""
        client: tuple[Document, Document] | None = None

        async def trusted(unverified: Mapping[str, Any]) -> Iterable[str]:
            nonlocal client
            client_id = access_tokens.audience(unverified)
            client = None if client_id is None else await find_client(client_id)
            return () if client is None else trusted_keys(*client, _KEY_MEMBERS[kind], now)

        async def find(kid: str, unverified: Mapping[str, Any]) -> SigningKey | None:
            key = await self._among(await trusted(unverified), kid)
            if key is None and client is not None and await self._is_news(client, kid, now):
                key = await self._among(await trusted(unverified), kid)
            return key

        async def find_secret(algorithm: str, unverified: Mapping[str, Any]) -> SigningKey | None:
            allowed = [key_id for key_id in await trusted(unverified) if CLIENT_SECRET_KEYS.get(key_id) == algorithm]
            if client is None or not allowed:
                return None
            return of_client_secret(allowed[0], client[1]["oauthConfiguration"]["clientSecret"])

        verified = await jws.verify(token, find, find_secret)
        if isinstance(verified, Rejection):
            return verified
        assert client is not None, "no key is found without a client"
        tenant, application = client
        claims = verified.claims
        is_ours = claims.get("iss") == tenant["issuer"] and claims.get("tid", tenant["id"]) == tenant["id"]
        if not is_ours or claims.get("tty") != kind or not all(name in claims for name in ("sub", "jti", "exp")):
            return Rejection.INVALID
        return VerifiedToken(claims, tenant, application)

    async def _is_news(self, client: tuple[Document, Document], kid: str, now: Instant | None) -> bool:
        """Whether a kid that is in none of the client's keys may be in those that it has by now."""
        every = {key_id for member in _KEY_MEMBERS.values() for key_id in trusted_keys(*client, member, now)}
        return await self._among(every, kid) is None and self._second_looks.take(*client)

    async def _among(self, key_ids: Iterable[str], kid: str) -> SigningKey | None:
        for key_id in key_ids:
            key = await self._ring.get(key_id)
            if key is not None and key.kid == kid:
                return key
        return None

    async def _key(self, login: Login, kind: str, now: Instant) -> SigningKey:
        key_id = signing_key(login.tenant, login.application, _KEY_MEMBERS[kind], now)
        if key_id in CLIENT_SECRET_KEYS:
            return of_client_secret(key_id, login.application["oauthConfiguration"]["clientSecret"])
        return await self._get(key_id)

    async def _get(self, key_id: str) -> SigningKey:
        key = await self._ring.get(key_id)
        if key is None:
            raise LookupError(f"there is no signing key {key_id}")
        return key


async def _signed(key: SigningKey, claims: Document, ttl: int, populate: Populate | None) -> IssuedToken:
    """The token; its header says how it came about, whatever its claims say after they were populated."""
    header = {"gty": claims["gty"]}
    if populate is not None:
        claims = await populate(claims)
    return IssuedToken(await jws.sign(key, claims, header), str(claims.get("jti", "")), ttl)


def ttl_seconds(tenant: Document, application: Document) -> int:
    """How long access and ID tokens of an application live."""
    ttl: int = setting(tenant, application, "timeToLiveInSeconds")
    return ttl
