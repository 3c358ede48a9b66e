"""Which errors say that a store is away, or too slow to wait for, rather than that it was asked something wrong."""

from __future__ import annotations

from typing import Final

from pymongo.errors import ConnectionFailure, ExecutionTimeout, WTimeoutError
from redis import exceptions

OUTAGES: Final[tuple[type[Exception], ...]] = (
    ConnectionFailure,
    ExecutionTimeout,
    WTimeoutError,
    exceptions.ClusterDownError,
    exceptions.ConnectionError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TimeoutError,
)
"""What has been asked may or may not have been done; asking again later is the remedy."""
