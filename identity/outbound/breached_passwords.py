"""Lookup of breached passwords in a local file of SHA-1 hashes or in a k-anonymity range service.

A failing source must not prevent logins: an unknown result is None.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

import structlog

from identity.config.sections import Breaches
from identity.outbound.http import HttpClient, OutboundError, Request

_log = structlog.get_logger(__name__)

_DIGEST_LENGTH: Final = 40
_PREFIX_LENGTH: Final = 5
_LINE_BYTES: Final = 256
_MAX_RESPONSE_BYTES: Final = 262_144
_PAUSE_SECONDS: Final = 30.0


class BreachedPasswordSource:
    """A collection of hashes of breached passwords; this one, of a service without a source, contains none."""

    async def contains(self, digest: str) -> bool | None:  # noqa: ARG002
        """Whether an upper-case hexadecimal SHA-1 is in the collection; None while the source is unavailable."""
        return False

    async def close(self) -> None:
        """Release connections."""


class HashFile(BreachedPasswordSource):
    """A sorted text file with one hash per line, in either case; text after a colon is ignored.

    The search reads from the file and loads none of it into memory. Each search opens it, so that it may be replaced
    at any time.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    async def contains(self, digest: str) -> bool | None:
        """Binary search in a worker thread: about thirty short reads."""
        try:
            return await asyncio.to_thread(self._search, digest.upper().encode())
        except OSError as error:
            _log.warning("the breached password file cannot be read", error=str(error))
            return None

    def _search(self, wanted: bytes) -> bool:
        descriptor = os.open(self._file, os.O_RDONLY)
        try:
            low, high = 0, os.fstat(descriptor).st_size
            while low < high:
                middle = (low + high) // 2
                found = _hash_after(descriptor, middle)
                if found is not None and found < wanted:
                    low = middle + 1
                else:
                    high = middle
            return _hash_after(descriptor, low) == wanted
        finally:
            os.close(descriptor)


class RangeService(BreachedPasswordSource):
    """A range service: it receives the first five hex digits of a hash and returns the suffixes of all that match.

    After a failure it is not called for `_PAUSE_SECONDS`, so that logins do not each wait for its timeout.
    """

    def __init__(self, http: HttpClient, settings: Breaches) -> None:
        self._http = http
        self._settings = settings
        self._paused_until = 0.0

    async def contains(self, digest: str) -> bool | None:
        """Query the range, with padding, so that the length of the response does not reveal it."""
        if time.monotonic() < self._paused_until:
            return None
        request = Request(
            method="GET",
            url=f"{self._settings.url}{digest[:_PREFIX_LENGTH]}",
            headers={"Accept": "text/plain", "Add-Padding": "true"},
            body=None,
            connect_timeout_ms=self._settings.connect_timeout,
            read_timeout_ms=self._settings.read_timeout,
            max_response_bytes=_MAX_RESPONSE_BYTES,
        )
        try:
            response = await self._http.request(request)
        except OutboundError as error:
            if error.kind != "busy":  # a full queue is no failure of the service
                self._pause(error.message)
            return None
        if response.status != 200 or response.truncated:
            self._pause(f"status {response.status}, {len(response.body)} bytes")
            return None
        return _contains_suffix(response.body.decode("ascii", "replace"), digest[_PREFIX_LENGTH:])

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    def _pause(self, reason: str) -> None:
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        _log.warning("the breached password service failed", reason=reason, pause_seconds=_PAUSE_SECONDS)


def create_source(settings: Breaches, user_agent: str) -> BreachedPasswordSource:
    """The source that the configuration selects."""
    if settings.source == "file" and settings.file is not None:
        return HashFile(settings.file)
    if settings.source == "range":
        http = HttpClient(
            allowed_networks=settings.allowed_networks, max_connections=20, max_waiting=200, user_agent=user_agent
        )
        return RangeService(http, settings)
    return BreachedPasswordSource()


def _hash_after(descriptor: int, position: int) -> bytes | None:
    """The hash in the first line that begins at or after a position; None at the end of the file."""
    before = max(0, position - 1)
    block = os.pread(descriptor, _LINE_BYTES, before)
    if position > 0:
        _, newline, block = block.partition(b"\n")
        if not newline:
            return None
    return block[:_DIGEST_LENGTH].upper() if len(block) >= _DIGEST_LENGTH else None


def _contains_suffix(body: str, suffix: str) -> bool:
    """Whether a range contains a hash; padding has a count of zero."""
    for line in body.splitlines():
        found, _, count = line.strip().partition(":")
        if found.upper() == suffix:
            return count.strip() != "0"
    return False
