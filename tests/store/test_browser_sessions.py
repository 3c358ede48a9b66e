"""SSO sessions: lookup by secret, idle timeout, and ending one or all sessions of a user. Sessions of the console."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from identity.ids import TenantId, UserId, fingerprint, new_id, new_secret
from identity.instants import Instant
from identity.store.browser_sessions import ConsoleSession, ConsoleSessions, SsoSession, SsoSessions


@pytest.fixture
def sessions(redis, vault) -> SsoSessions:
    return SsoSessions(redis, vault)


def a_session(user_id: str | None = None) -> SsoSession:
    return SsoSession(new_id(), UserId(user_id or new_id()), Instant(1_700_000_000_123), "PASSWORD", True)


async def begun(sessions: SsoSessions, user_id: str | None = None, tenant_id: str | None = None, idle: int = 60):
    tenant, secret, session = TenantId(tenant_id or new_id()), new_secret(), a_session(user_id)
    await sessions.create(tenant, secret, session, idle)
    return tenant, secret, session


async def test_session_is_found_by_its_secret(sessions):
    tenant_id, secret, session = await begun(sessions)
    assert await sessions.touch(tenant_id, secret, 60) == session
    assert await sessions.touch(tenant_id, new_secret(), 60) is None


async def test_session_stores_its_second_factor(sessions):
    tenant_id, secret = TenantId(new_id()), new_secret()
    session = dataclasses.replace(a_session(), second_factor="authenticator")
    await sessions.create(tenant_id, secret, session, 60)
    assert await sessions.find(tenant_id, secret) == session


@pytest.mark.requirement("design-state-27")
async def test_session_is_unknown_to_another_tenant(sessions):
    tenant_id, secret, session = await begun(sessions)
    other = TenantId(new_id())
    assert await sessions.touch(other, secret, 60) is None
    assert await sessions.end(other, secret) is None
    await sessions.add_client(other, secret, "client")
    await sessions.end_of_user(other, session.user_id)
    assert await sessions.touch(tenant_id, secret, 60) == session


async def test_session_is_found_and_ended_by_its_name(sessions):
    tenant_id, secret, session = await begun(sessions)
    other = TenantId(new_id())
    assert await sessions.find_by_id(other, session.session_id) is None
    assert await sessions.end_by_id(other, session.session_id) is None
    found = await sessions.find_by_id(tenant_id, session.session_id)
    assert found == session and 0 < found.remaining_ms <= 60_000
    assert [one.remaining_ms > 0 for one in await sessions.find_of_user(tenant_id, session.user_id)] == [True]
    assert await sessions.end_by_id(tenant_id, session.session_id) == session
    assert await sessions.find_by_id(tenant_id, session.session_id) is None
    assert await sessions.end_by_id(tenant_id, session.session_id) is None
    assert await sessions.find(tenant_id, secret) is None


async def test_session_id_continues_under_a_new_secret(sessions):
    tenant_id, secret, session = await begun(sessions)
    fresh = new_secret()
    await sessions.create(tenant_id, fresh, session, 60)
    await sessions.end(tenant_id, secret)
    assert await sessions.find_by_id(tenant_id, session.session_id) == session
    await sessions.end_of_user(tenant_id, session.user_id)
    assert await sessions.find_by_id(tenant_id, session.session_id) is None


async def test_session_id_expires_with_the_session(sessions, redis):
    tenant_id, secret, session = await begun(sessions, idle=60)
    name = redis.key("sso-named", f"{{{tenant_id}}}", session.session_id)
    assert 0 < await redis.client.ttl(name) <= 60
    await sessions.touch(tenant_id, secret, 600)
    assert await redis.client.ttl(name) > 60
    assert await redis.client.get(name) == fingerprint(secret) != secret


@pytest.mark.requirement("oauth-1.8-7")
async def test_use_restarts_the_idle_timeout(sessions, redis):
    tenant_id, secret, session = await begun(sessions, idle=60)
    await sessions.touch(tenant_id, secret, 600)
    assert await redis.client.ttl(redis.key("sso", f"{{{tenant_id}}}", fingerprint(secret))) > 60
    assert await redis.client.ttl(redis.key("sso-of-user", f"{{{tenant_id}}}", session.user_id)) > 60


async def test_participating_applications_are_stored(sessions):
    tenant_id, secret, session = await begun(sessions)
    await sessions.add_client(tenant_id, secret, "one")
    await sessions.add_client(tenant_id, secret, "two")
    await sessions.add_client(tenant_id, secret, "two")
    expected = dataclasses.replace(session, client_ids=frozenset({"one", "two"}))
    assert await sessions.touch(tenant_id, secret, 60) == expected


async def test_application_cannot_join_an_ended_session(sessions):
    tenant_id, secret, _ = await begun(sessions)
    await sessions.end(tenant_id, secret)
    await sessions.add_client(tenant_id, secret, "one")
    assert await sessions.touch(tenant_id, secret, 60) is None


async def test_session_is_ended_and_returned_once(sessions):
    tenant_id, secret, session = await begun(sessions)
    assert await sessions.end(tenant_id, secret) == session
    assert await sessions.end(tenant_id, secret) is None
    assert await sessions.touch(tenant_id, secret, 60) is None


async def test_all_sessions_of_a_user_end_and_no_others(sessions):
    tenant_id, one, session = await begun(sessions)
    _, two, _ = await begun(sessions, session.user_id, tenant_id)
    _, others, other = await begun(sessions, None, tenant_id)
    await sessions.end_of_user(tenant_id, session.user_id)
    assert await sessions.touch(tenant_id, one, 60) is None
    assert await sessions.touch(tenant_id, two, 60) is None
    assert await sessions.touch(tenant_id, others, 60) == other


@pytest.mark.requirement("design-core-4")
async def test_redis_keys_contain_no_secret_and_expire(sessions, redis):
    tenant_id, secret, _ = await begun(sessions)
    keys = [key async for key in redis.client.scan_iter(match=f"*{tenant_id}*")]
    assert len(keys) == 3
    for key in keys:
        assert secret not in key
        assert await redis.client.ttl(key) > 0


async def test_ended_sessions_are_removed_from_the_list(sessions, redis):
    tenant_id, _, session = await begun(sessions)
    users = redis.key("sso-of-user", f"{{{tenant_id}}}", session.user_id)
    await redis.client.zadd(users, {f"over {number}": 1_000_000_000 + number for number in range(5)})
    _, secret, _ = await begun(sessions, session.user_id, tenant_id)
    assert await redis.client.zcard(users) == 2
    await sessions.end(tenant_id, secret)
    assert await redis.client.zcard(users) == 1


async def test_used_session_stays_listed_as_long_as_it_lives(sessions, redis):
    tenant_id, secret, session = await begun(sessions, idle=60)
    users = redis.key("sso-of-user", f"{{{tenant_id}}}", session.user_id)
    before = await redis.client.zscore(users, fingerprint(secret))
    await sessions.touch(tenant_id, secret, 600)
    assert await redis.client.zscore(users, fingerprint(secret)) > before
    await begun(sessions, session.user_id, tenant_id)
    await sessions.end_of_user(tenant_id, session.user_id)
    assert await sessions.touch(tenant_id, secret, 60) is None


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


async def test_session_keeps_its_start_and_what_a_logout_at_the_provider_needs(sessions):
    session = a_session()
    document = {"providerId": "a", "idToken": "the-id-token"}
    sealed = sessions.seal_provider_session(session.session_id, document)
    session = dataclasses.replace(session, start_instant=Instant(1_700_000_999_999), provider_session=sealed)
    tenant, secret = TenantId(new_id()), new_secret()
    await sessions.create(tenant, secret, session, 60)
    found = await sessions.find(tenant, secret)
    assert found == session
    assert sessions.open_provider_session(found) == document
    assert "the-id-token" not in sealed
    assert sessions.open_provider_session(dataclasses.replace(found, session_id=new_id())) is None
    assert sessions.open_provider_session(a_session()) is None
    assert await sessions.find(TenantId(new_id()), secret) is None, "another tenant"
