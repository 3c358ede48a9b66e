"""Sessions of the administrators' console in Redis, by the SHA-256 of the secret in the browser's cookie.

Instants are stored, so that the clock of the service decides about time-outs; the TTL only removes old sessions.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from identity.ids import TenantId, UserId, fingerprint
from identity.instants import Instant
from identity.store.redis import RedisStore


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleSession:
    """The session of an administrator; `auth_instant` is when the user entered credentials.

    `sso_session_id` is the SSO session of the login, which ends this session as well; empty if the tenant has none.
    """

    user_id: UserId
    created: Instant
    used: Instant
    auth_instant: Instant
    sso_session_id: str


class ConsoleSessions(RedisStore):
    """The sessions of administrators; the console belongs to one tenant, that of its application."""

    async def create(self, tenant_id: TenantId, secret: str, session: ConsoleSession, ttl_seconds: int) -> None:
        """Store a session."""
        fields = {
            "user": session.user_id,
            "created": str(session.created),
            "used": str(session.used),
            "auth": str(session.auth_instant),
            "sso": session.sso_session_id,
        }
        await self._redis.set_hash(self._key(tenant_id, secret), fields, ttl_seconds)

    async def find(self, tenant_id: TenantId, secret: str) -> ConsoleSession | None:
        """The session with this secret."""
        fields: Any = await self._redis.client.hgetall(self._key(tenant_id, secret))
        if not fields:
            return None
        return ConsoleSession(
            UserId(fields["user"]),
            Instant(int(fields["created"])),
            Instant(int(fields["used"])),
            Instant(int(fields["auth"])),
            fields["sso"],
        )

    async def touch(self, tenant_id: TenantId, secret: str, now: Instant) -> None:
        """Record that a session was used; one that ended meanwhile stays ended."""
        await self._redis.run("console_session_touch", [self._key(tenant_id, secret)], str(now))

    async def end(self, tenant_id: TenantId, secret: str) -> None:
        """End the session with this secret."""
        await self._redis.client.delete(self._key(tenant_id, secret))

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._redis.key("console", tenant_id, fingerprint(secret))
