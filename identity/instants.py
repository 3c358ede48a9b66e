"""The clock, and the three representations of an instant.

`Instant` is epoch milliseconds (API and documents), `NumericDate` epoch seconds (RFC 7519 section 2), and an aware
`datetime` is used for MongoDB's TTL indexes.
"""

from __future__ import annotations

import datetime
import time
from typing import NewType, Protocol

Instant = NewType("Instant", int)
NumericDate = NewType("NumericDate", int)


class Clock(Protocol):
    """The source of the current time; tests use one that they control."""

    def now(self) -> Instant:
        """The current instant."""


class SystemClock:
    """The system clock."""

    def now(self) -> Instant:
        """The current instant of the operating system."""
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


def from_datetime(value: datetime.datetime) -> Instant:
    """The instant of an aware datetime."""
    return Instant(round(value.timestamp() * 1000))
