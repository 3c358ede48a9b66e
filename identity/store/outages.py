"""The errors of MongoDB and Redis that mean "not available now": one table for each store.

A server that cannot be reached raises an error of its own in the driver. One that answers, and refuses the command for
a reason that ends by itself or that an operator ends, is recognized by the code of its answer. Whatever is not listed
here is a fault of the service, and stays one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo import errors
from redis import exceptions as redis_errors

REDIS_CODES: Final[Mapping[str, str]] = {
    "BUSY": "a script occupies the server",
    "CLUSTERDOWN": "a part of the cluster has no master",
    "LOADING": "the server loads its data",
    "MASTERDOWN": "a replica has lost its master",
    "MISCONF": "the server cannot write to its disk",
    "NOREPLICAS": "too few replicas are connected (min-replicas-to-write)",
    "OOM": "the memory limit is reached (maxmemory)",
    "READONLY": "the server is a replica",
    "TRYAGAIN": "a slot of the cluster is being moved",
}
"""The first word of an error reply of Redis, and what it says about the server."""

MONGODB_CODES: Final[Mapping[int, str]] = {
    6: "HostUnreachable",
    7: "HostNotFound",
    24: "LockTimeout",
    43: "CursorNotFound",
    50: "MaxTimeMSExpired",
    64: "WriteConcernFailed",
    79: "UnknownReplWriteConcern",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    100: "UnsatisfiableWriteConcern",
    112: "WriteConflict",
    133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet",
    175: "QueryPlanKilled",
    189: "PrimarySteppedDown",
    202: "NetworkInterfaceExceededTimeLimit",
    225: "TransactionTooOld",
    239: "SnapshotTooOld",
    246: "SnapshotUnavailable",
    251: "NoSuchTransaction",
    262: "ExceededTimeLimit",
    290: "TransactionExceededLifetimeLimitSeconds",
    317: "ConnectionPoolExpired",
    365: "TemporarilyUnavailable",
    462: "IngressRequestRateLimitExceeded",
    9001: "SocketException",
    10058: "NotPrimaryLegacy",
    10107: "NotWritablePrimary",
    11600: "InterruptedAtShutdown",
    11601: "Interrupted",
    11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
    14031: "OutOfDiskSpace",
}
"""The codes of MongoDB for a command that another moment, member or primary would execute."""

_MONGODB_LABELS: Final = (
    "RetryableError",
    "RetryableWriteError",
    "SystemOverloadedError",
    "TransientTransactionError",
    "UnknownTransactionCommitResult",
)


class MongoRefusal(errors.OperationFailure):
    """MongoDB answered that it cannot execute the command now; it has the code and the labels of the answer."""


class TransactionInterrupted(MongoRefusal):
    """The primary was lost during a transaction, which MongoDB's specification therefore has repeated as a whole."""

    def __init__(self) -> None:
        super().__init__("the transaction ended with the primary", None, {"errorLabels": ["TransientTransactionError"]})


class RedisRefusal(redis_errors.ResponseError):
    """Redis answered that it cannot execute the command now; `code` is a key of `REDIS_CODES`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


OUTAGES: Final[tuple[type[Exception], ...]] = (
    errors.ConnectionFailure,
    errors.ExecutionTimeout,
    errors.WriteConcernError,
    MongoRefusal,
    redis_errors.ClusterError,
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    RedisRefusal,
)
"""A store is unavailable: the command may or may not have been executed, and the caller may repeat it later."""


def of_mongodb(error: errors.OperationFailure) -> errors.OperationFailure:
    """Return a failure as MongoRefusal if it is an outage, and otherwise unchanged.

    A bulk write fails with an outage if one of its parts does, or if its write concern was not satisfied.
    """
    if isinstance(error, OUTAGES):
        return error
    details: Mapping[str, Any] = error.details or {}
    unacknowledged = details.get("writeConcernErrors", ())
    codes = {error.code, *(part["code"] for part in (*details.get("writeErrors", ()), *unacknowledged))}
    has_label = any(error.has_error_label(label) for label in _MONGODB_LABELS)
    if not (codes & MONGODB_CODES.keys() or unacknowledged or has_label):
        return error
    code = next((code for code in codes if code in MONGODB_CODES), error.code)
    labels = [label for label in _MONGODB_LABELS if error.has_error_label(label)]
    # Without the message and the details of the driver: those of a bulk write contain whole documents.
    return MongoRefusal(MONGODB_CODES.get(code or 0, "write concern"), code, {"errorLabels": labels})


def of_redis(error: Exception) -> Exception:
    """Return an error reply as RedisRefusal if it is an outage, and otherwise unchanged."""
    if not isinstance(error, redis_errors.RedisError):
        return error
    # The client removes the codes that it knows from the message.
    code = error.status_code or str(error).partition(" ")[0]
    return RedisRefusal(str(error), code) if code in REDIS_CODES else error


def reason(error: Exception) -> str:
    """Return why a store is unavailable, for operators: neither addresses nor documents."""
    if isinstance(error, RedisRefusal):
        return f"{error.code}: {REDIS_CODES[error.code]}"
    if isinstance(error, MongoRefusal):
        return f"{error.code}: {MONGODB_CODES.get(error.code or 0, 'write concern')}"
    return type(error).__name__
