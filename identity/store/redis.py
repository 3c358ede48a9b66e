"""The connection to Redis: client, key names, and what an operator is told when it fails.

Every key carries the prefix of its database, holds the SHA-256 of a secret rather than the secret, and has a TTL.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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


class _Asked(NamedTuple):
    """A command that waits to be sent, and whoever waits for its answer."""

    command: tuple[Any, ...]
    options: Mapping[str, Any]
    answer: asyncio.Future[Any]


class Script:
    """A script that the server runs as one step; it is sent once, and named from then on."""

    def __init__(self, client: _Client, text: str) -> None:
        self._client = client
        self._text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str] = (), args: Sequence[str | bytes | float] = ()) -> Any:
        """What it answers for these keys and arguments."""
        try:
            return await self._client.execute_command("EVALSHA", self._sha, len(keys), *keys, *args)
        except exceptions.NoScriptError:
            return await self._client.execute_command("EVAL", self._text, len(keys), *keys, *args)


class _Client(redis.Redis):
    """The client with a bound on the whole of a command: it would try again to connect to a server that hangs.

    Commands of one turn of the event loop, whoever they are from, travel together: to send a command and to wait for
    its answer costs several times what the command itself does. They are no transaction, and each has an answer, or a
    failure, of its own. Where the connection breaks before all answers are there, all are asked for again, as a single
    command would be.
    """

    def __init__(self, pool: redis.ConnectionPool) -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._asked: list[_Asked] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._encode: Callable[[Any], bytes] = pool.get_encoder().encode  # type: ignore[no-untyped-call]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        # Encoded here: what cannot be is the failure of who brought it, and not of those who travel with it.
        command = (args[0], *map(self._encode, args[1:]))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._send)
        self._asked.append(_Asked(command, options, answer))
        return await answer

    def register_script(self, script: str) -> Script:  # type: ignore[override]
        """A script of ours: the library's own looks at each call for what it is called on."""
        return Script(self, script)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close every connection, once what was asked for is answered: what is sent later would open one anew."""
        while self._asked or self._sending:
            await (asyncio.wait(self._sending) if self._sending else asyncio.sleep(0))
        await super().aclose(close_connection_pool)

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        sending = asyncio.create_task(self._answer(asked))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _answer(self, asked: list[_Asked]) -> None:
        try:
            answers = await in_time(self._together(asked))
        except Exception as error:  # noqa: BLE001 (it is raised where the answers are waited for)
            answers = [error] * len(asked)
        except asyncio.CancelledError:
            for one in asked:
                one.answer.cancel()
            raise
        for one, answer in zip(asked, answers, strict=True):
            if one.answer.done():  # whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    async def _together(self, asked: list[_Asked]) -> list[Any]:
        if len(asked) == 1:
            alone: Awaitable[Any] = super().execute_command(*asked[0].command, **asked[0].options)  # type: ignore[no-untyped-call]
            return [await alone]
        async with self.pipeline(transaction=False) as pipeline:
            for one in asked:
                pipeline.execute_command(*one.command, **one.options)
            return await pipeline.execute(raise_on_error=False)


class Redis:
    """One Redis database; `client` speaks to it, `key` names things in it."""

    def __init__(self, url: str, prefix: str) -> None:
        try:
            pool = redis.BlockingConnectionPool.from_url(
                url,
                decode_responses=True,
                socket_connect_timeout=_PATIENCE_SECONDS,
                # Each batch has its time (`in_time`); a time for each write and read would cost a task of its own.
                socket_timeout=None,
                timeout=_PATIENCE_SECONDS,
                health_check_interval=15,
                max_connections=_CONNECTIONS,
                # Not after a timeout: a server that hangs would be waited for again and again, and a code that it has
                # consumed by then would look replayed.
                retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 3, (exceptions.ConnectionError,)),
            )
        except ValueError as error:
            raise StartupError(f"redis.url is not usable: {error}") from error
        self.client: redis.Redis = _Client(pool)
        self._prefix = prefix

    async def execute(self, pipeline: Pipeline) -> list[Any]:
        """What the commands of a pipeline answer, in bounded time like a command's answer."""
        return await in_time(pipeline.execute())

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


async def in_time(answer: Awaitable[T]) -> T:
    """What is waited for. Raises TimeoutError of the library, one of STORE_ERRORS, after `_PATIENCE_SECONDS`."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await answer
    except TimeoutError as error:
        raise exceptions.TimeoutError(f"no answer in {_PATIENCE_SECONDS} s") from error
