"""Authorization codes in Redis: each is given out once, and a second use undoes what the first one gave.

A code's key holds the SHA-256 of the code. After its use a tombstone stays for ten minutes, so that a replay is known
as one even when the code would have expired by then (RFC 6749 sections 4.1.2 and 10.5).
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis

TOMBSTONE_SECONDS = 600

_CONSUME = """
local grant = redis.call('HGET', KEYS[1], 'grant')
if grant then
  redis.call('HDEL', KEYS[1], 'grant')
  redis.call('HSET', KEYS[1], 'used', '1')
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  return {'fresh', grant}
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {'unknown', ''}
end
redis.call('HSET', KEYS[1], 'replayed', '1')
return {'replayed', redis.call('HGET', KEYS[1], 'given') or ''}
"""

_REDEEMED = """
redis.call('HSET', KEYS[1], 'used', '1', 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
"""


@dataclasses.dataclass(frozen=True, slots=True)
class CodeConsumption:
    """What became of an attempt to use a code: `grant` when it is fresh, `given` what an earlier use gave."""

    outcome: Literal["fresh", "replayed", "unknown"]
    grant: Document | None = None
    given: Document | None = None


class AuthorizationCodes:
    """The codes of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._consume = redis.client.register_script(_CONSUME)
        self._redeemed = redis.client.register_script(_REDEEMED)

    async def issue(self, tenant_id: TenantId, code: str, grant: Document, ttl_seconds: int) -> None:
        """Remember what a new code stands for."""
        key = self._key(tenant_id, code)
        async with self._redis.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, "grant", json.dumps(grant))
            pipeline.expire(key, ttl_seconds)
            await self._redis.execute(pipeline)

    async def consume(self, tenant_id: TenantId, code: str) -> CodeConsumption:
        """Use a code up, whatever comes of the exchange; of all callers with one code one finds it fresh."""
        outcome, text = await self._consume(keys=[self._key(tenant_id, code)], args=[TOMBSTONE_SECONDS])
        found: Any = json.loads(text) if text else None
        if outcome == "fresh":
            return CodeConsumption("fresh", grant=found)
        return CodeConsumption(outcome, given=found)

    async def record_redemption(self, tenant_id: TenantId, code: str, given: Document) -> bool:
        """Remember what a code gave, for a replay to undo. False when one came first: the caller has to undo it."""
        replayed = await self._redeemed(keys=[self._key(tenant_id, code)], args=[json.dumps(given), TOMBSTONE_SECONDS])
        return not replayed

    def _key(self, tenant_id: TenantId, code: str) -> str:
        return self._redis.key("code", tenant_id, fingerprint(code))
