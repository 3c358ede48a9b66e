"""The clock, and the three forms an instant takes.

`Instant` is epoch milliseconds (API and documents), `NumericDate` epoch seconds (RFC 7519 section 2),
and an aware `datetime` is what MongoDB's TTL indexes read.
"""

from __future__ import annotations

import datetime
import time
from typing import NewType, Protocol

Instant = NewType("Instant", int)
NumericDate = NewType("NumericDate", int)


class Clock(Protocol):
    """Where the time of day comes from; tests hand in one that stands still."""

    def now(self) -> Instant:
        """The present instant."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """The present instant, as the operating system has it."""
        return Instant(time.time_ns() // 1_000_000)


def numeric_date(instant: Instant) -> NumericDate:
    """Whole seconds since the epoch, rounded down."""
    return NumericDate(instant // 1000)


def later(instant: Instant, *, seconds: float = 0) -> Instant:
    """The instant `seconds` after this one (before it, when negative)."""
    return Instant(instant + round(seconds * 1000))


def as_datetime(instant: Instant) -> datetime.datetime:
    """The aware UTC datetime of an instant."""
    return datetime.datetime.fromtimestamp(instant / 1000, tz=datetime.UTC)
