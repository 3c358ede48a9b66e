"""Clients of Redis for each form of its address: one server, Sentinel, or Cluster.

    redis://[user:password@]host:6379/0                                       also rediss:// (TLS) and unix://
    redis+sentinel://[user:password@]host:26379,host:26379/service/0          also rediss+sentinel://
    redis+cluster://[user:password@]host:6379,host:6379                       also rediss+cluster://

All of them use the clients of redis-py and accept its query parameters. `sentinel_username` and `sentinel_password` are
the credentials for the Sentinels themselves.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import ExponentialBackoff

from identity.store import outages
from identity.store.telemetry import REDIS, StoreTelemetry

T = TypeVar("T")

COMMAND_SECONDS: Final = 2
"""The time limit for a command or a batch of commands, which usually take a tenth of a millisecond."""
_SENTINEL_SECONDS: Final = 0.5
_MAX_CONNECTIONS: Final = 256
_SENTINEL_PORT: Final = 26379
_PORT: Final = 6379
_SENTINEL_OPTIONS: Final = ("sentinel_username", "sentinel_password")


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """A parsed address of Sentinel or Cluster."""

    kind: str
    is_tls: bool
    hosts: tuple[tuple[str, int], ...]
    service: str
    options: Mapping[str, Any] = dataclasses.field(repr=False)
    """The arguments of a connection: credentials, database and TLS."""


def parse(url: str) -> Address | None:
    """The address of Sentinel or Cluster, or None for that of one server. Raises ValueError."""
    scheme, separator, rest = url.partition("://")
    scheme, plus, kind = scheme.lower().partition("+")
    if not plus:
        return None
    if scheme not in {"redis", "rediss"} or kind not in {"cluster", "sentinel"} or not separator:
        raise ValueError("the scheme must be redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or"
                         " rediss+cluster")  # fmt: skip
    credentials, _, listed = rest.split("/", 1)[0].split("?", 1)[0].rpartition("@")
    parsed = urllib.parse.urlsplit(f"{scheme}://{rest}")
    service, _, database = parsed.path.strip("/").partition("/")
    if kind == "sentinel" and not service:
        raise ValueError("the path must name the service that the Sentinels monitor, such as /mymaster or /mymaster/0")
    if kind == "cluster" and service not in {"", "0"}:
        raise ValueError("Redis Cluster has the database 0 only")
    default_port = _SENTINEL_PORT if kind == "sentinel" else _PORT
    hosts = tuple(_host(one, default_port) for one in listed.split(","))
    options = parse_url(f"{scheme}://{credentials}@one-host/{database}?{parsed.query}")
    plain = {name: value for name, value in options.items() if name not in {"connection_class", "host", "port"}}
    return Address(kind, scheme == "rediss", hosts, urllib.parse.unquote(service), plain)


def _host(text: str, default_port: int) -> tuple[str, int]:
    parsed = urllib.parse.urlsplit(f"//{text}")
    if not parsed.hostname:
        raise ValueError("a host is missing; separate the hosts by commas")
    return parsed.hostname, parsed.port or default_port


def connect(url: str, telemetry: StoreTelemetry) -> Client | ClusterClient:
    """The client for an address; it connects when it is used. Raises ValueError."""
    address = parse(url)
    if address is None:
        pool = redis.BlockingConnectionPool.from_url(
            url, timeout=COMMAND_SECONDS, max_connections=_MAX_CONNECTIONS, **_options()
        )
        return Client(pool, telemetry)
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        options = {**_options(), **address.options, "ssl": address.is_tls}
        return ClusterClient(telemetry, startup_nodes=nodes, max_connections=_MAX_CONNECTIONS, **options)
    return _sentinel_client(address, telemetry)


def _sentinel_client(address: Address, telemetry: StoreTelemetry) -> Client:
    options = dict(address.options)
    names = {name.removeprefix("sentinel_"): options.pop(name) for name in _SENTINEL_OPTIONS if name in options}
    tls = {name: value for name, value in options.items() if name.startswith("ssl")}
    limits = {"socket_connect_timeout": _SENTINEL_SECONDS, "socket_timeout": _SENTINEL_SECONDS}
    sentinel_options = {**limits, **tls, **names, "ssl": address.is_tls}
    sentinel = Sentinel(address.hosts, sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
    pool = _SentinelPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinel,
        ssl=address.is_tls,
        timeout=COMMAND_SECONDS,
        max_connections=_MAX_CONNECTIONS,
        **{**_options(), **options},
    )
    return Client(pool, telemetry, [one.aclose for one in sentinel.sentinels])


def _options() -> dict[str, Any]:
    """The options of every connection."""
    return {
        "decode_responses": True,
        "socket_connect_timeout": COMMAND_SECONDS,
        # `with_time_limit` limits each batch; a timeout for every read and write would cost a task each.
        "socket_timeout": None,
        "health_check_interval": 15,
        # No retry after a timeout: the server may have run the command, and consuming an authorization code again
        # would look like a replay.
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.02), 3, (exceptions.ConnectionError,)),
    }


class _SentinelPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Connections to the current master, at most `max_connections`; further callers wait for one."""


class _PendingCommand(NamedTuple):
    """A command to be sent, and the future of its reply."""

    command: tuple[Any, ...]
    options: Mapping[str, Any]
    reply: asyncio.Future[Any]


class Client(redis.Redis):
    """A client with automatic pipelining and a time limit that includes connecting and retries.

    All commands issued in one iteration of the event loop are sent in one pipeline, because a round trip costs several
    times as much as a command. The pipeline is not a transaction: each command succeeds or fails separately. If the
    connection breaks before all replies arrived, the whole pipeline is retried, as a single command would be.
    """

    def __init__(
        self,
        pool: redis.ConnectionPool,
        telemetry: StoreTelemetry,
        closers: list[Callable[[], Awaitable[None]]] | None = None,
    ) -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._pending: list[_PendingCommand] = []
        self._telemetry = telemetry
        self._closers = closers or []
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
        for close in self._closers:
            await close()

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
        replies = [outages.of_redis(reply) if isinstance(reply, Exception) else reply for reply in replies]
        failed = failed or any(isinstance(reply, outages.RedisRefusal) for reply in replies)
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


class ClusterClient(redis.RedisCluster):
    """A client of Redis Cluster with the time limit of `Client`.

    It has no automatic pipelining: redis-py repeats commands of a pipeline that succeeded with an empty reply.
    """

    def __init__(self, telemetry: StoreTelemetry, **options: Any) -> None:
        super().__init__(**options)
        self._telemetry = telemetry
        # redis-py refuses commands beyond `max_connections`; those of publish/subscribe come in addition.
        self._slots = asyncio.Semaphore(_MAX_CONNECTIONS // 2)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        began, failure = time.perf_counter(), None
        try:
            return await with_time_limit(self._execute(*args, **options))
        except exceptions.RedisClusterException as error:
            # Not a RedisError: no node answers, or a slot has no node.
            failure = type(error).__name__
            raise exceptions.ConnectionError(f"the cluster is unavailable: {error}") from error
        except exceptions.RedisError as error:
            failure = type(error).__name__
            raise outages.of_redis(error) from error
        finally:
            seconds = time.perf_counter() - began
            self._telemetry.observe(REDIS, seconds, failed=failure not in {None, "NoScriptError"})
            self._telemetry.trace(REDIS, str(args[0]), "", seconds, failure)

    def pubsub(self, **options: Any) -> Any:  # type: ignore[override]
        """Return a subscription at any node: the cluster forwards messages to all of them."""
        nodes = self.get_nodes()
        return super().pubsub(random.choice(nodes) if nodes else None, **options)  # noqa: S311

    async def _execute(self, *args: Any, **options: Any) -> Any:
        async with self._slots:
            return await super().execute_command(*args, **options)


async def with_time_limit(reply: Awaitable[T]) -> T:
    """Await a reply. Raises the library's TimeoutError, one of STORE_ERRORS, after `COMMAND_SECONDS`."""
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            return await reply
    except TimeoutError as error:
        raise exceptions.TimeoutError(f"no answer in {COMMAND_SECONDS} s") from error
