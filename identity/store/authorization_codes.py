"""Authorization codes and pushed authorization requests in Redis."""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

from identity.call import Document
from identity.ids import ApplicationId, TenantId, fingerprint
from identity.store.redis import RedisStore, parse_document

TOMBSTONE_SECONDS = 600


@dataclasses.dataclass(frozen=True, slots=True)
class CodeConsumption:
    """The result of using a code: its `grant` if it is fresh, or the tokens `issued` by an earlier use."""

    outcome: Literal["fresh", "replayed", "unknown"]
    grant: Document | None = None
    issued: Document | None = None


class AuthorizationCodes(RedisStore):
    """The codes of all tenants: each is redeemed once, and a second use revokes the tokens of the first.

    The key contains the SHA-256 of the code. A used code leaves a tombstone for ten minutes, so that a replay is
    detected even after the code would have expired (RFC 6749 sections 4.1.2 and 10.5).
    """

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


class PushedRequests(RedisStore):
    """The pushed authorization requests of all tenants (RFC 9126).

    The key contains the tenant, the client and the SHA-256 of the secret part of the `request_uri`, so that no other
    client can read or consume a request. Each step is one command.
    """

    async def save(
        self, tenant_id: TenantId, client_id: ApplicationId, secret: str, request: Document, ttl_seconds: int
    ) -> None:
        """Store a request under a new secret."""
        await self._redis.client.set(self._key(tenant_id, client_id, secret), json.dumps(request), ex=ttl_seconds)

    async def find(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """The request with this secret; it remains stored."""
        return parse_document(await self._redis.client.get(self._key(tenant_id, client_id, secret)))

    async def consume(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> Document | None:
        """Atomically read and delete a request; only one of several callers receives it."""
        return parse_document(await self._redis.client.getdel(self._key(tenant_id, client_id, secret)))

    async def delete(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> None:
        """Delete the request whose secret has this SHA-256, if it exists."""
        await self._redis.client.delete(self._hashed_key(tenant_id, client_id, hashed_secret))

    def _key(self, tenant_id: TenantId, client_id: ApplicationId, secret: str) -> str:
        return self._hashed_key(tenant_id, client_id, fingerprint(secret))

    def _hashed_key(self, tenant_id: TenantId, client_id: ApplicationId, hashed_secret: str) -> str:
        return self._redis.key("pushed-request", tenant_id, client_id, hashed_secret)
