"""Date patterns: supported letters, quoted text, and invalid patterns."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

from identity.domain.objects.date_patterns import compiled

DENVER = zoneinfo.ZoneInfo("America/Denver")
WHEN = datetime.datetime(2026, 7, 4, 15, 6, 7, 89_000, tzinfo=DENVER)
MIDNIGHT = datetime.datetime(2005, 12, 31, 0, 0, tzinfo=datetime.UTC)
NOON = datetime.datetime(2005, 1, 2, 12, 30, tzinfo=zoneinfo.ZoneInfo("UTC"))


@pytest.mark.requirement("core-15-9")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("M/d/yyyy hh:mm:ss a z", "7/4/2026 03:06:07 PM MDT"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-07-04T15:06:07.089-06:00"),
        ("y yy yyyy u uu", "2026 26 2026 2026 26"),
        ("M MM MMM MMMM L LLLL", "7 07 Jul July 7 July"),
        ("d dd D DDD", "4 04 185 185"),
        ("H HH h hh K k", "15 15 3 03 3 15"),
        ("m mm s ss", "6 06 7 07"),
        ("S SS SSS", "0 08 089"),
        ("E EEE EEEE", "Sat Sat Saturday"),
        ("z Z XX XXX xx xxx VV", "MDT -0600 -0600 -06:00 -0600 -06:00 America/Denver"),
        ("'o''clock' '' h", "o'clock ' 3"),
        ("''", "'"),
        ("yyyy, 'M' M", "2026, M 7"),
        ("dd.MM.yy (HH_mm) é", "04.07.26 (15_06) é"),
    ],
)
def test_patterns_format_instants(pattern: str, expected: str) -> None:
    assert compiled(pattern)(WHEN) == expected


def test_midnight_and_noon_are_formatted() -> None:
    assert compiled("h K k H a")(MIDNIGHT) == "12 0 24 0 AM"
    assert compiled("h K k H a")(NOON) == "12 0 12 12 PM"
    assert compiled("XXX xxx XX Z")(NOON) == "Z +00:00 Z +0000"


@pytest.mark.parametrize(
    "pattern",
    [
        "", "y" * 101, "yyy", "MMMMM", "ddd", "HHH", "SSSS", "aa", "EEEEE", "zzzz", "V", "X", "Q", "b", "'open", "{",
        "[d]", "#",
    ],
)  # fmt: skip
def test_unknown_letters_are_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"known|characters"):
        compiled(pattern)
