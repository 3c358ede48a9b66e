"""How much work is taken for one receiver, by how fast it takes it."""

from __future__ import annotations

import pytest

from identity.domain.webhooks.prefetch_window import PrefetchHorizon, PrefetchWindow


def after(count: int, seconds: float, concurrency: int = 10, maximum: int = 1000) -> PrefetchWindow:
    """One that took so many at an even pace, up to this second."""
    window = PrefetchWindow(concurrency, maximum)
    for number in range(1, count + 1):
        window.note(seconds * number / count)
    return window


def test_an_unknown_receiver_gets_one_round_and_another_to_follow_it():
    assert PrefetchWindow(10, 1000).room(0.0, held=0) == 20


def test_a_slow_receiver_gets_no_more_than_an_unknown_one():
    assert after(10, 5.0).room(5.0, held=0) == 20


@pytest.mark.requirement("design-state-15")
def test_a_fast_receiver_gets_what_lasts_for_half_a_second():
    assert 145 <= after(3000, 10.0).room(10.0, held=0) <= 155
    assert 95 <= after(2000, 10.0).room(10.0, held=0) <= 105


def test_nobody_gets_more_than_twenty_rounds():
    assert after(100_000, 10.0).room(10.0, held=0) == 200


def test_nobody_gets_more_than_leaves_room_for_others_and_everybody_two_rounds():
    assert after(100_000, 10.0, maximum=100).room(10.0, held=0) == 100
    assert after(100_000, 10.0, maximum=5).room(10.0, held=0) == 20


def test_nothing_is_taken_before_half_is_done():
    window = PrefetchWindow(10, 1000)
    assert [window.room(0.0, held) for held in (20, 11, 10, 9, 0)] == [0, 0, 10, 11, 20]


def test_a_receiver_that_stopped_is_an_unknown_one_again():
    assert after(4000, 10.0).room(20.0, held=0) == 20


def test_where_getting_more_takes_long_more_is_at_hand():
    assert 390 <= after(2000, 10.0, concurrency=50).room(10.0, held=0, horizon_seconds=2.0) <= 410


def test_what_is_at_hand_lasts_for_some_rounds_of_getting_more_within_reason():
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
