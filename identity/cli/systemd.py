"""Notifications to systemd, if it started the process: ready, stopping, and the watchdog (sd_notify(3))."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final

_PER_PERIOD: Final = 3
"""How often the watchdog is notified within the period after which systemd kills the process."""


def notify(state: str) -> None:
    """Send a state to the socket that systemd provides."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
            channel.setblocking(False)
            channel.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


def watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """Return the period of the watchdog (WatchdogSec of the unit), or None if this process has none."""
    period, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(pid))
    return int(period) / 1_000_000 if period.isdecimal() and int(period) > 0 and owner == str(pid) else None


@contextlib.asynccontextmanager
async def watchdog() -> AsyncIterator[None]:
    """Notify the watchdog during the block, for as long as the event loop turns.

    A process that is suspended, or whose event loop is blocked, sends nothing, so that systemd restarts it.
    """
    period = watchdog_seconds(os.environ, os.getpid())
    if period is None:
        yield
        return
    task = asyncio.create_task(_notify_forever(period / _PER_PERIOD), name="watchdog")
    try:
        yield
    finally:
        task.cancel()


async def _notify_forever(interval_seconds: float) -> None:
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_seconds)
