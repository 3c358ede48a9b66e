"""The Redis client, key names, and the base class of the stores in Redis.

Every key has the prefix of its database and a TTL. Keys contain the SHA-256 of a secret, never the secret.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from identity.call import Document
from identity.errors import StartupError
from identity.store.telemetry import REDIS, StoreTelemetry
from identity.store.vault import Vault

T = TypeVar("T")

_COMMAND_SECONDS = 2
"""The time limit for a command or a batch of commands, which usually take a tenth of a millisecond."""
_STARTUP_SECONDS = 10
_MAX_CONNECTIONS = 256
_LUA = Path(__file__).with_name("lua")

STORE_ERRORS = (exceptions.RedisError,)
"""The exceptions that a store method may raise when Redis fails."""


class _PendingCommand(NamedTuple):
    """A command to be sent, and the future of its reply."""

    command: tuple[Any, ...]
    options: Mapping[str, Any]
    reply: asyncio.Future[Any]


class _Client(redis.Redis):
    """A client with automatic pipelining and a time limit that includes connecting and retries.

    All commands issued in one iteration of the event loop are sent in one pipeline, because a round trip costs several
    times as much as a command. The pipeline is not a transaction: each command succeeds or fails separately. If the
    connection breaks before all replies arrived, the whole pipeline is retried, as a single command would be.
    """

    def __init__(self, pool: redis.ConnectionPool, telemetry: StoreTelemetry) -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._pending: list[_PendingCommand] = []
        self._telemetry = telemetry
        self._batches: set[asyncio.Task[None]] = set()
        self._encode: Callable[[Any], bytes] = pool.get_encoder().encode  # type: ignore[no-untyped-call]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        # Encode here, so that an argument that cannot be encoded fails only this command, not the batch.
        command = (args[0], *map(self._encode, args[1:]))
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        if not self._pending:
            loop.call_soon(self._send_batch)
        self._pending.append(_PendingCommand(command, options, reply))
        return await (reply if self._telemetry.record_span is None else self._traced(str(args[0]), reply))

    async def _traced(self, command: str, reply: Awaitable[Any]) -> Any:
        """Await a reply, and record the span of its command."""
        began, failure = time.perf_counter(), None
        try:
            return await reply
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            self._telemetry.trace(REDIS, command, "", time.perf_counter() - began, failure)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close every connection after all pending commands; a later command would open one again."""
        while self._pending or self._batches:
            await (asyncio.wait(self._batches) if self._batches else asyncio.sleep(0))
        await super().aclose(close_connection_pool)

    def _send_batch(self) -> None:
        batch, self._pending = self._pending, []
        task = asyncio.create_task(self._run_batch(batch))
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _run_batch(self, batch: list[_PendingCommand]) -> None:
        began, failed = time.perf_counter(), False
        try:
            replies = await with_time_limit(self._execute_batch(batch))
        except Exception as error:  # noqa: BLE001 (raised by each caller's future)
            failed = True
            replies = [error] * len(batch)
        except asyncio.CancelledError:
            for pending in batch:
                pending.reply.cancel()
            raise
        self._telemetry.observe(REDIS, time.perf_counter() - began, failed=failed)
        for pending, reply in zip(batch, replies, strict=True):
            if pending.reply.done():  # the caller was cancelled
                continue
            if isinstance(reply, Exception):
                pending.reply.set_exception(reply)
            else:
                pending.reply.set_result(reply)

    async def _execute_batch(self, batch: list[_PendingCommand]) -> list[Any]:
        if len(batch) == 1:
            single: Awaitable[Any] = super().execute_command(*batch[0].command, **batch[0].options)  # type: ignore[no-untyped-call]
            return [await single]
        async with self.pipeline(transaction=False) as pipeline:
            for pending in batch:
                pipeline.execute_command(*pending.command, **pending.options)
            return await pipeline.execute(raise_on_error=False)


class Redis:
    """One Redis database: its client and its key prefix."""

    def __init__(self, url: str, prefix: str, telemetry: StoreTelemetry | None = None) -> None:
        try:
            pool = redis.BlockingConnectionPool.from_url(
                url,
                decode_responses=True,
                socket_connect_timeout=_COMMAND_SECONDS,
                # `with_time_limit` limits each batch; a timeout for every read and write would cost a task each.
                socket_timeout=None,
                timeout=_COMMAND_SECONDS,
                health_check_interval=15,
                max_connections=_MAX_CONNECTIONS,
                # No retry after a timeout: the server may have run the command, and consuming an authorization code
                # again would look like a replay.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 3, (exceptions.ConnectionError,)),
            )
        except ValueError as error:
            raise StartupError(f"redis.url is not usable: {error}") from error
        self.client: redis.Redis = _Client(pool, telemetry or StoreTelemetry())
        self._prefix = prefix

    async def run(self, script: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """Atomically run a Lua script from the folder `lua`. Its text is sent once and then referenced by its SHA-1."""
        text, sha = _script(script)
        try:
            return await self.client.execute_command("EVALSHA", sha, len(keys), *keys, *args)  # type: ignore[no-untyped-call]
        except exceptions.NoScriptError:
            return await self.client.execute_command("EVAL", text, len(keys), *keys, *args)  # type: ignore[no-untyped-call]

    async def execute(self, pipeline: Pipeline) -> list[Any]:
        """Run a pipeline within the time limit of a command."""
        return await with_time_limit(pipeline.execute())

    async def set_hash(self, key: str, fields: Mapping[Any, Any], ttl_seconds: int) -> None:
        """Atomically write the fields of a new hash and its TTL."""
        async with self.client.pipeline(transaction=True) as pipeline:
            pipeline.hset(key, mapping=fields)
            pipeline.expire(key, ttl_seconds)
            await self.execute(pipeline)

    def key(self, *parts: str) -> str:
        """The full name of a key."""
        return ":".join((self._prefix, *parts))

    async def check(self) -> None:
        """Raise StartupError unless the server answers."""
        try:
            # Without a limit, the client retries for minutes if the port accepts connections and never answers.
            async with asyncio.timeout(_STARTUP_SECONDS):
                await self.ping()
        except (exceptions.AuthenticationError, exceptions.ResponseError) as error:
            raise StartupError(f"Redis refused the connection (redis.url): {error}") from error
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            reason = str(error) or f"no answer in {_STARTUP_SECONDS} s"
            raise StartupError(f"Redis does not answer (redis.url): {reason}") from error

    async def ping(self) -> None:
        """One round trip; raises RedisError if the server is unavailable."""
        await self.client.ping()

    async def close(self) -> None:
        """Close every connection."""
        await self.client.aclose()


@functools.cache
def _script(name: str) -> tuple[str, str]:
    """The text of a Lua script and its SHA-1."""
    text = (_LUA / f"{name}.lua").read_text()
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisStore:
    """The base of the stores in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis


class SealedRedisStore(RedisStore):
    """The base of the stores in Redis whose values are encrypted."""

    def __init__(self, redis: Redis, vault: Vault) -> None:
        super().__init__(redis)
        self._vault = vault

    def _seal(self, document: Document, context: str) -> str:
        return self._vault.seal(json.dumps(document), context)

    def _unseal(self, sealed: str, context: str) -> Document:
        return dict(json.loads(self._vault.unseal(sealed, context)))


async def with_time_limit(reply: Awaitable[T]) -> T:
    """Await a reply. Raises the library's TimeoutError, one of STORE_ERRORS, after `_COMMAND_SECONDS`."""
    try:
        async with asyncio.timeout(_COMMAND_SECONDS):
            return await reply
    except TimeoutError as error:
        raise exceptions.TimeoutError(f"no answer in {_COMMAND_SECONDS} s") from error


def parse_document(text: bytes | str | None) -> Document | None:
    """A document stored as JSON; None for a missing key."""
    document: Document | None = None if text is None else json.loads(text)
    return document
