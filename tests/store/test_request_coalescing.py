"""Request coalescing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from identity.store.request_coalescing import RequestCoalescer


class Doubling:
    """Returns the double of each number, once it is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.has_started = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def do(self, numbers: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(numbers))
        self.has_started.set()
        await self.may_answer.wait()
        if 13 in numbers:
            raise ConnectionError("away")
        return [2 * number for number in numbers]


async def submit_all(coalescer: RequestCoalescer[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    """Callers in this order, each of which has submitted its request."""
    tasks = [asyncio.create_task(coalescer.submit(number)) for number in numbers]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_requests_during_a_batch_are_in_the_next_one() -> None:
    doubling = Doubling()
    coalescer = RequestCoalescer(doubling.do)
    first = await submit_all(coalescer, 1)
    await doubling.has_started.wait()
    later = await submit_all(coalescer, 2, 3)
    assert doubling.batches == [[1]]
    doubling.may_answer.set()
    assert await asyncio.gather(*first, *later) == [2, 4, 6]
    assert doubling.batches == [[1], [2, 3]]


async def test_requests_that_become_ready_before_the_first_batch_starts_join_it() -> None:
    doubling = Doubling()
    coalescer = RequestCoalescer(doubling.do)
    # Each of them is submitted a few iterations of the event loop after the one before.
    tasks = [*await submit_all(coalescer, 1), *await submit_all(coalescer, 2)]
    doubling.may_answer.set()
    assert await asyncio.gather(*tasks) == [2, 4]
    assert doubling.batches == [[1, 2]]


async def test_batch_size_is_limited() -> None:
    doubling = Doubling()
    coalescer = RequestCoalescer(doubling.do, max_batch=2)
    first = await submit_all(coalescer, 1)
    await doubling.has_started.wait()
    tasks = [*first, *await submit_all(coalescer, 2, 3, 4)]
    doubling.may_answer.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert doubling.batches == [[1], [2, 3], [4]]


async def test_failure_affects_only_its_batch() -> None:
    doubling = Doubling()
    coalescer = RequestCoalescer(doubling.do)
    first = await submit_all(coalescer, 1)
    await doubling.has_started.wait()
    failing = await submit_all(coalescer, 13, 2)
    doubling.may_answer.set()
    assert await asyncio.gather(*first) == [2]
    found = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(failure) for failure in found] == [ConnectionError] * 2
    assert await coalescer.submit(4) == 8


async def test_cancelled_caller_does_not_cancel_the_shared_load() -> None:
    doubling = Doubling()
    coalescer = RequestCoalescer(doubling.do)
    leaving, staying = [*await submit_all(coalescer, 1), *await submit_all(coalescer, 2)]
    leaving.cancel()
    doubling.may_answer.set()
    assert await staying == 4
    with pytest.raises(asyncio.CancelledError):
        await leaving
