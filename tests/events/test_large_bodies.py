"""The bulkhead, and large bodies, which are read within its limits."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

import pytest

from identity.bulkhead import Bulkhead
from identity.events.changes import Event
from identity.store.outbox import MAX_LEASED_BODY_BYTES
from tests.events.samples import PAYLOADS
from tests.receiver import answers, in_turn, receiving

ONE, OTHER = "one", "other"


@dataclasses.dataclass
class Holder:
    """Holds units until released."""

    room: Bulkhead
    owner: str
    size: int

    def __post_init__(self) -> None:
        self.has_it, self.go = False, asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        async with self.room.held(self.owner, self.size):
            self.has_it = True
            await self.go.wait()

    async def let_go(self) -> None:
        self.go.set()
        await self.task
        await _settled()


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def holding(room: Bulkhead, *wanted: tuple[str, int]) -> list[Holder]:
    holders = [Holder(room, *each) for each in wanted]
    await _settled()
    return holders


async def test_held_leases_are_bounded() -> None:
    holders = await holding(Bulkhead(100, 60), (ONE, 40), (OTHER, 50), (OTHER, 10), (ONE, 10))
    assert [each.has_it for each in holders] == [True, True, True, False]
    await holders[1].let_go()
    assert holders[3].has_it


@pytest.mark.requirement("webhooks-15.2-11")
async def test_one_owner_cannot_use_the_whole_bulkhead() -> None:
    holders = await holding(Bulkhead(100, 60), (ONE, 40), (ONE, 30), (OTHER, 50))
    assert [each.has_it for each in holders] == [True, False, True]
    await holders[0].let_go()
    assert holders[1].has_it


async def test_large_first_request_is_not_overtaken() -> None:
    holders = await holding(Bulkhead(100, 100), (ONE, 60), (OTHER, 70), ("third", 10))
    assert [each.has_it for each in holders] == [True, False, False]
    await holders[0].let_go()
    assert [each.has_it for each in holders[1:]] == [True, True]


async def test_last_units_are_reserved_for_owners_with_few() -> None:
    room = Bulkhead(10, 10, reserved=4, reserved_per_owner=2)
    holders = await holding(room, (ONE, 5), (ONE, 2), (OTHER, 1), (OTHER, 1), (OTHER, 1), ("third", 1), ("fourth", 1))
    assert [each.has_it for each in holders] == [True, False, True, True, False, True, True]
    await holders[0].let_go()
    assert [each.has_it for each in holders] == [True, True, True, True, False, True, True]
    await holders[1].let_go()
    assert holders[4].has_it


async def test_hanging_owners_leave_reserved_units_for_another() -> None:
    owners = [f"hanging-{number}" for number in range(5)]
    for wanted in ([each for each in owners for _ in range(4)], owners * 4, owners[::-1] * 4):
        room = Bulkhead(16, 16, reserved=4, reserved_per_owner=2)
        hanging = await holding(room, *((each, 1) for each in wanted))
        assert sum(each.has_it for each in hanging) >= 12
        first, second = await holding(room, (OTHER, 1), (OTHER, 1))
        assert first.has_it
        await first.let_go()
        assert second.has_it
        for each in (*hanging, second):
            each.task.cancel()


async def test_oversized_request_holds_the_bulkhead_alone() -> None:
    room = Bulkhead(100, 60)
    holders = await holding(room, (ONE, 500), (OTHER, 1))
    assert [each.has_it for each in holders] == [True, False]
    await holders[0].let_go()
    assert holders[1].has_it


async def test_cancelled_request_frees_its_units() -> None:
    room = Bulkhead(100, 100)
    holders = await holding(room, (ONE, 100), (OTHER, 100), (OTHER, 100))
    for each in (holders[1], holders[0]):
        each.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await each.task
    await _settled()
    assert (holders[1].has_it, holders[2].has_it) == (False, True)
    await holders[2].let_go()
    (last,) = await holding(room, (ONE, 100))
    assert last.has_it


@pytest.mark.requirement("webhooks-15.2-11")
async def test_large_event_is_complete_at_every_attempt(engine: Any) -> None:
    payload = PAYLOADS["user.create"]
    large = {**payload, "user": {**payload["user"], "data": {"text": "é" * MAX_LEASED_BODY_BYTES}}}
    engine.enable("user.create")
    async with receiving(in_turn(answers(500), answers(200))) as receiver, engine.working():
        engine.add_webhook(receiver.url, "user.create")
        await engine.bus.announce(engine.call(), [Event("user.create", large)])
        await receiver.wait_for(1)
        while await engine.states() != [("due", 1)]:
            await asyncio.sleep(0.02)
        engine.clock.advance(seconds=6)
        engine.wakeups.awake.set()
        first, second = await receiver.wait_for(2)
    assert first.body == second.body
    assert first.event["user"]["data"]["text"] == "é" * MAX_LEASED_BODY_BYTES
