"""Tickets in Redis: what a secret id stands for, for a while, once. Ids of mails and messages, of logins half done.

A ticket is of one kind (such as `change-password`) and belongs to an owner (a user), whose tickets of that kind can be
taken back all at once. The key holds the SHA-256 of the id. Whoever shows an id may not have said for which tenant:
the ticket knows. An owner's tickets share a generation, which is a key of its own: without it they count no more.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_id, new_secret
from identity.store.redis import Redis

_TRIES_AT_AN_ID: Final = 8

# The generation lives as long as the last of its tickets; a new one makes all earlier tickets worthless.
_GENERATION = """
local found = ARGV[3] == '0' and redis.call('GET', KEYS[1])
if not found then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return ARGV[1]
end
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return found
"""

# What was tried too often is put aside: nobody finds it any more, but whoever was let in before may still use it up.
_TRY = """
local found = redis.call('GET', KEYS[1])
if not found then
  return found
end
local tries = redis.call('INCR', KEYS[2])
redis.call('EXPIRE', KEYS[2], math.max(1, redis.call('TTL', KEYS[1])))
if tries > tonumber(ARGV[1]) then
  redis.call('RENAME', KEYS[1], KEYS[3])
  return false
end
return found
"""

# The tries live as long as what was tried: nobody gets new ones by asking for more time.
_EXTEND = """
redis.call('EXPIRE', KEYS[2], ARGV[1])
return redis.call('EXPIRE', KEYS[1], ARGV[1])
"""

_CONSUME = """
local found = redis.call('GET', KEYS[1]) or redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
return found
"""


@dataclasses.dataclass(frozen=True, slots=True)
class OneTimeToken:
    """What an id stands for; `owner` is the id of the user whom it is about."""

    tenant_id: TenantId
    owner: str
    document: Document = dataclasses.field(repr=False)


class OneTimeTokens:
    """The tickets of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._generation = redis.client.register_script(_GENERATION)
        self._try = redis.client.register_script(_TRY)
        self._extend = redis.client.register_script(_EXTEND)
        self._consume = redis.client.register_script(_CONSUME)

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
        """Make a ticket; answers its id. `replaces`: the owner's earlier ones of this kind count no more.

        `make` makes an id, which may be a short code: one that is taken is never given again. None when every id that
        it made is taken.
        """
        generation = await self._generation(
            keys=[self._owner_key(tenant_id, kind, owner)], args=[new_id(), ttl_seconds, int(replaces)]
        )
        value = json.dumps([tenant_id, owner, generation, document])
        for _ in range(_TRIES_AT_AN_ID):
            secret = Secret(make())
            if await self._redis.client.set(self._key(kind, secret), value, nx=True, ex=ttl_seconds):
                return secret
        return None

    async def find(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeToken | None:
        """What an id stands for; None in place of a tenant leaves the ticket to say whose it is."""
        return await self._read(tenant_id, kind, await self._redis.client.get(self._key(kind, secret)))

    async def find_counting_attempt(
        self, tenant_id: TenantId | None, kind: str, secret: str, tries: int
    ) -> OneTimeToken | None:
        """As `find`, for a caller who shows a code beside the id: after so many tries the ticket is gone."""
        if await self.find(tenant_id, kind, secret) is None:
            return None
        key = self._key(kind, secret)
        value = await self._try(keys=[key, f"{key}:tries", _aside(key)], args=[tries])
        return await self._read(tenant_id, kind, value)

    async def consume(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeToken | None:
        """Use a ticket up: of all callers one gets it. Another tenant's stays what it is."""
        keys = [key := self._key(kind, secret), _aside(key)]
        if tenant_id is not None:
            present = [value for value in await self._redis.client.mget(keys) if value is not None]
            if not present or await self._read(tenant_id, kind, present[0]) is None:
                return None
        return await self._read(tenant_id, kind, await self._consume(keys=keys))

    def use(self, tenant_id: TenantId | None, kind: str, secret: str) -> OneTimeTokenUse:
        """The one use of a ticket, for a write that may run again."""
        return OneTimeTokenUse(self, tenant_id, kind, secret)

    async def replace(self, tenant_id: TenantId, kind: str, secret: str, document: Document) -> bool:
        """Let an id stand for another document, for as long as it has left; False when it is gone meanwhile."""
        found = await self._redis.client.get(self._key(kind, secret))
        if found is None or await self._read(tenant_id, kind, found) is None:
            return False
        value = json.dumps([*json.loads(found)[:3], document])
        return bool(await self._redis.client.set(self._key(kind, secret), value, xx=True, keepttl=True))

    async def extend(self, tenant_id: TenantId, kind: str, secret: str, ttl_seconds: int) -> bool:
        """Let a ticket live this long from now; False when it is gone meanwhile."""
        key = self._key(kind, secret)
        ticket = await self.find(tenant_id, kind, secret)
        if ticket is None:
            return False
        owner_key = self._owner_key(tenant_id, kind, ticket.owner)
        await self._generation(keys=[owner_key], args=[new_id(), ttl_seconds, 0])
        return bool(await self._extend(keys=[key, f"{key}:tries"], args=[ttl_seconds]))

    async def revoke_all(self, tenant_id: TenantId, kind: str, owner: str) -> None:
        """Take all tickets of one kind back that an owner has."""
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
        # Braces: in a cluster the tries of a ticket have to be on its node.
        return self._redis.key("ticket", kind, f"{{{fingerprint(secret)}}}")

    def _owner_key(self, tenant_id: TenantId, kind: str, owner: str) -> str:
        return self._redis.key("ticket-owner", kind, tenant_id, owner)


def _aside(key: str) -> str:
    """Where a ticket stands that was tried too often."""
    return f"{key}:aside"


class OneTimeTokenUse:
    """A ticket that is used up by a write: once, however often MongoDB has the write run for one change."""

    def __init__(self, one_time_tokens: OneTimeTokens, tenant_id: TenantId | None, kind: str, secret: str) -> None:
        self._tickets = one_time_tokens
        self._named = (tenant_id, kind, secret)
        self._is_ours = False

    async def consume(self) -> bool:
        """Whether the ticket was there for this write; of all writes one gets it."""
        if not self._is_ours:
            self._is_ours = await self._tickets.consume(*self._named) is not None
        return self._is_ours
