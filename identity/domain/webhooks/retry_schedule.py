"""When a failed delivery is retried: the schedule, Retry-After, and the wait after an overload."""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
from collections.abc import Sequence

from identity.instants import Instant, later

_MAX_RETRY_AFTER_SECONDS = 86_400
_OVERLOAD_WAIT_SECONDS = 60
_PUBLISHED_RETRIES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Seconds to wait after the first, second, ... failed attempt, each varied by up to the share `jitter`.

    `is_published`: retry as the product does that published the API: three times, back to back, after an approval
    request that failed although the change was approved, and never otherwise.
    """

    delays_seconds: Sequence[int]
    jitter: float = 0.0
    is_published: bool = False

    @property
    def total_seconds(self) -> float:
        """The longest possible time between the first attempt and the last."""
        longest = (max(delay * (1 + self.jitter), _MAX_RETRY_AFTER_SECONDS) for delay in self.delays_seconds)
        return sum(longest)

    def next_attempt(
        self,
        failed_at: Instant,
        attempts: int,
        random_fraction: float,
        *,
        at_least_seconds: float = 0.0,
        approval_requested: bool = False,
    ) -> Instant | None:
        """The instant of the next attempt after `attempts` failed ones, or None if there is none.

        `random_fraction` is a random number of [0, 1) that selects the jitter. `approval_requested`: the only attempt
        so far was an approval request of a change that was approved by other webhooks.
        """
        if self.is_published:
            return failed_at if (approval_requested or attempts > 1) and attempts <= _PUBLISHED_RETRIES else None
        if attempts > len(self.delays_seconds):
            return None
        factor = 1 - self.jitter + 2 * self.jitter * random_fraction
        return later(failed_at, seconds=max(self.delays_seconds[attempts - 1] * factor, at_least_seconds))


def minimum_wait_seconds(status: int | None, *, timed_out: bool, retry_after_seconds: float | None) -> float:
    """The shortest time before the next attempt, whatever the schedule says.

    A response with 429 or 503 may set it by Retry-After (RFC 9110 section 10.2.3), up to a day. After a 429 without
    that header, or a timeout, it is a minute.
    """
    if status in {429, 503} and retry_after_seconds is not None:
        return min(retry_after_seconds, _MAX_RETRY_AFTER_SECONDS)
    return _OVERLOAD_WAIT_SECONDS if status == 429 or timed_out else 0.0


def retry_after_seconds(value: str | None, now: Instant) -> float | None:
    """The Retry-After header (delay-seconds or an HTTP-date) as seconds from now; None if it is invalid.

    A date without a zone is UTC (RFC 9110 section 5.6.7).
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
