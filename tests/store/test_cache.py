"""The document cache: lifetime, size, and values that are never cached."""

from __future__ import annotations

import asyncio
import time

import pytest
from pymongo.errors import AutoReconnect

from identity.store import cache
from identity.store.cache import Cache, ChangeStreamStatus, stale_if_unavailable


class Source:
    """The source of cached values; counts its loads."""

    def __init__(self) -> None:
        self.value: str | None = "first"
        self.asked = 0

    async def load(self) -> str | None:
        self.asked += 1
        return self.value

    async def was_asked(self, times: int) -> None:
        while self.asked < times:
            await asyncio.sleep(0)


@pytest.fixture
def stream_status() -> ChangeStreamStatus:
    return ChangeStreamStatus()


@pytest.mark.requirement("design-state-12")
async def test_entry_lives_for_a_second_while_the_change_stream_is_down(stream_status, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(cache.time, "monotonic", lambda: now)
    source, remembered = Source(), Cache[str](10, stream_status)
    stream_status.is_streaming = True
    await remembered.get("a", source.load)
    now += 3600
    assert await remembered.get("a", source.load) == "first"
    assert source.asked == 1
    stream_status.is_streaming, source.value = False, "second"
    assert await remembered.get("a", source.load) == "second"
    now += cache.STREAM_DOWN_SECONDS
    assert await remembered.get("a", source.load) == "second"
    assert source.asked == 2
    now += 0.001
    await remembered.get("a", source.load)
    assert source.asked == 3


@pytest.mark.requirement("design-state-12")
async def test_value_invalidated_during_its_load_is_returned_but_not_cached(stream_status):
    remembered, begun, go_on = Cache[str](10, stream_status), asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "old"

    reading = asyncio.create_task(remembered.get("a", slow))
    await begun.wait()
    remembered.drop("a")
    go_on.set()
    assert await reading == "old"
    assert remembered.peek("a") is None


async def test_concurrent_misses_share_one_load(stream_status):
    source, remembered, go_on = Source(), Cache[str](10, stream_status), asyncio.Event()

    async def slow() -> str | None:
        found = await source.load()
        await go_on.wait()
        return found

    readers = [asyncio.create_task(remembered.get("a", slow)) for _ in range(64)]
    other = asyncio.create_task(remembered.get("b", slow))
    await source.was_asked(2)
    readers.pop(0).cancel()  # the one that began
    go_on.set()
    assert await asyncio.gather(*readers, other) == ["first"] * 64
    assert source.asked == 2
    assert [remembered.peek(key) for key in "ab"] == ["first", "first"]


@pytest.mark.parametrize("forget", [lambda cached: cached.drop("a"), lambda cached: cached.clear()])
async def test_caller_after_an_invalidation_starts_a_new_load(stream_status, forget):
    source, remembered, go_on = Source(), Cache[str](10, stream_status), asyncio.Event()

    async def slow() -> str | None:
        found = await source.load()
        await go_on.wait()
        return found

    before = asyncio.create_task(remembered.get("a", slow))
    await source.was_asked(1)
    source.value = "second"
    forget(remembered)
    after = asyncio.create_task(remembered.get("a", slow))
    await source.was_asked(2)
    go_on.set()
    assert await asyncio.gather(before, after) == ["first", "second"]
    assert remembered.peek("a") == "second"


async def test_failed_load_fails_all_its_callers_and_is_repeated(stream_status):
    source, remembered = Source(), Cache[str](10, stream_status)

    async def broken() -> str:
        await asyncio.sleep(0)
        raise ConnectionError

    failures = await asyncio.gather(*(remembered.get("a", broken) for _ in range(3)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [ConnectionError] * 3
    assert await remembered.get("a", source.load) == "first"


@pytest.mark.parametrize(
    ("forget", "is_cached"),
    [(lambda cached: None, True), (lambda cached: cached.drop("a"), False), (lambda cached: cached.clear(), False)],
)
async def test_value_loaded_without_its_key_is_cached_unless_anything_was_invalidated(stream_status, forget, is_cached):
    remembered = Cache[str](10, stream_status)
    version = remembered.version()
    forget(remembered)
    remembered.put_loaded("a", "first", version)
    assert remembered.peek("a") == ("first" if is_cached else None)


async def test_missing_value_is_not_cached(stream_status):
    source, remembered = Source(), Cache[str](10, stream_status)
    source.value = None
    assert await remembered.get("a", source.load) is None
    source.value = "there now"
    assert await remembered.get("a", source.load) == "there now"


async def test_least_recently_used_entry_is_evicted(stream_status):
    source, remembered = Source(), Cache[str](2, stream_status)
    for key in ("a", "b"):
        await remembered.get(key, source.load)
    remembered.peek("a")
    await remembered.get("c", source.load)
    assert [remembered.peek(key) for key in "abc"] == ["first", None, "first"]
    remembered.clear()
    assert len(remembered) == 0


# Stale values


async def away() -> str:
    raise AutoReconnect("away")


async def hangs() -> str:
    await asyncio.sleep(3600)
    return "late"


@pytest.mark.requirement("audit-d5")
@pytest.mark.parametrize("load", [away, hangs])
@pytest.mark.parametrize("loss", ["drop", "clear"])
async def test_stale_value_is_served_only_within_the_block_during_an_outage(stream_status, monkeypatch, load, loss):
    monkeypatch.setattr(cache, "STALE_WAIT_SECONDS", 0.01)
    stream_status.is_streaming = True
    kept, plain = Cache[str](10, stream_status, keeps_stale=True), Cache[str](10, stream_status)
    source = Source()
    for each in (kept, plain):
        await each.get("a", source.load)
        each.drop("a") if loss == "drop" else each.clear()
    with stale_if_unavailable():
        assert await kept.get("a", load) == "first"
    if load is away:
        with pytest.raises(AutoReconnect):
            await kept.get("a", load)
        with pytest.raises(AutoReconnect), stale_if_unavailable():
            await plain.get("a", load)
        with pytest.raises(AutoReconnect), stale_if_unavailable():
            await kept.get("b", load)
    for task in (*kept._loading.values(), *plain._loading.values()):
        task.cancel()


@pytest.mark.requirement("audit-d5")
async def test_slow_read_is_waited_for_while_the_store_answers_others(monkeypatch):
    monkeypatch.setattr(cache, "STALE_WAIT_SECONDS", 0.01)
    stream_status = cache.ChangeStreamStatus(time.monotonic)
    stream_status.is_streaming = True
    kept, source = Cache[str](10, stream_status, keeps_stale=True), Source()
    await kept.get("a", source.load)
    kept.drop("a")

    async def slow() -> str:
        await asyncio.sleep(0.1)
        return "second"

    with stale_if_unavailable():
        assert await kept.get("a", slow) == "second"


@pytest.mark.requirement("audit-d5")
async def test_deleted_value_is_not_served_as_stale(stream_status):
    stream_status.is_streaming = True
    kept, source = Cache[str](10, stream_status, keeps_stale=True), Source()
    await kept.get("a", source.load)
    kept.drop("a")
    with stale_if_unavailable():
        source.value = "second"
        assert await kept.get("a", source.load) == "second"
        kept.drop("a")
        source.value = None
        assert await kept.get("a", source.load) is None
        with pytest.raises(AutoReconnect):
            await kept.get("a", away)


async def test_stale_values_are_bounded(stream_status, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(cache.time, "monotonic", lambda: now)
    kept, source = Cache[str](2, stream_status, keeps_stale=True), Source()
    await kept.get("a", source.load)
    now += cache.STREAM_DOWN_SECONDS + 0.001
    with stale_if_unavailable():
        assert await kept.get("a", away) == "first"
    for key in ("b", "c", "d"):
        await kept.get(key, source.load)
        kept.drop(key)
    with stale_if_unavailable():
        assert await kept.get("d", away) == "first"
        with pytest.raises(AutoReconnect):
            await kept.get("a", away)
