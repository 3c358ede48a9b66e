"""Lifetime of refresh tokens by application policy."""

from __future__ import annotations

import pytest

from identity.domain.clients.refresh_tokens import RefreshTokenPolicy
from identity.instants import Instant


@pytest.mark.parametrize(
    ("expiration", "ends"),
    [("Fixed", 160_000), ("SlidingWindow", 160_000), ("SlidingWindowWithMaximumLifetime", 90_000)],
)
def test_sliding_lifetime_is_bounded_by_the_maximum_lifetime(expiration: str, ends: int) -> None:
    policy = RefreshTokenPolicy(60, 90, expiration, is_one_time=False, grace_seconds=0)
    assert policy.expires(Instant(0), Instant(100_000)) == ends
    assert policy.expires(Instant(0), Instant(0)) == 60_000
