"""The key sets that clients publish at their `jwksURI`: fetched through the address guard, kept for an hour.

They are fetched by a client of their own, and each tenant has only so many fetches at a time and so many places among
what is kept: key sets of one tenant that hang or are many take nothing from another. A key that is not in what is kept
is asked for again once a minute at the most, because anybody may name one.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
from typing import Any, Final

from identity.call import Document
from identity.ids import TenantId
from identity.instants import Instant, later
from identity.outbound.http import HttpClient, OutboundError, Request, Response

KEPT_SECONDS: Final = 3600
"""How long a key set is used without being asked for again."""
REFETCH_SECONDS: Final = 60
"""How often at most it is asked for because somebody names a key that is not in it."""
FETCHES_PER_TENANT: Final = 4
"""How many key sets of one tenant are fetched at a time; further ones are refused at once."""
_FAILED_SECONDS: Final = 10
_MAXIMUM_ENTRIES: Final = 500
_MAXIMUM_BYTES: Final = 65_536
_MAXIMUM_KEYS: Final = 50
_KEPT_MEMBERS: Final = ("kty", "kid", "use", "alg", "crv", "n", "e", "x", "y")
_LONGEST_MEMBER: Final = 2048
_ACCEPT: Final = "application/jwk-set+json, application/json"


class ClientKeysError(Exception):
    """A key set that cannot be had; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """What is known of one address: the key set and when it came, and what came of the last attempt."""

    tried: Instant
    fetched: Instant
    jwks: Document | None = None
    failure: str = ""


_Place = tuple[TenantId, str]


class ClientKeyFetcher:
    """Asks for key sets, and remembers them."""

    def __init__(self, http: HttpClient, *, connect_timeout_ms: int, read_timeout_ms: int) -> None:
        self._http = http
        self._connect_timeout_ms = connect_timeout_ms
        self._read_timeout_ms = read_timeout_ms
        self._entries: collections.OrderedDict[_Place, _Entry] = collections.OrderedDict()
        self._fetches: dict[_Place, asyncio.Task[_Entry]] = {}

    async def get(self, tenant_id: TenantId, url: str, now: Instant, *, again: bool = False) -> Document:
        """The key set that a client of this tenant publishes; `again`: a key is not in the one that is kept.

        The same document as long as it is kept. Raises ClientKeysError.
        """
        place = (tenant_id, url)
        entry = self._entries.get(place)
        if entry is None or _is_due(entry, now, again=again):
            entry = await asyncio.shield(self._fetch(place, now))
        else:
            self._entries.move_to_end(place)
        if entry.jwks is None:
            raise ClientKeysError(entry.failure)
        return entry.jwks

    async def close(self) -> None:
        """Give up what is being fetched, and close every connection."""
        for fetch in tuple(self._fetches.values()):
            fetch.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)
        await self._http.close()

    def _fetch(self, place: _Place, now: Instant) -> asyncio.Task[_Entry]:
        """The fetch that is under way, or a new one. Raises ClientKeysError when the tenant has too many."""
        if place not in self._fetches:
            if sum(tenant_id == place[0] for tenant_id, _ in self._fetches) >= FETCHES_PER_TENANT:
                raise ClientKeysError("too many key sets of this tenant are being fetched")
            fetch = asyncio.create_task(self._fetched(place, now))
            self._fetches[place] = fetch
            fetch.add_done_callback(lambda _: self._fetches.pop(place, None))
        return self._fetches[place]

    async def _fetched(self, place: _Place, now: Instant) -> _Entry:
        """A failure leaves the key set that is there for as long as it may be kept."""
        known = self._entries.get(place)
        try:
            entry = _Entry(tried=now, fetched=now, jwks=await self._asked(place[1]))
        except ClientKeysError as error:
            entry = _Entry(tried=now, fetched=now, failure=str(error))
            if known is not None and known.jwks is not None and _is_fresh(known, now):
                entry = dataclasses.replace(known, tried=now)
        self._entries[place] = entry
        self._entries.move_to_end(place)
        if len(self._entries) > _MAXIMUM_ENTRIES:
            self._make_room()
        return entry

    def _make_room(self) -> None:
        """What was not used for longest goes, of the tenant that has most."""
        counts = collections.Counter(tenant_id for tenant_id, _ in self._entries)
        [(largest, _)] = counts.most_common(1)
        del self._entries[next(place for place in self._entries if place[0] == largest)]

    async def _asked(self, url: str) -> Document:
        request = Request(
            method="GET",
            url=url,
            headers={"Accept": _ACCEPT},
            body=None,
            connect_timeout_ms=self._connect_timeout_ms,
            read_timeout_ms=self._read_timeout_ms,
            max_response_bytes=_MAXIMUM_BYTES,
        )
        try:
            return _key_set(await self._http.request(request))
        except OutboundError as error:
            raise ClientKeysError(f"no answer: {error.message}") from error


def _is_fresh(entry: _Entry, now: Instant) -> bool:
    return later(entry.fetched, seconds=KEPT_SECONDS) > now


def _is_due(entry: _Entry, now: Instant, *, again: bool) -> bool:
    if entry.jwks is None:
        return later(entry.tried, seconds=_FAILED_SECONDS) <= now
    return not _is_fresh(entry, now) or (again and later(entry.tried, seconds=REFETCH_SECONDS) <= now)


def _key_set(answer: Response) -> Document:
    if answer.status != 200 or answer.truncated:
        raise ClientKeysError("more than a key set" if answer.truncated else f"the answer was {answer.status}")
    try:
        found: Any = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise ClientKeysError("the answer is not JSON") from error
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ClientKeysError("the answer is not a JWK Set")
    return {"keys": [_trimmed(entry) for entry in found["keys"][:_MAXIMUM_KEYS] if isinstance(entry, dict)]}


def _trimmed(entry: Document) -> Document:
    """Of a key only what says which it is: certificates and the like would fill the memory."""
    kept = {name: entry[name] for name in _KEPT_MEMBERS if name in entry}
    return {name: value for name, value in kept.items() if isinstance(value, str) and len(value) <= _LONGEST_MEMBER}
