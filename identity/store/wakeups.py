"""Wake-ups of the workers of all processes by Redis publish/subscribe.

Wake-ups only reduce latency: workers also poll, so an outage of Redis delays work and loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import structlog

from identity import background_tasks
from identity.ids import new_id
from identity.store.redis import STORE_ERRORS, Redis
from identity.store.redis_clients import with_time_limit

_log = structlog.get_logger(__name__)

_RETRY_SECONDS = 1.0
_LISTEN_SECONDS = 1.0
_MAX_REMOTE_DELAY_SECONDS = 0.03
_RANDOM = random.SystemRandom()


class Wakeups:
    """One channel; the event `awake` is set by every notification from this process or another."""

    def __init__(self, redis: Redis, channel: str = "deliveries") -> None:
        self._redis = redis
        self._channel = redis.key("wake", channel)
        self._own_id = new_id()
        self._publishing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_connected = True
        self.awake = asyncio.Event()

    async def start(self) -> None:
        """Start to listen and to publish."""
        self._tasks = [
            background_tasks.start("wakeups-listen", self._listen_for_ever),
            background_tasks.start("wakeups-publish", self._publish_for_ever),
        ]

    async def stop(self) -> None:
        """Stop both loops."""
        await background_tasks.end(self._tasks)
        self._tasks = []

    def notify(self) -> None:
        """Wake this process at once and the others through Redis."""
        self.awake.set()
        self._publishing.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Wait for a wake-up, or until the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self.awake.wait()

    async def _publish_for_ever(self) -> None:
        while True:
            await self._publishing.wait()
            self._publishing.clear()  # coalesces notifications into one message
            try:
                await self._redis.client.publish(self._channel, self._own_id)
                self._set_connected(connected=True)
            except STORE_ERRORS:
                self._set_connected(connected=False)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except STORE_ERRORS:
                self._set_connected(connected=False)
            self.awake.set()  # notifications may have been lost
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        await self._redis.ping()  # a client of a cluster finds its nodes
        async with self._redis.client.pubsub(ignore_subscribe_messages=True) as listener:
            await with_time_limit(listener.subscribe(self._channel))
            self._set_connected(connected=True)
            while True:
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS)
                if message is not None and message["data"] != self._own_id:
                    # The notifying process has already started; the others follow with a random delay.
                    delay_seconds = _RANDOM.random() * _MAX_REMOTE_DELAY_SECONDS
                    asyncio.get_running_loop().call_later(delay_seconds, self.awake.set)

    def _set_connected(self, *, connected: bool) -> None:
        """Log changes of the connection state."""
        if connected != self._is_connected:
            self._is_connected = connected
            if connected:
                _log.info("wake-ups are available again")
            else:
                _log.warning("wake-ups are unavailable: workers poll")
