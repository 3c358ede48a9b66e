"""What a veto must leave as it was: everything that is kept of a tenant, in MongoDB, in Redis and in the cache.

The record of the veto itself stays, of course: the log of webhook events, its counters, and the event log.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from identity import app
from identity.ids import TenantId
from tests import doors

_RAW = CodecOptions(document_class=RawBSONDocument)
_ABOUT_THE_VETO = frozenset({"events", "deliveries", "webhook_health", "counters", "event_logs"})
"""Collections that tell of what webhooks were asked."""
_USED_UP_BY_ANY_REQUEST = ":used:"
"""Ids, such as a client's assertions, that count once whatever the request comes to."""


@contextlib.asynccontextmanager
async def unchanged(service: app.Service, tenant_id: str, *, except_for: Sequence[str] = ()) -> AsyncIterator[None]:
    """Nothing that is kept of this tenant differs after the block: no object, no mail, no token, no cached user.

    `except_for`: parts of names, such as `:limit:` for a failure that has to count although it was vetoed.
    """
    before = await kept(service, tenant_id)
    assert before["users"] or before["tenants"], "a tenant of which nothing is kept would prove nothing"
    yield
    after = await kept(service, tenant_id)
    differences = {key: found for key, found in _differences(before, after).items() if not _may_differ(key, except_for)}
    # What differs is said here: what this file asserts is not rewritten by pytest.
    assert not differences, f"a veto left traces: {differences}"
    await _require_honest_cache(service, tenant_id)


async def kept(service: app.Service, tenant_id: str) -> dict[str, dict[str, Any]]:
    """Collection -> id -> document for all that mentions the tenant; `redis` -> key -> value."""
    database = doors.database(service).motor
    found: dict[str, dict[str, Any]] = {}
    for name in await database.list_collection_names():
        if name not in _ABOUT_THE_VETO:
            documents = [each async for batch in database[name].find_raw_batches() for each in _about(tenant_id, batch)]
            found[name] = {str(document["_id"]): document for document in documents}
    return {**found, "redis": await _kept_in_redis(service, tenant_id)}


def _about(tenant_id: str, batch: bytes) -> list[dict[str, Any]]:
    """The documents of a batch that mention the tenant; all others, which are thousands, are not decoded."""
    if tenant_id.encode() not in batch:
        return []
    raw = [bytes(document.raw) for document in bson.decode_all(batch, _RAW)]
    return [bson.decode(document) for document in raw if tenant_id.encode() in document]


async def _kept_in_redis(service: app.Service, tenant_id: str) -> dict[str, Any]:
    """The keys that name the tenant, or whose value does; a counter that is back at nothing is none."""
    values = {}
    for key, value in (await _redis_values(service)).items():
        is_counter_at_rest = ":limit:" in key and value in ("0", None)
        if tenant_id in f"{key} {value}" and _USED_UP_BY_ANY_REQUEST not in key and not is_counter_at_rest:
            values[key] = value
    return values


async def _redis_values(service: app.Service) -> dict[str, Any]:
    """Every key with its value, in two round trips."""
    redis = doors.redis(service)
    client: Any = redis.client
    keys = [key async for key in client.scan_iter(match=redis.key("*"), count=10_000)]
    async with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        readable = [(key, kind) for key, kind in zip(keys, await pipeline.execute(), strict=True) if kind in _READ]
        for key, kind in readable:
            _READ[kind](pipeline, key)
        # A key may have expired, or become one of another type, between the two.
        found = await pipeline.execute(raise_on_error=False)
    return {key: value for (key, _), value in zip(readable, found, strict=True)}


_READ: dict[str, Callable[[Any, str], Any]] = {
    "string": lambda pipeline, key: pipeline.get(key),
    "hash": lambda pipeline, key: pipeline.hgetall(key),
    "set": lambda pipeline, key: pipeline.smembers(key),
    "zset": lambda pipeline, key: pipeline.zrange(key, 0, -1, withscores=True),
    "list": lambda pipeline, key: pipeline.lrange(key, 0, -1),
}


def _differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{place} {key}": (before.get(place, {}).get(key), after.get(place, {}).get(key))
        for place in {*before, *after}
        for key in {*before.get(place, {}), *after.get(place, {})}
        if before.get(place, {}).get(key) != after.get(place, {}).get(key)
    }


def _may_differ(key: str, except_for: Sequence[str]) -> bool:
    return any(part in key for part in except_for)


async def _require_honest_cache(service: app.Service, tenant_id: str) -> None:
    """What is read through the cache is what is stored."""
    users = doors.store(service, "users")
    async for document in doors.database(service).motor["users"].find({"tenantId": tenant_id}, {"_id": 1}):
        cached = await users.find_cached(TenantId(tenant_id), document["_id"])
        assert cached == await users.get(TenantId(tenant_id), document["_id"])
