"""Whether the service and its stores work, and which release of the API it speaks."""

from __future__ import annotations

import asyncio

from identity.call import Document
from identity.services import Services
from identity.store import mongo, redis

API_VERSION = "1.50.0"
"""The release of the published API that the service speaks: clients branch on it."""

DATABASE_UNREACHABLE = 452

INDEXES = ("fusionauth_entity", "fusionauth_user")
"""The search index names in the API. There are no such indexes: searches read the collections."""

STORE_ERRORS = (*mongo.STORE_ERRORS, *redis.STORE_ERRORS)
"""The exceptions of a failing store."""

# Load balancers ask every few seconds and take silence for a failure; the driver would look for a server for longer.
_PATIENCE_SECONDS = 2


async def is_healthy(services: Services) -> bool:
    """Whether MongoDB and Redis answer."""
    return all(await asyncio.gather(_answers_mongodb(services), _answers_redis(services)))


async def status(services: Services, *, in_full: bool) -> tuple[int, Document]:
    """The status code of /api/status and its body; `version` only for callers who may see it."""
    mongodb, cache = await asyncio.gather(_answers_mongodb(services), _answers_redis(services))
    body: Document = {}
    if in_full:
        body = {
            "version": API_VERSION,
            "mongodb": "ok" if mongodb else "down",
            "redis": "ok" if cache else "down",
        }
        if is_quiesced(services):
            body["quiesced"] = True
        if mongodb and (fault := await _master_key_fault(services)) is not None:
            body["masterKey"] = fault
    if not mongodb:
        return DATABASE_UNREACHABLE, body
    return (200 if cache else 500), body


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


async def _answers_redis(services: Services) -> bool:
    try:
        await asyncio.wait_for(services.runtime.redis.ping(), _PATIENCE_SECONDS)
    except (*redis.STORE_ERRORS, TimeoutError):
        return False
    return True
