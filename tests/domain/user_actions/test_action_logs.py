"""Actions on users: durations, localized periods, and prevented logins."""

from __future__ import annotations

import datetime

import pytest

from identity.domain.user_actions import action_logs
from identity.instants import Instant


def at(text: str) -> Instant:
    return Instant(round(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000))


@pytest.mark.requirement("users-11-11")
@pytest.mark.parametrize(
    ("duration", "unit", "expected"),
    [
        (3, "MINUTES", "2026-01-31T12:03:00"),
        (5, "HOURS", "2026-01-31T17:00:00"),
        (1, "DAYS", "2026-02-01T12:00:00"),
        (2, "WEEKS", "2026-02-14T12:00:00"),
        (1, "MONTHS", "2026-02-28T12:00:00"),
        (13, "MONTHS", "2027-02-28T12:00:00"),
        (2, "YEARS", "2028-01-31T12:00:00"),
    ],
)
def test_lock_out_ends_after_its_duration(duration, unit, expected) -> None:
    assert action_logs.end_of_lock_out(at("2026-01-31T12:00:00"), duration, unit) == at(expected)


@pytest.mark.parametrize("unit", ["WEEKS", "MONTHS", "YEARS"])
def test_overflowing_lock_out_is_unlimited(unit) -> None:
    end = action_logs.end_of_lock_out(at("2026-01-31T12:00:00"), 2**62, unit)
    assert end == action_logs.INDEFINITE


@pytest.mark.parametrize(
    ("seconds", "languages", "expected"),
    [
        (1, [], "1 second"),
        (180, ["en_US"], "3 minutes"),
        (5400, ["xx", "de-AT"], "1 Stunde 30 Minuten"),
        (172_800, ["en"], "2 days"),
        (90_061, ["en"], "1 day 1 hour"),
        (60, ["xx"], "1 minute"),
        (0, ["fr"], "1 seconde"),
    ],
)
def test_duration_uses_its_two_largest_units(seconds, languages, expected) -> None:
    assert action_logs.localized_duration(seconds * 1000, languages) == expected


def test_active_actions_prevent_logins() -> None:
    everywhere = {"actionId": "1", "expiry": 20, "applicationIds": []}
    here = {"actionId": "2", "expiry": 20, "applicationIds": ["here"]}
    over = {"actionId": "3", "expiry": 10, "applicationIds": []}
    user = {"private": {"preventions": [everywhere, here, over]}}
    assert action_logs.preventing(user, "here", Instant(10)) == (everywhere, here)
    assert action_logs.preventing(user, "elsewhere", Instant(10)) == (everywhere,)
    assert action_logs.preventing(user, None, Instant(19)) == (everywhere,)
    assert action_logs.preventing(user, "here", Instant(20)) == ()
    assert action_logs.preventing({"private": {}}, "here", Instant(0)) == ()


def test_history_is_limited_to_a_thousand_entries() -> None:
    private = {"preventLogin": False, "temporal": True, "since": 0}
    log = {"history": {"historyItems": []}, "insertInstant": 0, "lastUpdateInstant": 0, "expiry": 0, "private": private}
    for instant in range(1, 1003):
        log = action_logs.modified(log, {"expiry": instant}, Instant(instant))
    items = log["history"]["historyItems"]
    assert [items[0]["expiry"], items[-1]["expiry"], log["expiry"]] == [2, 1001, 1002]
    assert len(items) == 1000
