"""The exceptions that mean a store is unavailable or too slow."""

from __future__ import annotations

from typing import Final

from pymongo.errors import ConnectionFailure, ExecutionTimeout, WTimeoutError
from redis import exceptions

OUTAGES: Final[tuple[type[Exception], ...]] = (
    ConnectionFailure,
    ExecutionTimeout,
    WTimeoutError,
    exceptions.ClusterError,
    exceptions.ConnectionError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TimeoutError,
    exceptions.TryAgainError,
)
"""The command may or may not have been executed; the caller may retry it later."""
