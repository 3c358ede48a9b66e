"""Size of the prefetch window by delivery speed."""

from __future__ import annotations

import pytest

from identity.workers.delivery_leases import PrefetchHorizon, PrefetchWindow


def after(count: int, seconds: float, concurrency: int = 10, maximum: int = 1000) -> PrefetchWindow:
    """A window after deliveries at an even pace, up to this second."""
    window = PrefetchWindow(concurrency, maximum)
    for number in range(1, count + 1):
        window.note(seconds * number / count)
    return window


def test_unknown_receiver_gets_two_rounds():
    assert PrefetchWindow(10, 1000).room(0.0, held=0) == 20


def test_slow_receiver_gets_the_minimum_window():
    assert after(10, 5.0).room(5.0, held=0) == 20


@pytest.mark.requirement("design-state-15")
def test_fast_receiver_gets_half_a_second_of_work():
    assert 145 <= after(3000, 10.0).room(10.0, held=0) <= 155
    assert 95 <= after(2000, 10.0).room(10.0, held=0) <= 105


def test_window_is_at_most_twenty_rounds():
    assert after(100_000, 10.0).room(10.0, held=0) == 200


def test_window_leaves_room_for_others_with_two_rounds_minimum():
    assert after(100_000, 10.0, maximum=100).room(10.0, held=0) == 100
    assert after(100_000, 10.0, maximum=5).room(10.0, held=0) == 20


def test_refill_starts_at_half_the_window():
    window = PrefetchWindow(10, 1000)
    assert [window.room(0.0, held) for held in (20, 11, 10, 9, 0)] == [0, 0, 10, 11, 20]


def test_stopped_receiver_is_reset():
    assert after(4000, 10.0).room(20.0, held=0) == 20


def test_slow_refills_enlarge_the_window():
    assert 390 <= after(2000, 10.0, concurrency=50).room(10.0, held=0, horizon_seconds=2.0) <= 410


def test_window_covers_several_refills_within_bounds():
    ahead = PrefetchHorizon()
    assert ahead.seconds == 0.5
    ahead.note(0.01)
    assert ahead.seconds == 0.5
    for _ in range(20):
        ahead.note(1.0)
    assert 2.9 < ahead.seconds <= 3.0
    for _ in range(20):
        ahead.note(60.0)
    assert ahead.seconds == 5.0
