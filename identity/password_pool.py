"""Password hashing in a bounded thread pool that tenants share fairly; the expensive schemes release the GIL."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import ctypes
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import prometheus_client

from identity.call import Document
from identity.domain.passwords import password_hashing
from identity.domain.passwords.password_hashing import MAXIMUM_BYTES, StoredPassword
from identity.errors import FieldError, Unavailable

_PENDING_PER_THREAD = 128
_PENDING_PER_THREAD_AND_TENANT = 64
_QUIET_SECONDS = 5.0
_BUSY = "Too many logins at once; try again."

R = TypeVar("R")


class PasswordPool:
    """Hashes and verifies passwords in at most one thread per core, with a bounded queue."""

    def __init__(self, threads: int | None = None, *, registry: prometheus_client.CollectorRegistry) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._executor = concurrent.futures.ThreadPoolExecutor(self._threads, thread_name_prefix="passwords")
        self._places = _FairPlaces(self._threads)
        queue_length = prometheus_client.Gauge(
            "identity_password_queue_length", "Passwords that wait for a thread to hash them", registry=registry
        )
        queue_length.set_function(self._places.waiting)
        self._decoys: dict[tuple[str, int], StoredPassword] = {}
        self._rest: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def hash(self, password: str, scheme: str, factor: int, *, tenant_id: str = "") -> StoredPassword:
        """Hash a password of a tenant with a new salt.

        Raises Unavailable as `verify` does, ValueError if it is too long.

        The tenant's password rules reject long passwords first; this check only limits the cost of a missing one.
        """
        if _is_too_long(password):
            raise ValueError("a password is longer than any rule allows")
        is_slow = password_hashing.is_slow(scheme, factor)
        return await self._run(tenant_id, is_slow, password_hashing.hash_password, password, scheme, factor)

    async def hash_many(self, wanted: Iterable[tuple[str, str, int, str]]) -> AsyncIterator[StoredPassword]:
        """Hash many (password, scheme, factor, tenant id) in order, using at most half of the threads.

        Raises as `hash` does.
        """
        limit = max(1, self._threads // 2)
        rest, under_way = iter(wanted), collections.deque[asyncio.Task[StoredPassword]]()
        try:
            while True:
                while len(under_way) < limit and (one := next(rest, None)) is not None:
                    under_way.append(asyncio.create_task(self.hash(*one[:3], tenant_id=one[3])))
                if not under_way:
                    return
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()

    async def verify(self, password: str, stored: StoredPassword, *, tenant_id: str = "") -> bool:
        """Return whether this is the password. Raises Unavailable if the queue is full, or memory or threads are short.

        A password that is too long is incorrect; the check takes as long as for any other.
        """
        is_slow, is_too_long = password_hashing.is_slow(stored.scheme, stored.factor), _is_too_long(password)
        compared = "" if is_too_long else password
        return await self._run(tenant_id, is_slow, password_hashing.verify, compared, stored) and not is_too_long

    async def verify_decoy(self, password: str, scheme: str, factor: int, *, tenant_id: str = "") -> None:
        """Spend the time of a verification for an unknown user, against user enumeration by response time."""
        key = (scheme, factor)
        if key not in self._decoys:
            self._decoys[key] = await self.hash("decoy", scheme, factor, tenant_id=tenant_id)
        await self.verify(password, self._decoys[key], tenant_id=tenant_id)

    def close(self) -> None:
        """Shut down the threads."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, tenant_id: str, is_slow: bool, function: Callable[..., R], *arguments: object) -> R:
        try:
            async with self._places.held(tenant_id, is_slow=is_slow):
                return await self._submit(function, *arguments)
        except MemoryError as error:
            raise Unavailable(
                _BUSY, log_detail="not enough memory to hash a password", retry_after_seconds=1
            ) from error
        finally:
            self.tidy_later()

    def _submit(self, function: Callable[..., R], *arguments: object) -> asyncio.Future[R]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        except RuntimeError as error:
            raise Unavailable(
                _BUSY, log_detail=f"no thread to hash a password: {error}", retry_after_seconds=1
            ) from error

    def tidy_later(self) -> None:
        """Return freed memory to the system when idle: argon2 leaves 19 MiB in the heap per thread."""
        if self._rest is not None:
            self._rest.cancel()
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(_QUIET_SECONDS, self._executor.submit, _give_memory_back)


class _FairPlaces:
    """The places of the threads: tenants take turns, and slow hashes use at most half of the places.

    Without turns, the logins of one tenant would queue behind all those of another one.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._slow_places = threads, max(1, threads // 2)
        self._running = self._running_slow = 0
        self._pending: collections.Counter[str] = collections.Counter()
        self._queues: collections.OrderedDict[str, collections.deque[tuple[asyncio.Future[None], bool]]]
        self._queues = collections.OrderedDict()

    def waiting(self) -> int:
        """Return how many requests wait for a place."""
        return self._pending.total() - self._running

    @contextlib.asynccontextmanager
    async def held(self, tenant_id: str, *, is_slow: bool) -> AsyncIterator[None]:
        """Hold a place during the block. Raises Unavailable if the queue, or the tenant's part of it, is full."""
        is_full = self._pending.total() >= self._threads * _PENDING_PER_THREAD
        if is_full or self._pending[tenant_id] >= self._threads * _PENDING_PER_THREAD_AND_TENANT:
            raise Unavailable(_BUSY, log_detail="password pool is full", retry_after_seconds=1)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant_id, collections.deque()).append((place, is_slow))
        self._pending[tenant_id] += 1
        self._admit()
        try:
            await place
            yield
        finally:
            self._release(tenant_id, place, is_slow=is_slow)

    def _release(self, tenant_id: str, place: asyncio.Future[None], *, is_slow: bool) -> None:
        waiting = self._queues.get(tenant_id, collections.deque())
        if (place, is_slow) in waiting:
            waiting.remove((place, is_slow))
        else:
            self._running -= 1
            self._running_slow -= is_slow
        self._pending[tenant_id] -= 1
        if not self._pending[tenant_id]:
            del self._pending[tenant_id]
        self._admit()

    def _admit(self) -> None:
        """Give free places to the first request of each tenant in turn, as long as one of them may run."""
        while self._running < self._threads and (found := self._next()) is not None:
            place, is_slow = found
            self._running += 1
            self._running_slow += is_slow
            if not place.done():
                place.set_result(None)

    def _next(self) -> tuple[asyncio.Future[None], bool] | None:
        for tenant_id, queue in list(self._queues.items()):
            if not queue:
                del self._queues[tenant_id]
            elif not queue[0][1] or self._running_slow < self._slow_places:
                self._queues.move_to_end(tenant_id)
                return queue.popleft()
        return None


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
