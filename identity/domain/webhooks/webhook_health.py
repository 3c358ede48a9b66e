"""Webhook statuses, and the progress of a failing webhook towards being disabled."""

from __future__ import annotations

from typing import Final

ACTIVE: Final = "Active"
PAUSED: Final = "Paused"
DISABLED: Final = "Disabled"

WARNINGS: Final = (50, 70, 90, 100)
"""The percentages of the time until disabling at which the event log warns."""

GONE: Final = 410
"""The status by which a receiver refuses all further events (RFC 9110 section 15.5.11)."""


def percent(failing_seconds: float, disable_after_seconds: int) -> int:
    """The last of the `WARNINGS` that a webhook has passed, or 0."""
    if disable_after_seconds == 0:
        return 0
    share = 100 * failing_seconds / disable_after_seconds
    return max((mark for mark in WARNINGS if share >= mark), default=0)
