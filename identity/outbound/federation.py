"""Client for external identity providers: discovery, JWK Sets, token endpoint, userinfo.

It has an HTTP client of its own, so that a slow provider takes no connection from webhooks, and each has its own
allowed networks. Published documents are cached for an hour and failures for a few seconds, so that logins do not
repeat requests to a provider that is down.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import sys
import urllib.parse
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cachetools import LRUCache

from identity.bulkhead import Bulkhead
from identity.call import Document
from identity.config.sections import IdentityProviders
from identity.ids import Secret
from identity.instants import Instant, later
from identity.outbound.http import HttpClient, OutboundError, Request, Response

CACHE_SECONDS: Final = 3600
"""How long a cached configuration or JWK Set is used."""
REFETCH_SECONDS: Final = 10
"""The interval in which a JWK Set is fetched again once for each unknown key id, and once more in a long run."""
REFETCH_BURST: Final = 5
"""The number of unknown key ids for which a JWK Set is fetched again at once."""
_FAILURE_CACHE_SECONDS: Final = 5
_MAX_CACHE_ENTRIES: Final = 200
_MAX_RENEWED: Final = 2_000
_MAX_KID: Final = 200
_MAX_CACHED_BYTES: Final = 65_536
"""The maximum size of a cached document."""
_MAX_RESPONSE_BYTES: Final = 262_144
_QUEUE_FACTOR: Final = 9
"""The maximum number of queued requests to a host, as a multiple of the concurrent ones."""
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_ACCEPT_JSON: Final = {"Accept": "application/json"}
_ACCEPT_CLAIMS: Final = {"Accept": "application/json, application/jwt;q=0.9"}
_JWT: Final = "application/jwt"
_FORM: Final = "application/x-www-form-urlencoded"


class FederationError(Exception):
    """A provider gave no usable response; the message is the reason and contains no secrets."""


class FederationClient:
    """Sends requests to identity providers and caches the documents that they publish."""

    def __init__(self, http: HttpClient, settings: IdentityProviders) -> None:
        self._http = http
        self._settings = settings
        # Even four unresponsive providers leave connections for the others.
        max_per_host = max(1, settings.max_concurrency // 5)
        self._hosts = Bulkhead(sys.maxsize, max_per_host)
        self._max_queued_per_host = _QUEUE_FACTOR * max_per_host
        self._cache = _DocumentCache()

    async def configuration(self, issuer: str, now: Instant) -> Document:
        """The configuration of an issuer (OpenID Connect Discovery 1.0 section 4). Raises FederationError.

        A configuration with a different issuer is rejected: one provider could impersonate another (section 4.3).
        """
        url = issuer.rstrip("/") + _WELL_KNOWN
        found = await self._get_cached(url, now, CACHE_SECONDS)
        # Also checked for cached documents: issuers that differ in a trailing slash share a URL.
        if found.get("issuer") != issuer:
            raise FederationError("its configuration names another issuer")
        return found

    async def keys(self, url: str, now: Instant, *, lacking: Document | None = None, kid: str = "") -> Document:
        """The JWK Set at a URL. Raises FederationError.

        `lacking` is an earlier result that has no key for a token with this `kid`: the set is fetched again at once,
        within a limit, because anyone may send such tokens. While no newer set is known the result is the same object.
        """
        request = self._request("GET", url, _ACCEPT_JSON, max_bytes=_MAX_CACHED_BYTES)
        load = functools.partial(self._send_for_object, request)
        if lacking is None:
            return await self._cache.get(url, now, CACHE_SECONDS, load)
        return await self._cache.renew(url, now, lacking, kid, load)

    async def post_form(
        self,
        url: str,
        form: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        basic: tuple[str, Secret] | None = None,
    ) -> bytes:
        """Post a form and return the body of the response, which need not be JSON. Raises FederationError."""
        body, kind = urllib.parse.urlencode(form).encode(), {"Content-Type": _FORM, **(headers or {})}
        response = await self._send(self._request("POST", url, kind, body, basic))
        if response.status != 200:
            raise FederationError(f"{_without_query(url)} answered {response.status}")
        return response.body

    async def exchange(self, url: str, form: Mapping[str, str], basic: tuple[str, Secret] | None) -> Document:
        """The response of a token endpoint (RFC 6749 section 4.1.3). Raises FederationError."""
        headers, body = {**_ACCEPT_JSON, "Content-Type": _FORM}, urllib.parse.urlencode(form).encode()
        return await self._send_for_object(self._request("POST", url, headers, body, basic))

    async def userinfo(self, url: str, access_token: str) -> Document | str:
        """The claims of a user, or the JWT with them (OpenID Connect Core 1.0, 5.3.2). Raises FederationError."""
        if not access_token.isascii() or not access_token.isprintable():
            raise FederationError("its access token cannot be sent in a header")
        headers = {**_ACCEPT_CLAIMS, "Authorization": f"Bearer {access_token}"}
        response = await self._send(self._request("GET", url, headers))
        if (
            response.status == 200
            and response.headers.get("content-type", "").partition(";")[0].strip().lower() == _JWT
        ):
            return response.body.decode("ascii", "replace").strip()
        return _object(_parse(response, _without_query(url)), url)

    async def get_json(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        basic: tuple[str, Secret] | None = None,
        name: str = "",
    ) -> Any:
        """The JSON of a resource. Raises FederationError; `name` replaces a secret URL in its message."""
        request = self._request("GET", url, {**_ACCEPT_JSON, **(headers or {})}, basic=basic)
        return await self._send_for_json(request, name)

    async def post_json(self, url: str, body: Document, headers: Mapping[str, str]) -> Document:
        """Post a JSON object and return the JSON object of the response. Raises FederationError."""
        kind = {**_ACCEPT_JSON, "Content-Type": "application/json", **headers}
        return await self._send_for_object(self._request("POST", url, kind, json.dumps(body).encode()))

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def _get_cached(self, url: str, now: Instant, max_age_seconds: int) -> Document:
        request = self._request("GET", url, _ACCEPT_JSON, max_bytes=_MAX_CACHED_BYTES)
        return await self._cache.get(url, now, max_age_seconds, functools.partial(self._send_for_object, request))

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        basic: tuple[str, Secret] | None = None,
        max_bytes: int = _MAX_RESPONSE_BYTES,
    ) -> Request:
        return Request(
            method=method,
            url=url,
            headers=headers,
            body=body,
            connect_timeout_ms=self._settings.connect_timeout,
            read_timeout_ms=self._settings.read_timeout,
            basic=_escaped(basic),
            max_response_bytes=max_bytes,
        )

    async def _send_for_object(self, request: Request) -> Document:
        """The JSON object of the response."""
        return _object(await self._send_for_json(request), request.url)

    async def _send_for_json(self, request: Request, name: str = "") -> Any:
        return _parse(await self._send(request, name), name or _without_query(request.url))

    async def _send(self, request: Request, name: str = "") -> Response:
        """The response, from the URL that overrides the origin of the request, if any."""
        url, source = request.url, name or _without_query(request.url)
        origin = "/".join(url.split("/", 3)[:3])
        request = dataclasses.replace(
            request, url=self._settings.endpoint_overrides.get(origin, origin) + url[len(origin) :]
        )
        host = urllib.parse.urlsplit(url).netloc.lower()
        if self._hosts.queue_length(host) >= self._max_queued_per_host:
            raise FederationError(f"too many requests to {host} are queued")
        try:
            async with self._hosts.held(host):
                response = await self._http.request(request)
        except OutboundError as error:
            raise FederationError(f"no answer from {source}: {error.message}") from error
        if response.truncated:
            raise FederationError(f"the response of {source} is too large")
        return response


class _DocumentCache:
    """Caches fetched documents by URL; concurrent callers share a fetch."""

    def __init__(self) -> None:
        self._entries: LRUCache[str, tuple[Instant, Document | FederationError]] = LRUCache(_MAX_CACHE_ENTRIES)
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._budgets: LRUCache[str, tuple[float, Instant]] = LRUCache(_MAX_CACHE_ENTRIES)
        self._renewed: LRUCache[tuple[str, str], Instant] = LRUCache(_MAX_RENEWED)

    async def get(
        self, url: str, now: Instant, max_age_seconds: int, load: Callable[[], Awaitable[Document]]
    ) -> Document:
        """The cached document if it is no older than `max_age_seconds`, else the result of `load`.

        Raises FederationError, also a cached one.
        """
        cached = self._cached(url, now, max_age_seconds)
        # A document that is known is not held up by a renewal.
        if cached is None:
            async with self._locks.setdefault(url, asyncio.Lock()):
                cached = self._cached(url, now, max_age_seconds) or await self._load(url, now, load)
        if isinstance(cached, FederationError):
            raise FederationError(str(cached)) from cached
        return cached

    async def renew(
        self, url: str, now: Instant, lacking: Document, kid: str, load: Callable[[], Awaitable[Document]]
    ) -> Document:
        """A newer document than `lacking`, or `lacking` if there is none or the limit is reached.

        Raises FederationError; the cached document then stays in use.
        """
        async with self._locks.setdefault(url, asyncio.Lock()):
            _, cached = self._entries.get(url, (now, lacking))
            # A concurrent caller may have fetched it.
            if isinstance(cached, dict) and cached is not lacking:
                return cached
            if not self._may_renew(url, kid[:_MAX_KID], now):
                return lacking
            found = await load()
            self._entries[url] = (now, found)
            return found

    def _may_renew(self, url: str, kid: str, now: Instant) -> bool:
        """Return whether to fetch for a key id: once in `REFETCH_SECONDS`, and within the token bucket of the URL."""
        if later(self._renewed.get((url, kid), Instant(0)), seconds=REFETCH_SECONDS) > now:
            return False
        budget, since = self._budgets.get(url, (float(REFETCH_BURST), now))
        budget = min(float(REFETCH_BURST), budget + (now - since) / 1000 / REFETCH_SECONDS)
        if budget < 1:
            return False
        self._budgets[url] = (budget - 1, now)
        self._renewed[url, kid] = now
        return True

    def _cached(self, url: str, now: Instant, max_age_seconds: int) -> Document | FederationError | None:
        fetched, cached = self._entries.get(url, (Instant(0), None))
        if isinstance(cached, FederationError):
            max_age_seconds = _FAILURE_CACHE_SECONDS
        return cached if cached is not None and later(fetched, seconds=max_age_seconds) > now else None

    async def _load(
        self, url: str, now: Instant, load: Callable[[], Awaitable[Document]]
    ) -> Document | FederationError:
        found: Document | FederationError
        try:
            found = await load()
        except FederationError as error:
            found = error
        self._entries[url] = (now, found)
        return found


def _object(found: Any, url: str) -> Document:
    if not isinstance(found, dict):
        raise FederationError(f"{_without_query(url)} did not return a JSON object")
    return found


def _parse(response: Response, source: str) -> Any:
    try:
        found: Any = json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise FederationError(f"{source} answered {response.status} without JSON") from error
    if response.status != 200:
        # Only the error code (RFC 6749 section 5.2): a description may repeat parts of the request.
        reason = str(found.get("error", ""))[:100] if isinstance(found, dict) else ""
        raise FederationError(f"{source} answered {response.status} {reason}".strip())
    return found


def _without_query(url: str) -> str:
    """The URL without its query, which may contain secrets."""
    return url.partition("?")[0]


def _escaped(basic: tuple[str, Secret] | None) -> tuple[str, Secret] | None:
    """Client id and secret, form-encoded for HTTP Basic authentication (RFC 6749 section 2.3.1)."""
    if basic is None:
        return None
    return urllib.parse.quote_plus(basic[0]), Secret(urllib.parse.quote_plus(basic[1]))
