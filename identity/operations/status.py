"""Whether the service and its stores work, and which release of the API it speaks."""

from __future__ import annotations

import asyncio
import dataclasses

from identity.call import Document
from identity.errors import Unavailable
from identity.services import Services
from identity.store import mongo, outages, redis

API_VERSION = "1.69.0"
"""The release of the published API that the service speaks: clients branch on it."""

DATABASE_UNREACHABLE = 452

INDEXES = ("fusionauth_entity", "fusionauth_user")
"""The search index names in the API. There are no such indexes: searches read the collections."""

STORE_ERRORS = (*mongo.STORE_ERRORS, *redis.STORE_ERRORS)
"""The exceptions of a failing store."""

# Load balancers ask every few seconds and take silence for a failure; the driver would look for a server for longer.
_PATIENCE_SECONDS = 2
_SECONDS = 5
"""Retry-After of a health check while Redis refuses writes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """Whether both stores answer, and the refusal of one that answers and executes no writes."""

    mongodb: bool
    redis: bool
    redis_refusal: outages.RedisRefusal | None = None

    @property
    def status(self) -> int:
        """The status of /api/health."""
        if self.redis_refusal is not None and self.mongodb:
            return Unavailable.status
        return 200 if self.mongodb and self.redis else 500

    def require_writable(self) -> None:
        """Raise Unavailable, with the reason, while Redis refuses writes."""
        if self.status == Unavailable.status and self.redis_refusal is not None:
            message = f"Redis refuses writes ({self.redis_refusal.code})."
            raise Unavailable(message, log_detail=outages.reason(self.redis_refusal), retry_after_seconds=_SECONDS)


async def health(services: Services) -> Health:
    """Query both stores."""
    mongodb, redis_failure = await asyncio.gather(_answers_mongodb(services), _redis_failure(services))
    refusal = redis_failure if isinstance(redis_failure, outages.RedisRefusal) else None
    return Health(mongodb, redis_failure is None, refusal)


async def status(services: Services, *, in_full: bool) -> tuple[int, Document]:
    """Return the status code of /api/status and its body; its members are for callers who may see them."""
    found = await health(services)
    body: Document = {}
    if in_full:
        redis_state = "ok" if found.redis else "down"
        if found.redis_refusal is not None:
            redis_state = outages.reason(found.redis_refusal)
        body = {"version": API_VERSION, "mongodb": "ok" if found.mongodb else "down", "redis": redis_state}
        if is_quiesced(services):
            body["quiesced"] = True
        if found.mongodb and (fault := await _master_key_fault(services)) is not None:
            body["masterKey"] = fault
    return (found.status if found.mongodb else DATABASE_UNREACHABLE), body


def is_quiesced(services: Services) -> bool:
    """Whether this process sends no webhook, mail or message until an operator releases it."""
    return services.outbound.deliverer.quiescence.is_active


async def _master_key_fault(services: Services) -> str | None:
    """Why this process could not start again: its master key file was lost or replaced after its start."""
    try:
        return await services.runtime.instance.master_key_fault(services.config.master_key_file)
    except mongo.STORE_ERRORS:
        return None


async def _answers_mongodb(services: Services) -> bool:
    try:
        await asyncio.wait_for(services.runtime.database.ping(), _PATIENCE_SECONDS)
    except (*mongo.STORE_ERRORS, TimeoutError):
        return False
    return True


async def _redis_failure(services: Services) -> Exception | None:
    """Write a key, because a server that answers may refuse writes; return the failure."""
    try:
        await asyncio.wait_for(services.runtime.redis.require_writable(), _PATIENCE_SECONDS)
    except (*redis.STORE_ERRORS, TimeoutError) as error:
        return error
    return None
