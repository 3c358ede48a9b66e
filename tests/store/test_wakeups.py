"""Wake-ups between processes, and during an outage of Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from identity.ids import new_id
from identity.store import wakeups as wakeups_module
from identity.store.redis import Redis
from identity.store.wakeups import Wakeups
from tests.receiver import until


@pytest.fixture
async def pair(stores: Any) -> AsyncIterator[tuple[Wakeups, Wakeups]]:
    """The wake-ups of two processes of one instance."""
    prefix = f"test-{new_id()}"
    redises = [Redis(stores.redis_url, prefix) for _ in range(2)]
    one, other = (Wakeups(redis) for redis in redises)
    for wakeups in (one, other):
        await wakeups.start()
    yield one, other
    for wakeups in (one, other):
        await wakeups.stop()
    for redis in redises:
        await redis.close()


async def is_woken(one: Wakeups, other: Wakeups) -> None:
    """Notify until the other process receives it: its subscription may still be pending."""
    other.awake.clear()

    def woken() -> bool:
        one.notify()
        return other.awake.is_set()

    await until(woken)


async def test_notification_reaches_the_own_process_at_once(pair: tuple[Wakeups, Wakeups]) -> None:
    one, _ = pair
    one.awake.clear()
    one.notify()
    assert one.awake.is_set()


async def test_notification_reaches_the_other_process(pair: tuple[Wakeups, Wakeups]) -> None:
    one, other = pair
    await is_woken(one, other)
    await is_woken(other, one)


@pytest.mark.requirement("design-core-6")
async def test_listener_comes_back_after_redis_cut_it_off(pair: tuple[Wakeups, Wakeups], stores: Any) -> None:
    one, other = pair
    await is_woken(one, other)
    redis = Redis(stores.redis_url, "killer")
    await redis.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    await redis.close()
    await is_woken(one, other)


async def test_notifying_process_ignores_its_own_message(
    pair: tuple[Wakeups, Wakeups], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is working already; otherwise each query for work would be followed by an unnecessary one."""
    one, other = pair
    monkeypatch.setattr(wakeups_module, "_MAX_REMOTE_DELAY_SECONDS", 0.0)
    words, received = [one._own_id, one._own_id, other._own_id], 0

    class Channel:
        """A subscription that delivers these messages and then nothing."""

        async def subscribe(self, _name: str) -> None: ...

        async def get_message(self, **_options: Any) -> dict[str, str]:
            nonlocal received
            if not words:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            if words[0] == other._own_id:
                assert not one.awake.is_set()
            received += 1
            return {"data": words.pop(0)}

    await one.stop()
    one.awake.clear()
    channel = contextlib.nullcontext(Channel())
    monkeypatch.setattr(one._redis.client, "pubsub", lambda **_options: channel)
    listening = asyncio.create_task(one._listen())
    await until(lambda: one.awake.is_set() or listening.done())
    listening.cancel()
    assert received == 3


@pytest.mark.requirement("design-state-20", "design-state-7")
async def test_redis_outage_only_delays_wakeups(pair: tuple[Wakeups, Wakeups], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair
    await is_woken(one, other)
    monkeypatch.setattr(wakeups_module, "_RETRY_SECONDS", 0.01)
    attempts = 0

    async def away(*_arguments: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise RedisConnectionError

    with monkeypatch.context() as outage:
        outage.setattr(one._redis.client, "publish", away)
        one.notify()
        await until(lambda: attempts)
        assert one.awake.is_set()
    await is_woken(one, other)
