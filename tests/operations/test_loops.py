"""Background loops survive exceptions and stop on request, also if a cancellation is lost."""

from __future__ import annotations

import asyncio
import contextlib

from identity import background_tasks


async def test_failed_loop_is_restarted(monkeypatch) -> None:
    monkeypatch.setattr(background_tasks, "_RESTART_SECONDS", 0)
    runs = asyncio.Queue[int]()

    async def loop() -> None:
        runs.put_nowait(1)
        raise LookupError("a surprise")

    task = background_tasks.start("surprised", loop)
    for _ in range(3):
        await asyncio.wait_for(runs.get(), 10)
    await background_tasks.end([task])
    assert task.cancelled()


async def test_loop_that_swallows_a_cancellation_is_ended() -> None:
    swallowed = 0

    async def loop() -> None:
        nonlocal swallowed
        while swallowed < 2:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            swallowed += 1
        await asyncio.sleep(3600)

    task = background_tasks.start("deaf", loop)
    await asyncio.sleep(0)
    await asyncio.wait_for(background_tasks.end([task]), 10)
    assert task.done()
    assert swallowed == 2


async def test_background_work_is_awaited_at_shutdown() -> None:
    background, gate, finished = background_tasks.BackgroundWork(), asyncio.Event(), []

    async def work(name: str) -> None:
        await gate.wait()
        if name == "fails":
            raise LookupError("a surprise")
        finished.append(name)

    for name in ("first", "fails", "last"):
        await background.begin(name, work(name))
    gate.set()
    await asyncio.wait_for(background.finish(), 10)
    assert finished == ["first", "last"]


async def test_background_work_beyond_the_limit_is_queued() -> None:
    background, gate, finished = background_tasks.BackgroundWork(max_concurrency=2), asyncio.Event(), []

    async def work(name: str) -> None:
        await gate.wait()
        finished.append(name)

    for name in ("first", "second"):
        await background.begin(name, work(name))
    given_up = asyncio.create_task(background.begin("given up", work("given up")))
    waiting = asyncio.create_task(background.begin("third", work("third")))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert not waiting.done()
    gate.set()
    await asyncio.wait_for(waiting, 10)
    await asyncio.wait_for(background.finish(), 10)
    assert finished == ["first", "second", "third"]
