"""Turns: who works on the same goes one after the other, and nobody waits for ever."""

from __future__ import annotations

import asyncio

from identity.store.keyed_locks import KeyedLocks

LONG = 20.0


async def test_turns_at_the_same_are_one_after_the_other_and_at_others_are_not() -> None:
    turns, order = KeyedLocks(), []
    await turns.take(1, ["a", "b"], LONG)

    async def second() -> None:
        await turns.take(2, ["b", "c"], LONG)
        order.append("second")

    waiting = asyncio.create_task(second())
    await turns.take(3, ["d"], LONG)
    await asyncio.sleep(0)
    order.append("first")
    turns.give_back(1)
    await waiting
    assert order == ["first", "second"]


async def test_holder_may_take_the_same_again_and_gives_everything_back_at_once() -> None:
    turns = KeyedLocks()
    await turns.take(1, ["a"], LONG)
    await turns.take(1, ["a", "b"], LONG)
    turns.give_back(1)
    turns.give_back(1)
    await turns.take(2, ["a", "b"], LONG)
    assert turns._held[2].keys() == {"a", "b"}


async def test_who_waited_too_long_goes_on_without() -> None:
    turns = KeyedLocks()
    await turns.take(1, ["a"], LONG)
    await turns.take(2, ["a"], 0)
    assert turns._held[2] == {}
    turns.give_back(2)
    turns.give_back(1)
    assert len(turns._locks) == 0
