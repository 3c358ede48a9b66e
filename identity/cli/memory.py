"""Settings of the memory allocator and the garbage collector for a process that runs for long."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator

_M_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h; other C libraries ignore unknown options."""


def use_one_heap() -> None:
    """Limit glibc to one heap for all threads; call this before there are any threads.

    Memory of password hashing would otherwise stay in the heap of each thread, 19 MiB each; from the shared heap it is
    returned to the system.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)


@contextlib.contextmanager
def collection_suspended() -> Iterator[None]:
    """Suspend garbage collection while modules load, and exclude what they define, which is much and stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze_long_lived_objects() -> None:
    """Exclude the objects of the start from garbage collection.

    They live as long as the process, and each full collection would stop all requests for tens of milliseconds. Young
    objects are collected less often too: a request allocates more than the default threshold of 700.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
