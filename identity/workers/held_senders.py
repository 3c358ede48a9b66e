"""The workers that send: they start with the process or, if it is quiesced, when an operator releases the instance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import prometheus_client
import structlog

from identity import background_tasks
from identity.events.quiescence import Quiescence
from identity.store.instance import InstanceStore
from identity.store.mongo import STORE_ERRORS

_log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 1.0


class Worker(Protocol):
    """A background loop."""

    async def start(self) -> None:
        """Start the loop."""

    async def stop(self) -> None:
        """Stop the loop and release its leases."""


class HeldSenders:
    """Starts the workers of webhooks, mails, text messages and logout tokens, at once or after a release."""

    def __init__(
        self,
        quiescence: Quiescence,
        instance: InstanceStore,
        senders: Sequence[Worker],
        registry: prometheus_client.CollectorRegistry,
    ) -> None:
        self._quiescence = quiescence
        self._instance = instance
        self._senders = senders
        self._started: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []
        gauge = prometheus_client.Gauge(
            "identity_quiesced", "Whether the process holds back what it sends", registry=registry
        )
        gauge.set_function(lambda: float(quiescence.is_active))

    async def start(self) -> None:
        """Start the senders or, if the process is quiesced, wait for the release in the background."""
        if not self._quiescence.is_active:
            await self._start_senders()
            return
        _log.warning("quiesced: no webhook, mail or message is sent", release_with="identity release")
        count = await self._instance.release_count()
        self._tasks = [asyncio.create_task(self._start_after_release(count), name="wait for the release")]

    async def stop(self) -> None:
        """Stop the senders that run."""
        await background_tasks.end(self._tasks)
        for sender in reversed(self._started):
            await sender.stop()

    async def _start_senders(self) -> None:
        for sender in self._senders:
            self._started.append(sender)
            await sender.start()

    async def _start_after_release(self, count: int) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if await self._is_released(count):
                break
        self._quiescence.is_active = False
        _log.info("released: webhooks, mails and messages are sent")
        await self._start_senders()

    async def _is_released(self, count: int) -> bool:
        """Return whether there was a release since this process started."""
        try:
            return await self._instance.release_count() != count
        except STORE_ERRORS:
            return False
