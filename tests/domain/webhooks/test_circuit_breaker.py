"""The circuit breaker with a fake clock."""

from __future__ import annotations

import pytest

from identity.domain.webhooks.circuit_breaker import BreakerSettings, CircuitBreaker
from identity.domain.webhooks.webhook_health import percent

RULES = BreakerSettings(failure_ratio=0.7, minimum_attempts=10, window_seconds=300, pause_seconds=30)


def after(outcomes: str, rules: BreakerSettings = RULES, every: float = 1.0) -> CircuitBreaker:
    """A breaker after these outcomes, `s` or `f`, one every `every` seconds."""
    breaker = CircuitBreaker(rules)
    for index, outcome in enumerate(outcomes):
        breaker.note(index * every, success=outcome == "s")
    return breaker


@pytest.mark.requirement("webhooks-15.2-5", "webhooks-15.3-30")
@pytest.mark.parametrize(
    ("outcomes", "is_open"),
    [
        ("", False),
        ("fffffffff", False),
        ("ffffffffff", True),
        ("sssfffffff", True),
        ("ssssffffff", False),
        ("s" * 90 + "f" * 10, False),
    ],
)
def test_breaker_opens_after_enough_failures(outcomes, is_open):
    assert after(outcomes).is_open is is_open


def test_old_attempts_do_not_count():
    assert not after("ffffffffff", every=40).is_open
    assert after("ffffffffff", every=30).is_open


def test_disabled_breaker_never_opens():
    assert not after("f" * 100, BreakerSettings(minimum_attempts=0)).is_open


def test_closed_breaker_permits_all_attempts():
    assert CircuitBreaker(RULES).room(0, held=5) is None


@pytest.mark.requirement("webhooks-15.3-30")
def test_open_breaker_permits_one_probe_after_the_pause():
    breaker = after("ffffffffff")
    opened = 9.0
    assert breaker.room(opened + 29, held=0) == 0
    assert breaker.room(opened + 30, held=0) == 1
    assert breaker.room(opened + 30, held=1) == 0


def test_failed_probe_restarts_the_pause():
    breaker = after("ffffffffff")
    breaker.note(40, success=False)
    assert breaker.is_open
    assert (breaker.room(69, held=0), breaker.room(70, held=0)) == (0, 1)


def test_successful_probe_resets_the_breaker():
    breaker = after("ffffffffff")
    breaker.note(40, success=True)
    assert (breaker.is_open, breaker.room(40, held=7)) == (False, None)
    breaker.note(41, success=False)
    assert not breaker.is_open


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, 0), (49, 0), (50, 50), (69, 50), (70, 70), (90, 90), (99, 90), (100, 100), (500, 100)]
)
def test_health_thresholds_precede_disabling(seconds, expected):
    assert percent(seconds, 100) == expected
    assert percent(seconds, 0) == 0
