"""The password hashing pool: off the event loop, and bounded."""

from __future__ import annotations

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry

from identity import password_pool as pools
from identity.domain.passwords import password_hashing
from identity.domain.passwords.password_hashing import StoredPassword
from identity.errors import Unavailable
from identity.password_pool import PasswordPool, scheme_problems


@pytest.fixture
def pool():
    pool = PasswordPool(threads=1, registry=CollectorRegistry())
    yield pool
    pool.close()


async def test_password_is_hashed_and_verified(pool):
    stored = await pool.hash("a password", "salted-hmac-sha256", 1)
    assert await pool.verify("a password", stored)
    assert not await pool.verify("another", stored)


@pytest.mark.requirement("attack-45", "design-state-10")
async def test_attack_45_hashing_leaves_the_event_loop(pool, monkeypatch):
    threads = []
    genuine = password_hashing.verify
    monkeypatch.setattr(
        password_hashing, "verify", lambda *given: threads.append(threading.current_thread()) or genuine(*given)
    )
    await pool.verify("x", await pool.hash("x", "salted-hmac-sha256", 1))
    assert threads and threading.main_thread() not in threads


@pytest.mark.requirement("attack-45")
async def test_attack_45_an_enormous_password_is_never_hashed(pool, monkeypatch):
    stored = await pool.hash("a password", "salted-hmac-sha256", 1)
    seen = []
    genuine = password_hashing.verify
    monkeypatch.setattr(
        password_hashing, "verify", lambda password, kept: seen.append(password) or genuine(password, kept)
    )
    assert not await pool.verify("x" * 2**20, stored)
    assert not await pool.verify("ä" * (pools.MAXIMUM_BYTES - 1), stored)
    assert seen == ["", ""], "but it costs the same as any wrong one"
    with pytest.raises(ValueError, match="longer than any rule allows"):
        await pool.hash("x" * 2**20, "salted-hmac-sha256", 1)


@pytest.mark.requirement("attack-45", "core-3-12", "design-state-10")
async def test_attack_45_queue_of_callers_is_bounded(pool, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(password_hashing, "verify", lambda *given: free.wait(30))
    stored = await pool.hash("x", "salted-hmac-sha256", 1)
    waiting = [asyncio.ensure_future(pool.verify("x", stored)) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await pool.verify("x", stored)
    free.set()
    assert all(await asyncio.gather(*waiting))
    assert await pool.verify("x", stored), "and later there is room again"


@pytest.mark.requirement("deploy-chart")
async def test_length_of_the_queue_is_a_metric(monkeypatch):
    free, registry = threading.Event(), CollectorRegistry()
    monkeypatch.setattr(password_hashing, "verify", lambda *given: free.wait(30))
    pool = PasswordPool(threads=1, registry=registry)
    stored = await pool.hash("x", "salted-hmac-sha256", 1)
    logins = [asyncio.ensure_future(pool.verify("x", stored)) for _ in range(5)]
    await asyncio.sleep(0)
    assert registry.get_sample_value("identity_password_queue_length") == 4  # and one has the thread
    free.set()
    await asyncio.gather(*logins)
    assert registry.get_sample_value("identity_password_queue_length") == 0
    pool.close()


async def test_queue_of_one_tenant_leaves_room_for_others(pool, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(password_hashing, "verify", lambda *given: free.wait(30))
    stored = await pool.hash("x", "salted-hmac-sha256", 1)
    waiting = [asyncio.ensure_future(pool.verify("x", stored, tenant_id="busy")) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await pool.verify("x", stored, tenant_id="busy")
    waiting.append(asyncio.ensure_future(pool.verify("x", stored, tenant_id="other")))
    await asyncio.sleep(0)
    free.set()
    assert all(await asyncio.gather(*waiting))


@pytest.mark.requirement("attack-45")
async def test_tenants_take_turns(pool, monkeypatch):
    """Otherwise the logins of one tenant would wait for all those of another."""
    free, order = threading.Event(), []

    def verify(password, _stored):
        free.wait(30)
        order.append(password)
        return True

    stored = await pool.hash("x", "salted-hmac-sha256", 1)
    monkeypatch.setattr(password_hashing, "verify", verify)
    wanted = [("busy", f"busy {number}") for number in range(6)] + [("other", "other 0"), ("other", "other 1")]
    waiting = []
    for tenant_id, password in wanted:
        waiting.append(asyncio.ensure_future(pool.verify(password, stored, tenant_id=tenant_id)))
        await asyncio.sleep(0)
    waiting[3].cancel()
    free.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["busy 0", "busy 1", "other 0", "busy 2", "other 1", "busy 4", "busy 5"]


async def test_slow_hashes_leave_half_of_the_threads_to_others(monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(password_hashing, "verify", lambda password, _stored: password == "fast" or free.wait(30))
    pool = PasswordPool(threads=2, registry=CollectorRegistry())
    slow = [
        asyncio.ensure_future(pool.verify("slow", StoredPassword("bcrypt", 16, "", ""), tenant_id=f"tenant {number}"))
        for number in range(4)
    ]
    await asyncio.sleep(0)
    try:
        for _ in range(3):
            assert await pool.verify("fast", StoredPassword("argon2id", 2, "", ""), tenant_id="tenant 0")
        assert not any(task.done() for task in slow)
    finally:
        free.set()
        assert all(await asyncio.gather(*slow))
        pool.close()


async def test_password_is_not_wrong_if_no_thread_can_be_started(pool, monkeypatch):
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stored = password_hashing.hash_password("x", "salted-hmac-sha256", 1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(Unavailable):
            await pool.verify("x", stored)
    assert await pool.verify("x", stored)


@pytest.mark.requirement("attack-44")
async def test_attack_44_unknown_user_costs_a_verification_under_the_same_scheme(pool, monkeypatch):
    seen = []
    genuine = password_hashing.verify
    monkeypatch.setattr(password_hashing, "verify", lambda *given: seen.append(given) or genuine(*given))
    for _ in range(2):
        await pool.verify_decoy("whatever", "salted-pbkdf2-hmac-sha256", 1000)
    assert [(password, stored.scheme, stored.factor) for password, stored in seen] == [
        ("whatever", "salted-pbkdf2-hmac-sha256", 1000)
    ] * 2


@pytest.mark.parametrize(
    ("scheme", "factor", "expected"),
    [
        ("argon2id", 2, []),
        ("plain", 1, ["[invalid]x.encryptionScheme"]),
        ("bcrypt", 24_000, ["[invalid]x.encryptionSchemeFactor"]),
    ],
)
def test_scheme_of_a_tenant_is_validated(scheme, factor, expected):
    configuration = {"encryptionScheme": scheme, "encryptionSchemeFactor": factor}
    assert [error.code for error in scheme_problems(configuration, "x")] == expected


async def test_memory_is_released_when_idle(pool, monkeypatch):
    given_back, loop = asyncio.Event(), asyncio.get_running_loop()

    def give_back(really=pools._give_memory_back):
        really()
        loop.call_soon_threadsafe(given_back.set)

    monkeypatch.setattr(pools, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(pools, "_give_memory_back", give_back)
    await pool.hash("a password", "salted-md5", 1)
    async with asyncio.timeout(20):
        await given_back.wait()
