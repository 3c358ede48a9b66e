"""Token bucket with a fake clock."""

from __future__ import annotations

import pytest

from identity.workers.delivery_backlog import TokenBucket


def granted(allowance: TokenBucket, now: float, wanted: int = 1000) -> int:
    """The number of permitted operations among those requested."""
    count = min(wanted, allowance.available(now))
    allowance.consume(count)
    return count


def test_initial_capacity_is_a_quarter_of_a_second():
    assert granted(TokenBucket(100), 0.0) == 25


def test_unused_tokens_remain_available():
    allowance = TokenBucket(100)
    assert [granted(allowance, 0.0, 5), granted(allowance, 0.0)] == [5, 20]


@pytest.mark.requirement("design-state-16")
def test_rate_is_accurate_over_ten_seconds():
    allowance = TokenBucket(200)
    assert 2000 <= sum(granted(allowance, tick / 20) for tick in range(201)) <= 2050


def test_unused_tokens_are_capped():
    allowance = TokenBucket(100)
    assert [granted(allowance, 0.0), granted(allowance, 3600.0)] == [25, 25]


def test_rate_below_one_still_issues_tokens():
    allowance = TokenBucket(1)
    assert [granted(allowance, second / 2) for second in range(5)] == [1, 0, 1, 0, 1]


def test_zero_is_unlimited():
    assert granted(TokenBucket(0), 0.0, 10**6) == 10**6
