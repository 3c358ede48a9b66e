"""Measures the lag of the event loop: how late the loop runs a timer because something occupies it."""

from __future__ import annotations

import asyncio
import time

import prometheus_client

from identity import background_tasks

_INTERVAL_SECONDS = 1.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    """Observes the lag once a second."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._seconds = prometheus_client.Histogram(
            "identity_event_loop_lag_seconds",
            "How late the event loop runs a timer",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the loop."""
        self._tasks = [background_tasks.start("loop-lag", self._measure_forever)]

    async def stop(self) -> None:
        """Stop the loop."""
        await background_tasks.end(self._tasks)

    async def _measure_forever(self) -> None:
        while True:
            due = time.monotonic() + _INTERVAL_SECONDS
            await asyncio.sleep(_INTERVAL_SECONDS)
            self._seconds.observe(max(0.0, time.monotonic() - due))
