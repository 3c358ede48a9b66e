"""Wake-ups: telling the workers of every process that there is work, so that they need not wait for their next look.

Only a courtesy: whatever is lost here is found by the workers' own polling, so a Redis that is away delays, and loses
nothing.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from identity import background_tasks
from identity.ids import new_id
from identity.store.redis import STORE_ERRORS, Redis, in_time

_log = structlog.get_logger(__name__)

_RETRY_SECONDS = 1.0
_LISTEN_SECONDS = 1.0
_HELP_SECONDS = 0.03
_CHANCE = random.SystemRandom()


class Wakeups:
    """One channel; `awake` is set whenever somebody, in this process or another, says that there is work."""

    def __init__(self, redis: Redis, channel: str = "deliveries") -> None:
        self._redis = redis
        self._channel = redis.key("wake", channel)
        self._own = new_id()
        self._publishing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_connected = True
        self.awake = asyncio.Event()

    async def start(self) -> None:
        """Begin to listen and to pass on."""
        self._tasks = [
            background_tasks.start("wakeups-listen", self._listen_for_ever),
            background_tasks.start("wakeups-publish", self._publish_for_ever),
        ]

    async def stop(self) -> None:
        """End both."""
        await background_tasks.end(self._tasks)
        self._tasks = []

    def notify(self) -> None:
        """Say that there is work: to this process at once, to the others as soon as Redis allows."""
        self.awake.set()
        self._publishing.set()

    async def _publish_for_ever(self) -> None:
        while True:
            await self._publishing.wait()
            self._publishing.clear()  # many notifications in a row are one message
            try:
                await self._redis.client.publish(self._channel, self._own)
                self._note(connected=True)
            except STORE_ERRORS:
                self._note(connected=False)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except STORE_ERRORS:
                self._note(connected=False)
            self.awake.set()  # nobody knows what was missed
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        async with self._redis.client.pubsub(ignore_subscribe_messages=True) as listener:
            await in_time(listener.subscribe(self._channel))
            self._note(connected=True)
            while True:
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS)
                if message is not None and message["data"] != self._own:
                    # Who has said it is at work already: the others come to help, and not all at once.
                    asyncio.get_running_loop().call_later(_CHANCE.random() * _HELP_SECONDS, self.awake.set)

    def _note(self, *, connected: bool) -> None:
        """Log a loss once, and the return."""
        if connected != self._is_connected:
            self._is_connected = connected
            _log.info("wake-ups are back") if connected else _log.warning("wake-ups are lost: workers poll")
