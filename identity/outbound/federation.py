"""Calls to the identity providers of others: their published configuration and keys, their tokens, their userinfo.

They go through a client of their own, so that a slow provider takes no connection from webhooks, and an address that is
opened for the one is not open for the other. What a provider publishes is kept for an hour; a failure for a moment, so
that a provider that is down is not asked by everybody who tries to log in.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from identity.call import Document
from identity.ids import Secret
from identity.instants import Instant, later
from identity.outbound.http import HttpClient, OutboundError, Request, Response

KEPT_SECONDS: Final = 3600
"""How long a published configuration or key set is used without being asked for again."""
REFETCH_SECONDS: Final = 10
"""How often at most a key set is asked for again because a token names a key that is not in it."""
_FAILED_SECONDS: Final = 5
_MAXIMUM_ENTRIES: Final = 200
_MAXIMUM_PUBLISHED_BYTES: Final = 65_536
"""Of what is kept: all entries together take some megabytes at the most."""
_MAXIMUM_BYTES: Final = 262_144
_MAXIMUM_PRESENT: Final = 10
"""Of the calls to one host, how many times those on their way there are at the most, with all that wait."""
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_FORM: Final = "application/x-www-form-urlencoded"


class FederationError(Exception):
    """A provider that gave no usable answer; the message says how, without any secret."""


class FederationClient:
    """Asks providers, and remembers what they publish."""

    def __init__(
        self, http: HttpClient, *, connect_timeout_ms: int, read_timeout_ms: int, calls_to_one: int = 10
    ) -> None:
        """`calls_to_one`: how many calls go to one host at a time, so that one that hangs holds up nobody else's."""
        self._http = http
        self._turns = _Turns(calls_to_one)
        self._connect_timeout_ms = connect_timeout_ms
        self._read_timeout_ms = read_timeout_ms
        self._published = _Published()

    async def configuration(self, issuer: str, now: Instant) -> Document:
        """What an issuer publishes of itself (OpenID Connect Discovery 1.0, section 4). Raises FederationError.

        A configuration that names another issuer is refused: it would let one provider speak for another (section 4.3).
        """
        url = issuer.rstrip("/") + _WELL_KNOWN

        async def load() -> Document:
            return await self._get(url, {}, _MAXIMUM_PUBLISHED_BYTES)

        found = await self._published.get(url, now, KEPT_SECONDS, load)
        # Of what is kept too: two issuers that differ in a slash at the end are found at one address.
        if found.get("issuer") != issuer:
            raise FederationError("its configuration names another issuer")
        return found

    async def keys(self, url: str, now: Instant, *, again: bool = False) -> Document:
        """The key set at an address; `again`: the one that is kept does not have the key. Raises FederationError."""

        async def load() -> Document:
            return await self._get(url, {}, _MAXIMUM_PUBLISHED_BYTES)

        return await self._published.get(url, now, REFETCH_SECONDS if again else KEPT_SECONDS, load)

    async def exchange(self, url: str, form: Mapping[str, str], basic: tuple[str, Secret] | None) -> Document:
        """The answer of a token endpoint (RFC 6749 section 4.1.3). Raises FederationError."""
        headers = {"Accept": "application/json", "Content-Type": _FORM}
        return await self._asked("POST", url, headers, urllib.parse.urlencode(form).encode(), _escaped(basic))

    async def userinfo(self, url: str, access_token: str) -> Document:
        """The claims of a user (OpenID Connect Core 5.3). Raises FederationError."""
        if not access_token.isascii() or not access_token.isprintable():
            raise FederationError("its access token cannot be sent in a header")
        return await self._get(url, {"Authorization": f"Bearer {access_token}"})

    async def get_json(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        basic: tuple[str, Secret] | None = None,
        name: str = "",
    ) -> Any:
        """The JSON of a resource; `name` stands for an address whose path is secret. Raises FederationError."""
        accept = {"Accept": "application/json", **(headers or {})}
        return await self._json("GET", url, accept, None, _escaped(basic), name=name)

    async def post_json(self, url: str, body: Document, headers: Mapping[str, str]) -> Document:
        """The JSON object that a JSON body is answered with. Raises FederationError."""
        kind = {"Accept": "application/json", "Content-Type": "application/json", **headers}
        return await self._asked("POST", url, kind, json.dumps(body).encode(), None)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def _get(self, url: str, headers: Mapping[str, str], maximum_bytes: int = _MAXIMUM_BYTES) -> Document:
        return await self._asked("GET", url, {"Accept": "application/json", **headers}, None, None, maximum_bytes)

    async def _asked(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        basic: tuple[str, Secret] | None,
        maximum_bytes: int = _MAXIMUM_BYTES,
    ) -> Document:
        """The JSON object of an answer."""
        found = await self._json(method, url, headers, body, basic, maximum_bytes)
        if not isinstance(found, dict):
            raise FederationError(f"{_place(url)} answered 200, and not with a JSON object")
        return found

    async def _json(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        basic: tuple[str, Secret] | None,
        maximum_bytes: int = _MAXIMUM_BYTES,
        *,
        name: str = "",
    ) -> Any:
        place = name or _place(url)
        request = Request(
            method=method,
            url=url,
            headers=headers,
            body=body,
            connect_timeout_ms=self._connect_timeout_ms,
            read_timeout_ms=self._read_timeout_ms,
            basic=basic,
            max_response_bytes=maximum_bytes,
        )
        try:
            async with self._turns.at(urllib.parse.urlsplit(url).netloc.lower()):
                answer = await self._http.request(request)
        except OutboundError as error:
            raise FederationError(f"no answer from {place}: {error.message}") from error
        return _parsed(answer, place)


class _Turns:
    """How many calls are on their way to each host; of those that wait for one there are not many more."""

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def at(self, host: str) -> AsyncIterator[None]:
        """A turn at a host. Raises FederationError where too many wait already."""
        semaphore, present = self._hosts.get(host, (asyncio.Semaphore(self._at_a_time), 0))
        if present >= _MAXIMUM_PRESENT * self._at_a_time:
            raise FederationError(f"too many calls wait for {host}")
        self._hosts[host] = (semaphore, present + 1)
        try:
            async with semaphore:
                yield
        finally:
            present = self._hosts[host][1]
            self._hosts[host] = (semaphore, present - 1)
            if present == 1:
                del self._hosts[host]


class _Published:
    """What was fetched, and when; whoever asks while it is being fetched waits for that."""

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[str, tuple[Instant, Document | FederationError]] = (
            collections.OrderedDict()
        )
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def get(self, url: str, now: Instant, seconds: int, load: Callable[[], Awaitable[Document]]) -> Document:
        """The document, at most `seconds` old. Raises FederationError."""
        lock, waiting = self._locks.get(url, (asyncio.Lock(), 0))
        self._locks[url] = (lock, waiting + 1)
        try:
            async with lock:
                known = self._known(url, now, seconds)
                if known is None:
                    known = await self._loaded(url, now, load)
        finally:
            lock, waiting = self._locks[url]
            self._locks[url] = (lock, waiting - 1)
            if waiting == 1:
                del self._locks[url]
        if isinstance(known, FederationError):
            raise FederationError(str(known)) from known
        return known

    def _known(self, url: str, now: Instant, seconds: int) -> Document | FederationError | None:
        fetched, known = self._entries.get(url, (Instant(0), None))
        if isinstance(known, FederationError):
            seconds = _FAILED_SECONDS
        return known if known is not None and later(fetched, seconds=seconds) > now else None

    async def _loaded(
        self, url: str, now: Instant, load: Callable[[], Awaitable[Document]]
    ) -> Document | FederationError:
        found: Document | FederationError
        try:
            found = await load()
        except FederationError as error:
            found = error
        self._entries[url] = (now, found)
        self._entries.move_to_end(url)
        while len(self._entries) > _MAXIMUM_ENTRIES:
            self._entries.popitem(last=False)
        return found


def _parsed(answer: Response, where: str) -> Any:
    if answer.truncated:
        raise FederationError(f"the answer of {where} is larger than anybody needs")
    try:
        found: Any = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise FederationError(f"{where} answered {answer.status}, and not with JSON") from error
    if answer.status != 200:
        # RFC 6749 section 5.2: a word, and nothing of what the provider may repeat of the request.
        reason = str(found.get("error", ""))[:100] if isinstance(found, dict) else ""
        raise FederationError(f"{where} answered {answer.status} {reason}".strip())
    return found


def _place(url: str) -> str:
    """An address without its query, which may hold anything."""
    return url.partition("?")[0]


def _escaped(basic: tuple[str, Secret] | None) -> tuple[str, Secret] | None:
    """Client id and secret as Basic credentials carry them (RFC 6749 section 2.3.1)."""
    if basic is None:
        return None
    return urllib.parse.quote_plus(basic[0]), Secret(urllib.parse.quote_plus(basic[1]))
