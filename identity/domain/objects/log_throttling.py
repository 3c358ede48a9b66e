"""Log throttling: repeated messages are logged at intervals, with the number of suppressed ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from identity.instants import Instant, later

_MAX_SUBJECTS = 10_000


@dataclasses.dataclass(slots=True)
class _Interval:
    until: Instant
    suppressed: int = 0


class LogThrottle:
    """The messages that this process logged recently, by subject."""

    def __init__(self, seconds: float) -> None:
        """`seconds` is the interval during which further messages of a subject are suppressed."""
        self._seconds = seconds
        self._intervals: dict[Hashable, _Interval] = {}

    def suppressed_count(self, subject: Hashable, now: Instant) -> int | None:
        """Return how many messages were suppressed before this one; None if this one is suppressed."""
        interval = self._intervals.get(subject)
        if interval is not None and now < interval.until:
            interval.suppressed += 1
            return None
        if len(self._intervals) >= _MAX_SUBJECTS:
            self._intervals.clear()
        self._intervals[subject] = _Interval(later(now, seconds=self._seconds))
        return 0 if interval is None else interval.suppressed
