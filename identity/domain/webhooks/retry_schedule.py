"""When a failed delivery is tried again."""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
from collections.abc import Sequence

from identity.instants import Instant, later

_MAXIMUM_RETRY_AFTER_SECONDS = 86_400
_MINIMUM_AFTER_OVERLOAD_SECONDS = 60
_PUBLISHED_RETRIES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Seconds to wait after the first, second, ... failed attempt, each made longer or shorter by up to `jitter`.

    `is_published`: as the product does whose API this is. Three more attempts, back to back, follow where a transaction
    was agreed to by others, and none in any other case.
    """

    delays_seconds: Sequence[int]
    jitter: float = 0.0
    is_published: bool = False

    @property
    def total_seconds(self) -> float:
        """The longest time between the first attempt and the last."""
        longest = (max(delay * (1 + self.jitter), _MAXIMUM_RETRY_AFTER_SECONDS) for delay in self.delays_seconds)
        return sum(longest)

    def next_attempt(
        self,
        failed_at: Instant,
        attempts: int,
        chance: float,
        *,
        at_least_seconds: float = 0.0,
        was_asked: bool = False,
    ) -> Instant | None:
        """The instant of the next attempt after `attempts` failed ones, or None when it is given up.

        `chance` is a random number of [0, 1), the place within the jitter. `was_asked`: the one attempt so far was the
        question of a transaction, which others agreed to.
        """
        if self.is_published:
            return failed_at if (was_asked or attempts > 1) and attempts <= _PUBLISHED_RETRIES else None
        if attempts > len(self.delays_seconds):
            return None
        factor = 1 - self.jitter + 2 * self.jitter * chance
        return later(failed_at, seconds=max(self.delays_seconds[attempts - 1] * factor, at_least_seconds))


def wait_at_least(status: int | None, *, timed_out: bool, retry_after_seconds: float | None) -> float:
    """Seconds that a failure asks to wait at the least, whatever the schedule says.

    A receiver that says 429 or 503 may name the time itself (RFC 9110 section 10.2.3), up to a day; one that is
    overloaded without saying so (429, or no answer in time) gets a minute.
    """
    if status in {429, 503} and retry_after_seconds is not None:
        return min(retry_after_seconds, _MAXIMUM_RETRY_AFTER_SECONDS)
    return _MINIMUM_AFTER_OVERLOAD_SECONDS if status == 429 or timed_out else 0.0


def retry_after_seconds(value: str | None, now: Instant) -> float | None:
    """The Retry-After header as seconds from now: delay-seconds or an HTTP-date; None for anything else.

    The form of a date that names no zone means UTC as well (RFC 9110 section 5.6.7), and not the zone of this machine.
    """
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = email.utils.parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
        return max(0.0, moment.timestamp() - now / 1000)
    except (ValueError, OverflowError, TypeError):
        return None
