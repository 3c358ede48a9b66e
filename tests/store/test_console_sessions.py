"""Sessions of the console in Redis."""

from __future__ import annotations

import dataclasses
from typing import Any

from identity.ids import TenantId, UserId, new_id, new_secret
from identity.instants import Instant
from identity.store.console_sessions import ConsoleSession, ConsoleSessions

TENANT, OTHER = TenantId(new_id()), TenantId(new_id())
SESSION = ConsoleSession(UserId(new_id()), Instant(1), Instant(2), Instant(3), "sso")


async def test_session_is_found_touched_and_ended_by_its_secret_alone(redis: Any) -> None:
    sessions, secret = ConsoleSessions(redis), new_secret()
    await sessions.create(TENANT, secret, SESSION, 60)
    await sessions.touch(TENANT, secret, Instant(9))
    assert await sessions.find(TENANT, secret) == dataclasses.replace(SESSION, used=Instant(9))
    assert await sessions.find(TENANT, new_secret()) is None
    await sessions.end(TENANT, secret)
    await sessions.touch(TENANT, secret, Instant(10))
    assert await sessions.find(TENANT, secret) is None


async def test_session_is_unknown_in_another_tenant(redis: Any) -> None:
    sessions, secret = ConsoleSessions(redis), new_secret()
    await sessions.create(TENANT, secret, SESSION, 60)
    assert await sessions.find(OTHER, secret) is None
    await sessions.touch(OTHER, secret, Instant(9))
    await sessions.end(OTHER, secret)
    assert await sessions.find(TENANT, secret) == SESSION


async def test_secret_is_not_stored(redis: Any) -> None:
    sessions, secret = ConsoleSessions(redis), new_secret()
    await sessions.create(TENANT, secret, SESSION, 60)
    keys = [key async for key in redis.client.scan_iter("*")]
    assert keys
    assert not [key for key in keys if secret in key]
