"""When a webhook that fails and fails is switched off, and how far it is on the way there."""

from __future__ import annotations

from typing import Final

ACTIVE: Final = "Active"
PAUSED: Final = "Paused"
DISABLED: Final = "Disabled"

WARNINGS: Final = (50, 70, 90, 100)
"""Percent of the way at which the event log tells of it."""

GONE: Final = 410
"""The status by which a receiver says that it wants nothing more (RFC 9110 section 15.5.11)."""


def percent(failing_seconds: float, disable_after_seconds: int) -> int:
    """How far a webhook is on the way to being disabled: the last of the `WARNINGS` that it passed, or 0."""
    if disable_after_seconds == 0:
        return 0
    share = 100 * failing_seconds / disable_after_seconds
    return max((mark for mark in WARNINGS if share >= mark), default=0)
