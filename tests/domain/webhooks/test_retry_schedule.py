"""When failed deliveries are retried and given up."""

from __future__ import annotations

import time

import pytest

from identity.domain.webhooks.retry_schedule import RetrySchedule, minimum_wait_seconds, retry_after_seconds
from identity.instants import Instant, later

NOW = Instant(1_700_000_000_000)
PUBLISHED = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)


@pytest.mark.requirement("webhooks-15.3-25")
def test_waits_follow_the_schedule_and_end_with_it() -> None:
    schedule = RetrySchedule(PUBLISHED)
    waits = [schedule.next_attempt(NOW, attempts, 0.5) for attempts in range(1, 11)]
    assert waits == [*(later(NOW, seconds=seconds) for seconds in PUBLISHED), None]


@pytest.mark.requirement("webhooks-15.3-25")
def test_jitter_stays_within_its_bounds() -> None:
    schedule = RetrySchedule((100,), jitter=0.2)
    assert schedule.next_attempt(NOW, 1, 0.0) == later(NOW, seconds=80)
    assert schedule.next_attempt(NOW, 1, 0.5) == later(NOW, seconds=100)
    assert schedule.next_attempt(NOW, 1, 1.0) == later(NOW, seconds=120)


def test_empty_schedule_has_no_retries() -> None:
    assert RetrySchedule(()).next_attempt(NOW, 1, 0.5) is None
    assert RetrySchedule(()).total_seconds == 0


def test_published_schedule_retries_three_times_immediately() -> None:
    schedule = RetrySchedule((5, 300), is_published=True)
    assert schedule.next_attempt(NOW, 1, 0.5) is None
    assert schedule.next_attempt(NOW, 1, 0.5, approval_requested=True) == NOW
    assert [schedule.next_attempt(NOW, attempts, 0.5) for attempts in (2, 3, 4)] == [NOW, NOW, None]


def test_retry_after_can_only_extend_the_wait() -> None:
    schedule = RetrySchedule((5,))
    assert schedule.next_attempt(NOW, 1, 0.5, at_least_seconds=60) == later(NOW, seconds=60)
    assert schedule.next_attempt(NOW, 1, 0.5, at_least_seconds=1) == later(NOW, seconds=5)


@pytest.mark.parametrize(
    ("status", "timed_out", "retry_after", "expected"),
    [
        (429, False, 7.0, 7.0),
        (503, False, 120.0, 120.0),
        (503, False, 10.0**9, 86_400),
        (429, False, None, 60),
        (503, False, None, 0),
        (None, True, None, 60),
        (None, False, None, 0),
        (500, False, 120.0, 0),
        (200, False, 120.0, 0),
    ],
)
def test_overloaded_receiver_gets_a_longer_wait(
    status: int | None, timed_out: bool, retry_after: float | None, expected: float
) -> None:
    assert minimum_wait_seconds(status, timed_out=timed_out, retry_after_seconds=retry_after) == expected


@pytest.mark.requirement("webhooks-15.3-16")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("Tuesday, 14-Nov-23 22:13:50 GMT", 30.0),
        ("Tue Nov 14 22:13:50 2023", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 -0000", 30.0),
        ("Tue, 14 Nov 2023 23:13:50 +0100", 30.0),
        ("1.5", None),
        ("-5", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 5000, 999_999_999.0),
        ("Tue, 99 Nov 9999999 22:00:00 GMT", None),
    ],
)
def test_retry_after_accepts_seconds_and_dates(value: str | None, expected: float | None) -> None:
    assert retry_after_seconds(value, NOW) == expected


@pytest.mark.requirement("webhooks-15.3-16")
def test_date_without_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert retry_after_seconds("Tue Nov 14 22:13:50 2023", NOW) == 30.0
    finally:
        monkeypatch.undo()
        time.tzset()
