"""Sessions of browsers in Redis: SSO sessions, and those of the administrators' console.

A session is identified by a secret that only the browser's cookie contains.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from identity.call import Document
from identity.errors import StartupError
from identity.ids import TenantId, UserId, fingerprint
from identity.instants import Instant
from identity.store.redis import RedisStore, SealedRedisStore

_CLIENT = "client:"


@dataclasses.dataclass(frozen=True, slots=True)
class SsoSession:
    """The login of a browser; `client_ids` are the applications that participate.

    `second_factor` is the method of the second factor, empty without one. `realm` is that of the console for a session
    that a login to it started, else empty. `start_instant` is when the session started, if that is later than
    `auth_instant`. `provider_session` is sealed: the identity provider that the browser may have a session at, and its
    ID token. `remaining_ms` is the time until the idle timeout and is set only for listed sessions.
    """

    session_id: str
    user_id: UserId
    auth_instant: Instant
    authentication_type: str
    is_persistent: bool
    client_ids: frozenset[str] = frozenset()
    second_factor: str = ""
    realm: str = ""
    start_instant: Instant | None = None
    provider_session: str = dataclasses.field(default="", repr=False)
    remaining_ms: int = dataclasses.field(default=0, compare=False)


class SsoSessions(SealedRedisStore):
    """The SSO sessions of all tenants, which expire after an idle timeout.

    The public id of a session (`session_id`, the `sid` claim) identifies it for callers with an API key.
    """

    async def create(self, tenant_id: TenantId, secret: str, session: SsoSession, idle_seconds: int) -> None:
        """Store a session with an idle timeout."""
        fields: dict[str, str] = {
            "id": session.session_id,
            "user": session.user_id,
            "auth": str(session.auth_instant),
            "type": session.authentication_type,
            "persistent": str(int(session.is_persistent)),
            "second": session.second_factor,
            "realm": session.realm,
            **({} if session.start_instant is None else {"start": str(session.start_instant)}),
            **({"provider": session.provider_session} if session.provider_session else {}),
            **{_CLIENT + client_id: "1" for client_id in session.client_ids},
        }
        await self._touch(tenant_id, secret, idle_seconds, *itertools.chain.from_iterable(fields.items()))

    def seal_provider_session(self, session_id: str, document: Document) -> str:
        """The sealed form of what a logout at the identity provider of a session needs."""
        return self._seal(document, _provider_context(session_id))

    def open_provider_session(self, session: SsoSession) -> Document | None:
        """What a logout at the identity provider of a session needs; None without one, or without its master key."""
        if not session.provider_session:
            return None
        try:
            return self._unseal(session.provider_session, _provider_context(session.session_id))
        except StartupError:
            return None

    async def touch(self, tenant_id: TenantId, secret: str, idle_seconds: int) -> SsoSession | None:
        """The session with this secret; restarts its idle timeout."""
        return _session(await self._touch(tenant_id, secret, idle_seconds))

    async def find(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """The session with this secret; the idle timeout continues."""
        fields: Any = self._redis.client.hgetall(self._key(tenant_id, secret))
        return _session(await fields)

    async def find_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """The session with this id, with its remaining time; the idle timeout continues."""
        hashed_secret = await self._hashed_secret(tenant_id, session_id)
        if hashed_secret is None:
            return None
        user_id: Any = self._redis.client.hget(self._prefix(tenant_id) + hashed_secret, "user")
        sessions = await self.find_of_user(tenant_id, UserId(await user_id or ""))
        return next((session for session in sessions if session.session_id == session_id), None)

    async def end_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """End the session with this id and return it."""
        hashed_secret = await self._hashed_secret(tenant_id, session_id)
        return None if hashed_secret is None else await self._end_hashed(tenant_id, hashed_secret)

    async def add_client(self, tenant_id: TenantId, secret: str, client_id: str) -> None:
        """Record that an application participates, so that a logout can notify it."""
        await self._redis.run("session_add_client", [self._key(tenant_id, secret)], _CLIENT + client_id)

    async def end(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """End the session with this secret and return it."""
        return await self._end_hashed(tenant_id, fingerprint(secret))

    async def end_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """End all sessions of a user and return them, atomically, so that no session created meanwhile remains."""
        return await self._list_of_user(tenant_id, user_id, "end")

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """All sessions of a user; their idle timeouts continue."""
        return await self._list_of_user(tenant_id, user_id, "find")

    async def _list_of_user(self, tenant_id: TenantId, user_id: UserId, mode: str) -> list[SsoSession]:
        keys, args = [self._users(tenant_id) + user_id], (self._prefix(tenant_id), mode, self._ids(tenant_id))
        found = await self._redis.run("session_find_of_user", keys, *args)
        return [session for flat in found if (session := _session(_pairs(flat))) is not None]

    async def _touch(self, tenant_id: TenantId, secret: str, idle_seconds: int, *fields: str) -> dict[str, str]:
        keys, prefixes = (
            [self._key(tenant_id, secret)],
            (self._users(tenant_id), fingerprint(secret), self._ids(tenant_id)),
        )
        return _pairs(await self._redis.run("session_touch", keys, idle_seconds, *prefixes, *fields))

    async def _hashed_secret(self, tenant_id: TenantId, session_id: str) -> str | None:
        found = await self._redis.client.get(self._ids(tenant_id) + session_id)
        return None if found is None else str(found)

    async def _end_hashed(self, tenant_id: TenantId, hashed_secret: str) -> SsoSession | None:
        keys, args = [self._prefix(tenant_id) + hashed_secret], (self._users(tenant_id), hashed_secret)
        return _session(_pairs(await self._redis.run("session_end", keys, *args, self._ids(tenant_id))))

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._prefix(tenant_id) + fingerprint(secret)

    # The hash tag in braces puts a session and the set of its user's sessions on one cluster node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso", f"{{{tenant_id}}}", "")

    def _users(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso-of-user", f"{{{tenant_id}}}", "")

    def _ids(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso-named", f"{{{tenant_id}}}", "")


def _provider_context(session_id: str) -> str:
    return f"sso.provider.{session_id}"


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _session(fields: Mapping[str, str]) -> SsoSession | None:
    if not fields:
        return None
    return SsoSession(
        fields["id"],
        UserId(fields["user"]),
        Instant(int(fields["auth"])),
        fields["type"],
        fields["persistent"] == "1",
        frozenset(name.removeprefix(_CLIENT) for name in fields if name.startswith(_CLIENT)),
        fields.get("second", ""),
        fields.get("realm", ""),
        Instant(int(fields["start"])) if "start" in fields else None,
        fields.get("provider", ""),
        int(fields.get("left", "0")),
    )


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
    """The sessions of administrators; the console belongs to one tenant, that of its application.

    Instants are stored, so that the clock of the service decides about time-outs; the TTL only removes old sessions.
    """

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
