"""Keyed locks: owners of the same key are serialised, with a timeout."""

from __future__ import annotations

import asyncio

from identity.store.mongo import KeyedLocks

LONG = 20.0


async def test_locks_serialise_owners_of_the_same_key_only() -> None:
    locks, order = KeyedLocks(), []
    await locks.acquire(1, ["a", "b"], LONG)

    async def second() -> None:
        await locks.acquire(2, ["b", "c"], LONG)
        order.append("second")

    waiting = asyncio.create_task(second())
    await locks.acquire(3, ["d"], LONG)
    await asyncio.sleep(0)
    order.append("first")
    locks.release(1)
    await waiting
    assert order == ["first", "second"]


async def test_owner_can_reacquire_keys_and_releases_all_at_once() -> None:
    locks = KeyedLocks()
    await locks.acquire(1, ["a"], LONG)
    await locks.acquire(1, ["a", "b"], LONG)
    locks.release(1)
    locks.release(1)
    await locks.acquire(2, ["a", "b"], LONG)
    assert locks._held[2].keys() == {"a", "b"}


async def test_owner_continues_without_the_lock_after_the_timeout() -> None:
    locks = KeyedLocks()
    await locks.acquire(1, ["a"], LONG)
    await locks.acquire(2, ["a"], 0)
    assert locks._held[2] == {}
    locks.release(2)
    locks.release(1)
    assert len(locks._locks) == 0
