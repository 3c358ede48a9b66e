"""Names of hosts, looked up once for everybody who asks for the same, in threads of their own.

libcurl looks names up by itself, in a few threads that all calls share: some receivers whose name server keeps silent
take every one of them for as long as the system waits, and no other receiver is found meanwhile. Here such a name has
one thread, however many call it.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import ipaddress
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable

FRESH_SECONDS = 60
"""How long an answer is good, as in libcurl: what changes is noticed soon, and no name server is asked all the time."""
KEPT_SECONDS = 600
"""How long the last answer stands in for a name server that fails or keeps silent."""
MOST_AT_A_TIME = 256
"""How many names are looked up at the same time; each has a thread."""
_MOST_KNOWN = 10_000
_DEFAULT_PORTS = {"http": 80, "https": 443}

Addresses = tuple[str, ...]


class UnknownNameError(Exception):
    """No address is known for a name: it does not exist, or who knows it fails."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnresolvedHost:
    """Whom a URL leads to."""

    host: str
    port: int

    def resolved(self, addresses: Addresses) -> str:
        """What libcurl is told, so that it does not look itself; `+`: it forgets it after a minute."""
        return f"+{self.host}:{self.port}:{','.join(f'[{one}]' if ':' in one else one for one in addresses)}"


def target_of(url: str) -> UnresolvedHost | None:
    """The name that has to be looked up before a URL can be called; None of an address, or of this machine."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if not host or host == "localhost" or host.endswith(".localhost") or _is_address(host):
        return None
    return UnresolvedHost(host, parts.port or _DEFAULT_PORTS[parts.scheme])


class NameResolver:
    """What is known of names, and who is looking for which."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock that only goes forward, in seconds."""
        self._now = now
        self._known: collections.OrderedDict[str, tuple[Addresses, float]] = collections.OrderedDict()
        self._looking: dict[str, asyncio.Task[Addresses]] = {}
        self._places = asyncio.Semaphore(MOST_AT_A_TIME)

    async def addresses(self, host: str, timeout_seconds: float) -> Addresses:
        """The addresses of a name. Raises UnknownNameError, and TimeoutError when nobody said in time.

        Where an earlier answer can stand in, it does at once while somebody else waits for a new one; who asks for that
        leaves half of the time for connecting.
        """
        known, at = self._known.get(host, ((), 0.0))
        age = self._now() - at
        if known and age < FRESH_SECONDS:
            return known
        stands_in = known if age < KEPT_SECONDS else ()
        if stands_in and host in self._looking:
            return stands_in
        looking = self._look(host)
        await asyncio.wait([looking], timeout=timeout_seconds / 2 if stands_in else timeout_seconds)
        found = looking.result() if looking.done() and not looking.cancelled() else ()
        if found or stands_in:
            return found or stands_in
        if looking.done():
            raise UnknownNameError
        raise TimeoutError

    def close(self) -> None:
        """Wait for nobody any more; a thread that still looks ends by itself."""
        for looking in self._looking.values():
            looking.cancel()

    def _look(self, host: str) -> asyncio.Task[Addresses]:
        """The search that is on for a name, or a new one."""
        if host not in self._looking:
            looking = asyncio.get_running_loop().create_task(self._search(host))
            looking.add_done_callback(lambda _done: self._looking.pop(host, None))
            self._looking[host] = looking
        return self._looking[host]

    async def _search(self, host: str) -> Addresses:
        async with self._places:
            found = await _in_a_thread(host)
        if found:
            self._known[host] = (found, self._now())
            self._known.move_to_end(host)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found


def look_up(host: str) -> Addresses:
    """What the system knows of a name, the best address first; nothing where it fails. Blocks, maybe for a minute."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return ()
    # Without the zone of an address of this machine's own links: libcurl cannot read it here.
    return tuple(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))


async def _in_a_thread(host: str) -> Addresses:
    """As `look_up`. In a thread that a process which stops does not wait for, as it would for one of an executor."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Addresses] = loop.create_future()

    def tell(found: Addresses) -> None:
        if not answer.done():
            answer.set_result(found)

    def look() -> None:
        found: Addresses = ()
        try:
            found = look_up(host)
        finally:  # whatever happens here: nobody waits for ever
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(tell, found)

    try:
        threading.Thread(target=look, name=f"look up {host}", daemon=True).start()
    except RuntimeError:  # the system has no more of them
        return ()
    return await answer


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
