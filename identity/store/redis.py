"""The connection to Redis: client, key names, and what an operator is told when it fails.

Every key carries the prefix of its database, holds the SHA-256 of a secret rather than the secret, and has a TTL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from identity.errors import StartupError

T = TypeVar("T")

_PATIENCE_SECONDS = 2
"""How long an answer is waited for: it commonly takes a tenth of a millisecond, and somebody waits."""
_STARTUP_SECONDS = 10
_CONNECTIONS = 256

STORE_ERRORS = (exceptions.RedisError,)
"""What a store method may raise when Redis itself fails."""


class _Client(redis.Redis):
    """The client with a bound on the whole of a command: it would try again to connect to a server that hangs."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        answer: Awaitable[Any] = super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        return await _in_time(answer)


class Redis:
    """One Redis database; `client` speaks to it, `key` names things in it."""

    def __init__(self, url: str, prefix: str) -> None:
        try:
            pool = redis.BlockingConnectionPool.from_url(
                url,
                decode_responses=True,
                socket_connect_timeout=_PATIENCE_SECONDS,
                socket_timeout=_PATIENCE_SECONDS,
                timeout=_PATIENCE_SECONDS,
                health_check_interval=15,
                max_connections=_CONNECTIONS,
                # Not after a timeout: a server that hangs would be waited for again and again, and a code that it has
                # consumed by then would look replayed.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 3, (exceptions.ConnectionError,)),
            )
        except ValueError as error:
            raise StartupError(f"redis.url is not usable: {error}") from error
        self.client: redis.Redis = _Client.from_pool(pool)
        self._prefix = prefix

    async def execute(self, pipeline: Pipeline) -> list[Any]:
        """What the commands of a pipeline answer, in bounded time like a command's answer."""
        return await _in_time(pipeline.execute())

    def key(self, *parts: str) -> str:
        """The full name of a key."""
        return ":".join((self._prefix, *parts))

    async def check(self) -> None:
        """Raise StartupError unless the server answers."""
        try:
            # The client would try again and again for minutes when something takes connections and never answers.
            async with asyncio.timeout(_STARTUP_SECONDS):
                await self.ping()
        except (exceptions.AuthenticationError, exceptions.ResponseError) as error:
            raise StartupError(f"Redis refused the connection (redis.url): {error}") from error
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            reason = str(error) or f"no answer in {_STARTUP_SECONDS} s"
            raise StartupError(f"Redis does not answer (redis.url): {reason}") from error

    async def ping(self) -> None:
        """One round trip; raises RedisError when the server is gone."""
        await self.client.ping()

    async def close(self) -> None:
        """Close every connection."""
        await self.client.aclose()


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await answer
    except TimeoutError as error:
        raise exceptions.TimeoutError(f"no answer in {_PATIENCE_SECONDS} s") from error
