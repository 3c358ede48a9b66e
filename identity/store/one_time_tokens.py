"""One-time tokens in Redis, as in links of mails and messages and in unfinished logins, and ids that are accepted once.

A token has a kind (such as `change-password`) and an owner (a user). The key contains the SHA-256 of the secret; the
value contains the tenant, which callers need not know. All tokens of an owner and a kind share a generation, stored
under a key of its own: deleting or replacing it revokes them all.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_id, new_secret
from identity.store.redis import RedisStore, SealedRedisStore

_MAX_SECRET_COLLISIONS: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class OneTimeToken:
    """The content of a token; `owner` is usually a user id."""

    tenant_id: TenantId
    owner: str
    document: Document = dataclasses.field(repr=False)


class OneTimeTokens(RedisStore):
    """The one-time tokens of all tenants."""

    async def issue(
        self,
        tenant_id: TenantId,
        kind: str,
        owner: str,
        document: Document,
        ttl_seconds: int,
        *,
        make: Callable[[], str] = new_secret,
        replaces: bool = False,
    ) -> Secret | None:
        """Store a token and return its secret; `replaces` revokes the owner's earlier tokens of this kind.

        `make` generates the secret, which may be a short code. None if all generated secrets are in use.
        """
        owner_key = self._owner_key(tenant_id, kind, owner)
        generation = await self._redis.run("token_generation", [owner_key], new_id(), ttl_seconds, int(replaces))
        value = json.dumps([tenant_id, owner, generation, document])
        for _ in range(_MAX_SECRET_COLLISIONS):
            secret = Secret(make())
            if await self._redis.client.set(self._key(kind, secret), value, nx=True, ex=ttl_seconds):
                return secret
        return None

    async def find(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeToken | None:
        """The token with this secret; None as tenant accepts the token of any tenant."""
        return await self._read(tenant_id, kind, await self._redis.client.get(self._key(kind, secret)))

    async def find_counting_attempt(
        self, tenant_id: TenantId | None, kind: str, secret: str, max_attempts: int
    ) -> OneTimeToken | None:
        """As `find`, and count an attempt to verify a code; after `max_attempts` the token is no longer found."""
        if await self.find(tenant_id, kind, secret) is None:
            return None
        key = self._key(kind, secret)
        value = await self._redis.run("token_count_attempt", [key, f"{key}:tries", _exhausted_key(key)], max_attempts)
        return await self._read(tenant_id, kind, value)

    async def consume(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeToken | None:
        """Atomically read and delete a token; only one of several callers receives it. See `find` for the tenant."""
        keys = [key := self._key(kind, secret), _exhausted_key(key)]
        if tenant_id is not None:
            present = [value for value in await self._redis.client.mget(keys) if value is not None]
            if not present or await self._read(tenant_id, kind, present[0]) is None:
                return None
        return await self._read(tenant_id, kind, await self._redis.run("token_consume", keys))

    def use(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeTokenUse:
        """The consumption of a token in a write that may be retried."""
        return OneTimeTokenUse(self, tenant_id, kind, secret)

    async def replace(self, tenant_id: TenantId, kind: str, secret: str, document: Document) -> bool:
        """Replace the document of a token and keep its TTL; False if it no longer exists."""
        found = await self._redis.client.get(self._key(kind, secret))
        if found is None or await self._read(tenant_id, kind, found) is None:
            return False
        value = json.dumps([*json.loads(found)[:3], document])
        return bool(await self._redis.client.set(self._key(kind, secret), value, xx=True, keepttl=True))

    async def extend(self, tenant_id: TenantId, kind: str, secret: str, ttl_seconds: int) -> bool:
        """Set the TTL of a token; False if it no longer exists."""
        key = self._key(kind, secret)
        token = await self.find(tenant_id, kind, secret)
        if token is None:
            return False
        owner_key = self._owner_key(tenant_id, kind, token.owner)
        await self._redis.run("token_generation", [owner_key], new_id(), ttl_seconds, 0)
        return bool(await self._redis.run("token_extend", [key, f"{key}:tries"], ttl_seconds))

    async def revoke_all(self, tenant_id: TenantId, kind: str, owner: str) -> None:
        """Revoke all tokens of an owner of one kind."""
        await self._redis.client.delete(self._owner_key(tenant_id, kind, owner))

    async def _read(self, tenant_id: TenantId | None, kind: str, value: Any) -> OneTimeToken | None:
        if value is None:
            return None
        owned_by, owner, generation, document = json.loads(value)
        if tenant_id not in {None, owned_by}:
            return None
        present = await self._redis.client.get(self._owner_key(owned_by, kind, owner))
        return OneTimeToken(TenantId(owned_by), owner, document) if present == generation else None

    def _key(self, kind: str, secret: str) -> str:
        # The hash tag in braces puts a token and its attempt counter on one cluster node.
        return self._redis.key("ticket", kind, f"{{{fingerprint(secret)}}}")

    def _owner_key(self, tenant_id: TenantId, kind: str, owner: str) -> str:
        return self._redis.key("ticket-owner", kind, tenant_id, owner)


def _exhausted_key(key: str) -> str:
    """The key of a token after too many attempts."""
    return f"{key}:aside"


class OneTimeTokenUse:
    """The consumption of a token in a write: once, even if MongoDB retries the transaction."""

    def __init__(self, one_time_tokens: OneTimeTokens, tenant_id: TenantId | None, kind: str, secret: str) -> None:
        self._tokens = one_time_tokens
        self._arguments = (tenant_id, kind, secret)
        self._is_consumed = False

    async def consume(self) -> bool:
        """Consume the token for this write; True also when the write is retried, False for every other write."""
        if not self._is_consumed:
            self._is_consumed = await self._tokens.consume(*self._arguments) is not None
        return self._is_consumed


class OneTimeIds(RedisStore):
    """Ids that are accepted once, such as the `jti` of a client assertion.

    They belong to a `purpose` and an `owner` (a client or a key). Used ids are recorded until the object that carries
    the id is no longer valid. The key contains the SHA-256 of the id.
    """

    async def mark_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str, ttl_seconds: int) -> bool:
        """Atomically mark an id as used; True for the first caller only."""
        key = self._key(tenant_id, purpose, owner, value)
        return bool(await self._redis.client.set(key, "1", nx=True, ex=max(1, ttl_seconds)))

    async def is_used(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> bool:
        """Whether an id has been used; `mark_used` alone decides which caller may use it."""
        return bool(await self._redis.client.exists(self._key(tenant_id, purpose, owner, value)))

    def _key(self, tenant_id: TenantId, purpose: str, owner: str, value: str) -> str:
        # Two fingerprints, so that no other combination of owner and value results in the same key.
        return self._redis.key("used", purpose, tenant_id, fingerprint(owner), fingerprint(value))


class OpenVerifications(SealedRedisStore):
    """The latest verification id and code of each owner, for callers with an API key.

    Values are encrypted, because they allow verification in the user's place. The key names the owner, which is not
    secret. An entry does not imply that its id is still valid: the one-time token decides.
    """

    async def save(self, tenant_id: TenantId, kind: str, owner: str, document: Document, ttl_seconds: int) -> None:
        """Store the latest verification of an owner, replacing the previous one."""
        key = self._key(tenant_id, kind, owner)
        await self._redis.client.set(key, self._seal(document, key), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, kind: str, owner: str) -> Document | None:
        """The latest verification of an owner."""
        key = self._key(tenant_id, kind, owner)
        sealed: Any = await self._redis.client.get(key)
        return None if sealed is None else self._unseal(sealed, key)

    async def delete(self, tenant_id: TenantId, kind: str, owner: str) -> None:
        """Delete the verification of an owner."""
        await self._redis.client.delete(self._key(tenant_id, kind, owner))

    def _key(self, tenant_id: TenantId, kind: str, owner: str) -> str:
        return self._redis.key("open-verification", kind, tenant_id, owner)
