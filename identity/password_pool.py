"""Password hashing off the event loop, in one bounded pool of threads: the costly schemes let go of the GIL."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import ctypes
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from identity.call import Document
from identity.domain.passwords import password_hashing
from identity.domain.passwords.password_hashing import MAXIMUM_BYTES, StoredPassword
from identity.errors import FieldError, Unavailable

_WAITING_PER_THREAD = 64
_QUIET_SECONDS = 5.0

R = TypeVar("R")


class PasswordPool:
    """Hashes and verifies. At most one thread per core works; a bounded number of callers wait."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._executor = concurrent.futures.ThreadPoolExecutor(self._threads, thread_name_prefix="passwords")
        self._pending = 0
        self._decoys: dict[tuple[str, int], StoredPassword] = {}
        self._rest: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def hash(self, password: str, scheme: str, factor: int) -> StoredPassword:
        """Hash a password with a fresh salt. Raises Unavailable when too many wait, ValueError for one too long.

        The tenant's rules refuse long passwords before; this only keeps a caller who forgot them from costing much.
        """
        if _is_too_long(password):
            raise ValueError("a password is longer than any rule allows")
        return await self._run(password_hashing.hash_password, password, scheme, factor)

    async def hash_many(self, wanted: Iterable[tuple[str, str, int]]) -> AsyncIterator[StoredPassword]:
        """Hash very many, each (password, scheme, factor), in their order; logins go on beside that.

        Half of the threads work at them, one at least, and never more are waiting. Raises ValueError as `hash` does.
        """
        limit = max(1, self._threads // 2)
        rest, under_way = iter(wanted), collections.deque[asyncio.Task[StoredPassword]]()
        try:
            while True:
                while len(under_way) < limit and (one := next(rest, None)) is not None:
                    under_way.append(asyncio.create_task(self.hash(*one)))
                if not under_way:
                    return
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()

    async def verify(self, password: str, stored: StoredPassword) -> bool:
        """Whether this is the password. Raises Unavailable when too many wait.

        One that is too long is wrong, and that takes as long as for any other.
        """
        if _is_too_long(password):
            await self._run(password_hashing.verify, "", stored)
            return False
        return await self._run(password_hashing.verify, password, stored)

    async def verify_decoy(self, password: str, scheme: str, factor: int) -> None:
        """Spend the time of a verification for a user who does not exist, so that nobody can tell."""
        key = (scheme, factor)
        if key not in self._decoys:
            self._decoys[key] = await self.hash("decoy", scheme, factor)
        await self.verify(password, self._decoys[key])

    def close(self) -> None:
        """Let the threads go."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[..., R], *arguments: object) -> R:
        if self._pending >= self._threads * _WAITING_PER_THREAD:
            raise Unavailable("Too many logins at once; try again.", log_detail="password pool is full")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        finally:
            self._pending -= 1
            self.tidy_later()

    def tidy_later(self) -> None:
        """Tidy up once nothing is hashed: argon2 leaves 19 MiB in the heap for every thread, an import more."""
        if self._rest is not None:
            self._rest.cancel()
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(_QUIET_SECONDS, self._executor.submit, _give_memory_back)


def _is_too_long(password: str) -> bool:
    return len(password) > MAXIMUM_BYTES or len(password.encode()) > MAXIMUM_BYTES


def _give_memory_back() -> None:
    """Hand freed memory to the system, where the C library has a way to (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def scheme_problems(configuration: Document, path: str) -> list[FieldError]:
    """What is wrong with a tenant's passwordEncryptionConfiguration."""
    scheme, factor = configuration["encryptionScheme"], configuration["encryptionSchemeFactor"]
    if not password_hashing.is_known(scheme):
        field = f"{path}.encryptionScheme"
        return [
            FieldError.of(
                "invalid", field, f"The [{field}] must be one of {', '.join(sorted(password_hashing.SCHEMES))}."
            )
        ]
    if not password_hashing.is_acceptable_factor(scheme, factor):
        field = f"{path}.encryptionSchemeFactor"
        return [FieldError.of("invalid", field, f"The [{field}] is out of range for {scheme}.")]
    return []
