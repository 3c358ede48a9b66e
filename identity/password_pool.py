"""Password hashing in a bounded thread pool; the expensive schemes release the GIL."""

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
_BUSY = "Too many logins at once; try again."

R = TypeVar("R")


class PasswordPool:
    """Hashes and verifies passwords in at most one thread per core, with a bounded queue."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._executor = concurrent.futures.ThreadPoolExecutor(self._threads, thread_name_prefix="passwords")
        self._pending = 0
        self._decoys: dict[tuple[str, int], StoredPassword] = {}
        self._rest: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def hash(self, password: str, scheme: str, factor: int) -> StoredPassword:
        """Hash a password with a new salt. Raises Unavailable as `verify` does, ValueError if it is too long.

        The tenant's password rules reject long passwords first; this check only limits the cost of a missing one.
        """
        if _is_too_long(password):
            raise ValueError("a password is longer than any rule allows")
        return await self._run(password_hashing.hash_password, password, scheme, factor)

    async def hash_many(self, wanted: Iterable[tuple[str, str, int]]) -> AsyncIterator[StoredPassword]:
        """Hash many (password, scheme, factor) in order, using at most half of the threads. Raises as `hash` does."""
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
        """Whether this is the password. Raises Unavailable if the queue is full, or memory or threads are short.

        A password that is too long is incorrect; the check takes as long as for any other.
        """
        if _is_too_long(password):
            await self._run(password_hashing.verify, "", stored)
            return False
        return await self._run(password_hashing.verify, password, stored)

    async def verify_decoy(self, password: str, scheme: str, factor: int) -> None:
        """Spend the time of a verification for an unknown user, against user enumeration by response time."""
        key = (scheme, factor)
        if key not in self._decoys:
            self._decoys[key] = await self.hash("decoy", scheme, factor)
        await self.verify(password, self._decoys[key])

    def close(self) -> None:
        """Shut down the threads."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Callable[..., R], *arguments: object) -> R:
        if self._pending >= self._threads * _WAITING_PER_THREAD:
            raise Unavailable(_BUSY, log_detail="password pool is full")
        self._pending += 1
        try:
            return await self._submit(function, *arguments)
        except MemoryError as error:
            raise Unavailable(_BUSY, log_detail="not enough memory to hash a password") from error
        finally:
            self._pending -= 1
            self.tidy_later()

    def _submit(self, function: Callable[..., R], *arguments: object) -> asyncio.Future[R]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        except RuntimeError as error:
            raise Unavailable(_BUSY, log_detail=f"no thread to hash a password: {error}") from error

    def tidy_later(self) -> None:
        """Return freed memory to the system when idle: argon2 leaves 19 MiB in the heap per thread."""
        if self._rest is not None:
            self._rest.cancel()
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(_QUIET_SECONDS, self._executor.submit, _give_memory_back)


def _is_too_long(password: str) -> bool:
    return len(password) > MAXIMUM_BYTES or len(password.encode()) > MAXIMUM_BYTES


def _give_memory_back() -> None:
    """Return freed memory to the system, if the C library supports it (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def scheme_problems(configuration: Document, path: str) -> list[FieldError]:
    """The problems of a tenant's passwordEncryptionConfiguration."""
    scheme, factor = configuration["encryptionScheme"], configuration["encryptionSchemeFactor"]
    if not password_hashing.is_known(scheme):
        field, problem = f"{path}.encryptionScheme", f"must be one of {', '.join(sorted(password_hashing.SCHEMES))}"
    elif not password_hashing.is_acceptable_factor(scheme, factor):
        field, problem = f"{path}.encryptionSchemeFactor", f"is out of range for {scheme}"
    else:
        return []
    return [FieldError.invalid(field, problem)]
