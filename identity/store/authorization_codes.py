"""Authorization codes in Redis: each is redeemed once, and a second use revokes the tokens of the first.

The key contains the SHA-256 of the code. A used code leaves a tombstone for ten minutes, so that a replay is detected
even after the code would have expired (RFC 6749 sections 4.1.2 and 10.5).
"""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.store.redis import Redis, RedisStore, parse_document

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

_RECORD_REDEMPTION = """
redis.call('HSET', KEYS[1], 'used', '1', 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
"""


@dataclasses.dataclass(frozen=True, slots=True)
class CodeConsumption:
    """The result of using a code: its `grant` if it is fresh, or the tokens `issued` by an earlier use."""

    outcome: Literal["fresh", "replayed", "unknown"]
    grant: Document | None = None
    issued: Document | None = None


class AuthorizationCodes(RedisStore):
    """The codes of all tenants."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._consume = redis.client.register_script(_CONSUME)
        self._record_redemption = redis.client.register_script(_RECORD_REDEMPTION)

    async def issue(self, tenant_id: TenantId, code: str, grant: Document, ttl_seconds: int) -> None:
        """Store the grant of a new code."""
        await self._redis.set_hash(self._key(tenant_id, code), {"grant": json.dumps(grant)}, ttl_seconds)

    async def consume(self, tenant_id: TenantId, code: str) -> CodeConsumption:
        """Use a code, whether or not the exchange then succeeds; only one of several callers finds it fresh."""
        outcome, text = await self._consume(keys=[self._key(tenant_id, code)], args=[TOMBSTONE_SECONDS])
        found = parse_document(text or None)
        if outcome == "fresh":
            return CodeConsumption("fresh", grant=found)
        return CodeConsumption(outcome, issued=found)

    async def record_redemption(self, tenant_id: TenantId, code: str, issued: Document) -> bool:
        """Store the tokens issued for a code, which a replay revokes.

        False if the code was replayed before: the caller has to revoke the tokens.
        """
        args: list[str | int] = [json.dumps(issued), TOMBSTONE_SECONDS]
        return not await self._record_redemption(keys=[self._key(tenant_id, code)], args=args)

    def _key(self, tenant_id: TenantId, code: str) -> str:
        return self._redis.key("code", tenant_id, fingerprint(code))
