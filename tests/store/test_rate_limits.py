"""Rate limits: attempts, subjects, periods, and concurrent attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.errors import Unavailable
from identity.ids import new_id
from identity.store.rate_limits import Limit, RateLimits
from identity.store.redis import Redis

ONE, OTHER = new_id(), new_id()


@pytest.fixture
async def redis(stores: Any) -> AsyncIterator[Redis]:
    found = Redis(stores.redis_url, f"test-{new_id()}")
    yield found
    await found.close()


@pytest.fixture
def limits(redis: Redis) -> RateLimits:
    return RateLimits(redis)


async def test_attempt_beyond_the_limit_is_rejected_with_the_time_to_wait(limits: RateLimits) -> None:
    wanted = [Limit("login", "ann", 2, 60)]
    assert [await limits.consume(ONE, wanted) for _ in range(2)] == [None, None]
    wait = await limits.consume(ONE, wanted)
    assert wait is not None and 0 < wait <= 60
    assert await limits.consume(OTHER, wanted) is None
    assert await limits.consume(ONE, [Limit("login", "bob", 2, 60)]) is None
    assert await limits.consume(ONE, [Limit("reset", "ann", 2, 60)]) is None


async def test_rejected_attempts_do_not_extend_the_wait(limits: RateLimits, redis: Redis) -> None:
    wanted = [Limit("login", "ann", 1, 60)]
    for _ in range(5):
        await limits.consume(ONE, wanted)
    (key,) = await redis.client.keys(redis.key("limit", "*"))
    assert await redis.client.get(key) == "1"
    assert "ann" not in key
    await redis.client.delete(key)
    assert await limits.consume(ONE, wanted) is None


async def test_attempt_rejected_by_one_limit_does_not_count_for_another(limits: RateLimits) -> None:
    account, address = Limit("account", "ann", 2, 60), Limit("address", "192.0.2.1", 1, 60)
    assert await limits.consume(ONE, [account, address]) is None
    assert await limits.consume(ONE, [account, address]) is not None
    assert await limits.consume(ONE, [account]) is None
    assert await limits.consume(ONE, [account]) is not None


async def test_refunded_attempt_can_be_used_again(limits: RateLimits, redis: Redis) -> None:
    wanted = [Limit("login", "ann", 1, 60)]
    await limits.refund(ONE, wanted)
    assert await redis.client.keys(redis.key("limit", "*")) == []
    assert await limits.consume(ONE, wanted) is None
    await limits.refund(OTHER, wanted)
    assert await limits.consume(ONE, wanted) is not None
    await limits.refund(ONE, wanted)
    assert await limits.consume(ONE, wanted) is None


async def test_only_failed_blocks_count_as_attempts(limits: RateLimits) -> None:
    wanted = [Limit("login", "ann", 1, 60)]
    for _ in range(3):
        async with limits.attempt(ONE, wanted, "Too many codes."):
            pass
    with pytest.raises(ValueError, match="wrong"):
        async with limits.attempt(ONE, wanted, "Too many codes."):
            raise ValueError("wrong")
    with pytest.raises(Unavailable, match=r"^Too many codes\. Try again in \d+ seconds\.$"):
        async with limits.attempt(ONE, wanted, "Too many codes."):
            pytest.fail("the block of a rejected attempt runs")
    async with limits.attempt(OTHER, wanted, "Too many codes."):
        pass


async def test_counters_are_separate_by_tenant(limits: RateLimits) -> None:
    wanted = [Limit("mail", "ann", 1, 60)]
    await limits.count(ONE, wanted, "Too many messages.")
    await limits.count(OTHER, wanted, "Too many messages.")
    with pytest.raises(Unavailable, match="Too many messages"):
        await limits.count(ONE, wanted, "Too many messages.")


@pytest.mark.requirement("design-state-6")
async def test_of_64_attempts_at_once_only_as_many_as_allowed_pass(limits: RateLimits, redis: Redis) -> None:
    wanted = [Limit("login", "ann", 5, 60)]
    waits = await asyncio.gather(*(limits.consume(ONE, wanted) for _ in range(64)))
    assert waits.count(None) == 5
    (key,) = await redis.client.keys(redis.key("limit", "*"))
    assert 0 < await redis.client.ttl(key) <= 60
