"""Host name resolution through c-ares (aiodns), and connections of protocols other than HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import socket
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cachetools import LRUCache

from identity.outbound.addresses import Network, forbidden_reason

if TYPE_CHECKING:
    import aiodns

FRESH_SECONDS = 60
"""How long a cached answer is used without a new query, as in libcurl."""
STALE_SECONDS = 600
"""How long the last answer is served while the name server fails or does not answer."""
MAX_CONCURRENT_QUERIES = 256
_MAX_CACHED_NAMES = 10_000
_DEFAULT_PORTS = {"http": 80, "https": 443}

Addresses = tuple[str, ...]


class UnknownNameError(Exception):
    """A host name has no address, or its name server reports a failure."""


class ForbiddenAddressError(Exception):
    """The service may not connect to any address of a host; the message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnresolvedHost:
    """The host name and port of a URL, to be resolved before libcurl connects."""

    host: str
    port: int

    def curl_resolve_entry(self, addresses: Addresses) -> str:
        """The CURLOPT_RESOLVE entry for these addresses; the leading `+` lets it expire from libcurl's DNS cache."""
        return f"+{self.host}:{self.port}:{','.join(f'[{one}]' if ':' in one else one for one in addresses)}"


def unresolved_host(url: str) -> UnresolvedHost | None:
    """The host of a URL that has to be resolved; None for an IP address and for localhost."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if not host or host == "localhost" or host.endswith(".localhost") or _is_address(host):
        return None
    return UnresolvedHost(host, parts.port or _DEFAULT_PORTS[parts.scheme])


class NameResolver:
    """Resolves host names: one query per name at a time, answers cached for `FRESH_SECONDS`.

    libcurl and `getaddrinfo` resolve names in a few threads that all calls share: a handful of receivers whose name
    servers never answer would occupy every thread and block the others. c-ares needs no thread per name. It reads
    /etc/hosts, /etc/nsswitch.conf and /etc/resolv.conf (search domains, ndots, name servers), and follows their
    changes.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` is a monotonic clock in seconds."""
        self._monotonic = monotonic
        self._cache: LRUCache[str, tuple[Addresses, float]] = LRUCache(_MAX_CACHED_NAMES)
        self._queries: dict[str, asyncio.Task[Addresses]] = {}
        self._query_slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)
        self._dns: aiodns.DNSResolver | None = None

    async def resolve(self, host: str, timeout_seconds: float) -> Addresses:
        """The addresses of a name, the preferred one first (RFC 6724).

        Serves an answer that is no older than `STALE_SECONDS` at once while another caller's query is pending. The
        caller that starts the query then waits for half of its timeout, so that time remains to connect.

        Raises UnknownNameError, and TimeoutError when there is no answer within `timeout_seconds`.
        """
        cached, cached_at = self._cache.get(host, ((), 0.0))
        age_seconds = self._monotonic() - cached_at
        if cached and age_seconds < FRESH_SECONDS:
            return cached
        stale = cached if age_seconds < STALE_SECONDS else ()
        if stale and host in self._queries:
            return stale
        query = self._start_query(host)
        await asyncio.wait([query], timeout=timeout_seconds / 2 if stale else timeout_seconds)
        found = query.result() if query.done() and not query.cancelled() else ()
        if found or stale:
            return found or stale
        if query.done():
            raise UnknownNameError
        raise TimeoutError

    async def close(self) -> None:
        """Cancel all queries and release the sockets."""
        for query in self._queries.values():
            query.cancel()
        if self._dns is not None:
            await self._dns.close()
            self._dns = None

    def _start_query(self, host: str) -> asyncio.Task[Addresses]:
        """The pending query for a name, or a new one."""
        if host not in self._queries:
            query = asyncio.get_running_loop().create_task(self._query(host))
            query.add_done_callback(lambda _done: self._queries.pop(host, None))
            self._queries[host] = query
        return self._queries[host]

    async def _query(self, host: str) -> Addresses:
        import aiodns  # noqa: PLC0415 (takes a thirtieth of the start, and many processes resolve no name)
        import pycares  # noqa: PLC0415

        async with self._query_slots:
            try:
                dns = self._dns = self._dns or aiodns.DNSResolver()
            except pycares.AresError:  # such as no file descriptor left
                return ()
            found = await look_up(dns, host)
        if found:
            self._cache[host] = (found, self._monotonic())
        return found


async def look_up(dns: aiodns.DNSResolver, host: str) -> Addresses:
    """Query the addresses of a name, the preferred one first; empty when the name is invalid or the query fails."""
    import aiodns.error  # noqa: PLC0415

    try:
        found = await dns.getaddrinfo(host.encode("idna").decode(), type=socket.SOCK_STREAM)
    except (aiodns.error.DNSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(node.addr[0].decode() for node in found.nodes))


async def connect(
    resolver: NameResolver, host: str, port: int, allowed: Sequence[Network], timeout_seconds: float
) -> socket.socket:
    """Connect through the address guard: to the first permitted address of a host that accepts a connection.

    The socket is non-blocking. Raises ForbiddenAddressError, UnknownNameError, TimeoutError if the name is not resolved
    in time, and OSError.
    """
    addresses = (host,) if _is_address(host) else await resolver.resolve(host, timeout_seconds)
    reasons = {address: forbidden_reason(address, allowed) for address in addresses}
    permitted = [address for address, reason in reasons.items() if reason is None]
    if not permitted:
        raise ForbiddenAddressError(str(reasons[addresses[0]]))
    for address in permitted[:-1]:
        with contextlib.suppress(OSError):
            return await _connect_to(address, port)
    return await _connect_to(permitted[-1], port)


async def _connect_to(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
