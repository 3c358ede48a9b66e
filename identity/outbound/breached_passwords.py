"""Where breached passwords are looked for: a local file of SHA-1 hashes, or a service that is asked for a range.

Neither may stand in the way of a login: what cannot be found out is None.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final, Protocol

import structlog

from identity.config import Breaches
from identity.outbound.http import HttpClient, OutboundError, Request

_log = structlog.get_logger(__name__)

_HEX: Final = 40
_PREFIX: Final = 5
_LINE_BYTES: Final = 256
_ANSWER_BYTES: Final = 262_144
_REST_SECONDS: Final = 30.0


class BreachedPasswordSource(Protocol):
    """A collection of hashes."""

    async def has(self, digest: str) -> bool | None:
        """Whether an upper-case SHA-1 is among them; None when that cannot be found out now."""

    async def close(self) -> None:
        """Let go of what is held."""


class NoBreachedPasswords:
    """Nothing is known to be breached but the common passwords."""

    async def has(self, digest: str) -> bool | None:  # noqa: ARG002 (there is nothing to look into)
        """Never."""
        return False

    async def close(self) -> None:
        """There is nothing to let go of."""


class HashFile:
    """A text file with a hash in each line, sorted, in either case; what follows a colon is not looked at.

    It is searched where it lies, so that its size costs no memory.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    async def has(self, digest: str) -> bool | None:
        """Some thirty short reads, in a thread."""
        try:
            return await asyncio.to_thread(self._search, digest.upper().encode())
        except OSError as error:
            _log.warning("the file of breached passwords cannot be read", error=str(error))
            return None

    async def close(self) -> None:
        """The file is opened for each search: a new one may take its place at any time."""

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


class RangeService:
    """A service with k-anonymity: it is told five hex digits of a hash, and answers with the rest of all that it has.

    After a failure it is left alone for a while, so that logins do not all wait for its time limit.
    """

    def __init__(self, http: HttpClient, settings: Breaches) -> None:
        self._http = http
        self._settings = settings
        self._rests_until = 0.0

    async def has(self, digest: str) -> bool | None:
        """Asked with padding, so that the length of the answer tells nobody which range it was."""
        if time.monotonic() < self._rests_until:
            return None
        request = Request(
            method="GET",
            url=f"{self._settings.url}{digest[:_PREFIX]}",
            headers={"Accept": "text/plain", "Add-Padding": "true"},
            body=None,
            connect_timeout_ms=self._settings.connect_timeout,
            read_timeout_ms=self._settings.read_timeout,
            max_response_bytes=_ANSWER_BYTES,
        )
        try:
            answer = await self._http.request(request)
        except OutboundError as error:
            if error.kind != "busy":  # which says nothing of the service
                self._failed(error.message)
            return None
        if answer.status != 200 or answer.truncated:
            self._failed(f"status {answer.status}, {len(answer.body)} bytes")
            return None
        return _is_in(answer.body.decode("ascii", "replace"), digest[_PREFIX:])

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()

    def _failed(self, reason: str) -> None:
        self._rests_until = time.monotonic() + _REST_SECONDS
        _log.warning("the service of breached passwords did not answer", reason=reason, pause_seconds=_REST_SECONDS)


def source_of(settings: Breaches, user_agent: str) -> BreachedPasswordSource:
    """The source that an operator chose."""
    if settings.source == "file" and settings.file is not None:
        return HashFile(settings.file)
    if settings.source == "range":
        http = HttpClient(
            allowed_networks=settings.allowed_networks, max_connections=20, max_waiting=200, user_agent=user_agent
        )
        return RangeService(http, settings)
    return NoBreachedPasswords()


def _hash_after(descriptor: int, position: int) -> bytes | None:
    """The hash in the first line that begins at a position or later; None when there is no such line."""
    before = max(0, position - 1)
    block = os.pread(descriptor, _LINE_BYTES, before)
    if position > 0:
        _, newline, block = block.partition(b"\n")
        if not newline:
            return None
    return block[:_HEX].upper() if len(block) >= _HEX else None


def _is_in(answer: str, suffix: str) -> bool:
    """Whether a range has a hash; lines that pad it have a count of nought."""
    for line in answer.splitlines():
        found, _, count = line.strip().partition(":")
        if found.upper() == suffix:
            return count.strip() != "0"
    return False
