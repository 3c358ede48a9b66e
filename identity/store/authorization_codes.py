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
from identity.store.redis import RedisStore, parse_document

TOMBSTONE_SECONDS = 600


@dataclasses.dataclass(frozen=True, slots=True)
class CodeConsumption:
    """The result of using a code: its `grant` if it is fresh, or the tokens `issued` by an earlier use."""

    outcome: Literal["fresh", "replayed", "unknown"]
    grant: Document | None = None
    issued: Document | None = None


class AuthorizationCodes(RedisStore):
    """The codes of all tenants."""

    async def issue(self, tenant_id: TenantId, code: str, grant: Document, ttl_seconds: int) -> None:
        """Store the grant of a new code."""
        await self._redis.set_hash(self._key(tenant_id, code), {"grant": json.dumps(grant)}, ttl_seconds)

    async def consume(self, tenant_id: TenantId, code: str) -> CodeConsumption:
        """Use a code, whether or not the exchange then succeeds; only one of several callers finds it fresh."""
        outcome, text = await self._redis.run("code_consume", [self._key(tenant_id, code)], TOMBSTONE_SECONDS)
        found = parse_document(text or None)
        if outcome == "fresh":
            return CodeConsumption("fresh", grant=found)
        return CodeConsumption(outcome, issued=found)

    async def record_redemption(self, tenant_id: TenantId, code: str, issued: Document) -> bool:
        """Store the tokens issued for a code, which a replay revokes.

        False if the code was replayed before: the caller has to revoke the tokens.
        """
        keys = [self._key(tenant_id, code)]
        return not await self._redis.run("code_record_redemption", keys, json.dumps(issued), TOMBSTONE_SECONDS)

    def _key(self, tenant_id: TenantId, code: str) -> str:
        return self._redis.key("code", tenant_id, fingerprint(code))
