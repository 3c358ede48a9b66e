"""Fetches and caches the JWK Sets that clients publish at their `jwksURI`, through the address guard.

The fetcher has an HTTP client of its own. Concurrent fetches are limited per tenant and the tenant with most cache
entries is evicted first, so that slow or numerous key sets of one tenant do not affect another. An unknown key id
causes at most one fetch per minute, because any caller may send one.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
from typing import Any, Final

from identity.call import Document
from identity.config.sections import ClientKeys
from identity.ids import TenantId
from identity.instants import Instant, later
from identity.outbound.http import HttpClient, OutboundError, Request, Response

CACHE_SECONDS: Final = 3600
"""How long a cached key set is used."""
REFETCH_SECONDS: Final = 60
"""The minimum interval between two fetches because of a key id that the cached set lacks.

The first one follows at once, however young the set is, so that a new key of a client works at its first use.
"""
FETCHES_PER_TENANT: Final = 4
"""The maximum number of concurrent fetches of a tenant; more fail at once."""
_FAILURE_CACHE_SECONDS: Final = 10
_MAX_ENTRIES: Final = 500
_MAX_BYTES: Final = 65_536
_MAX_KEYS: Final = 50
_JWK_MEMBERS: Final = ("kty", "kid", "use", "alg", "crv", "n", "e", "x", "y")
_MAX_MEMBER_LENGTH: Final = 2048
_ACCEPT: Final = "application/jwk-set+json, application/json"


class ClientKeysError(Exception):
    """A key set could not be fetched; the message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """The cache entry of a URL: the key set, if any, and the result of the last attempt.

    `renewed` is when the set was last fetched because it lacked a key.
    """

    tried: Instant
    fetched: Instant
    renewed: Instant
    jwks: Document | None = None
    failure: str = ""


_CacheKey = tuple[TenantId, str]


class ClientKeyFetcher:
    """Fetches and caches key sets by tenant and URL."""

    def __init__(self, http: HttpClient, settings: ClientKeys) -> None:
        self._http = http
        self._settings = settings
        self._entries: collections.OrderedDict[_CacheKey, _Entry] = collections.OrderedDict()
        self._fetches: dict[_CacheKey, asyncio.Task[_Entry]] = {}

    async def get(self, tenant_id: TenantId, url: str, now: Instant, *, refetch: bool = False) -> Document:
        """The key set of a client of this tenant. Raises ClientKeysError.

        With `refetch`, because the cached set lacks a key, it is fetched again, once in `REFETCH_SECONDS`. While it is
        cached, every call returns the same object.
        """
        key = (tenant_id, url)
        entry = self._entries.get(key)
        if entry is None or _is_due(entry, now, refetch=refetch):
            entry = await asyncio.shield(self._start_fetch(key, now, renews=refetch))
        else:
            self._entries.move_to_end(key)
        if entry.jwks is None:
            raise ClientKeysError(entry.failure)
        return entry.jwks

    async def close(self) -> None:
        """Cancel pending fetches and close every connection."""
        for fetch in tuple(self._fetches.values()):
            fetch.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)
        await self._http.close()

    def _start_fetch(self, key: _CacheKey, now: Instant, *, renews: bool) -> asyncio.Task[_Entry]:
        """The pending fetch, or a new one. Raises ClientKeysError when the tenant has too many."""
        if key not in self._fetches:
            if sum(tenant_id == key[0] for tenant_id, _ in self._fetches) >= FETCHES_PER_TENANT:
                raise ClientKeysError("too many key sets of this tenant are being fetched")
            fetch = asyncio.create_task(self._fetch(key, now, renews=renews))
            self._fetches[key] = fetch
            fetch.add_done_callback(lambda _: self._fetches.pop(key, None))
        return self._fetches[key]

    async def _fetch(self, key: _CacheKey, now: Instant, *, renews: bool) -> _Entry:
        """Fetch and cache a key set. After a failure, a fresh cached set stays in use."""
        cached = self._entries.get(key)
        renewed = now if renews else Instant(0) if cached is None else cached.renewed
        try:
            entry = _Entry(tried=now, fetched=now, renewed=renewed, jwks=await self._request(key[1]))
        except ClientKeysError as error:
            entry = _Entry(tried=now, fetched=now, renewed=renewed, failure=str(error))
            if cached is not None and cached.jwks is not None and _is_fresh(cached, now):
                entry = dataclasses.replace(cached, tried=now, renewed=renewed)
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > _MAX_ENTRIES:
            self._evict()
        return entry

    def _evict(self) -> None:
        """Remove the least recently used entry of the tenant with most entries."""
        counts = collections.Counter(tenant_id for tenant_id, _ in self._entries)
        [(largest, _)] = counts.most_common(1)
        del self._entries[next(key for key in self._entries if key[0] == largest)]

    async def _request(self, url: str) -> Document:
        request = Request(
            method="GET",
            url=url,
            headers={"Accept": _ACCEPT},
            body=None,
            connect_timeout_ms=self._settings.connect_timeout,
            read_timeout_ms=self._settings.read_timeout,
            max_response_bytes=_MAX_BYTES,
        )
        try:
            return _parse(await self._http.request(request))
        except OutboundError as error:
            raise ClientKeysError(f"no answer: {error.message}") from error


def _is_fresh(entry: _Entry, now: Instant) -> bool:
    return later(entry.fetched, seconds=CACHE_SECONDS) > now


def _is_due(entry: _Entry, now: Instant, *, refetch: bool) -> bool:
    if entry.jwks is None:
        return later(entry.tried, seconds=_FAILURE_CACHE_SECONDS) <= now
    return not _is_fresh(entry, now) or (refetch and later(entry.renewed, seconds=REFETCH_SECONDS) <= now)


def _parse(response: Response) -> Document:
    if response.truncated:
        raise ClientKeysError(f"the response is larger than {_MAX_BYTES} bytes")
    if response.status != 200:
        raise ClientKeysError(f"the response status was {response.status}")
    try:
        found: Any = json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise ClientKeysError("the response is not JSON") from error
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ClientKeysError("the response is not a JWK Set")
    return {"keys": [_trim(jwk) for jwk in found["keys"][:_MAX_KEYS] if isinstance(jwk, dict)]}


def _trim(jwk: Document) -> Document:
    """The members of a JWK that are used; certificates and other large members are not cached."""
    members = {name: jwk[name] for name in _JWK_MEMBERS if name in jwk}
    return {
        name: value for name, value in members.items() if isinstance(value, str) and len(value) <= _MAX_MEMBER_LENGTH
    }
