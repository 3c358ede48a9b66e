"""Compares the stored state of a tenant before and after a veto: MongoDB, Redis and the cache.

Records of the veto itself are ignored: the webhook event log, its counters, and the event log.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import bson

from identity import app
from identity.ids import TenantId
from tests import internals

_ABOUT_THE_VETO = frozenset({"events", "deliveries", "webhook_health", "counters", "event_logs"})
"""Collections that record deliveries to webhooks."""
_RECORDS_OF_REQUESTS = (":used:", ":failed-logins:", ":activity:")
"""Parts of keys that record a request even if it fails: consumed ids, failed logins, and counters of both."""


@contextlib.asynccontextmanager
async def unchanged(service: app.Service, tenant_id: str, *, except_for: Sequence[str] = ()) -> AsyncIterator[None]:
    """Assert that the block leaves the stored state of the tenant unchanged: objects, mails, tokens, cached users.

    `except_for`: parts of keys that may change, such as `:limit:` for a failure that counts although it was vetoed.
    """
    before = await kept(service, tenant_id)
    assert before["users"] or before["tenants"], "the tenant has no stored objects"
    yield
    after = await kept(service, tenant_id)
    differences = {key: found for key, found in _differences(before, after).items() if not _may_differ(key, except_for)}
    # pytest does not rewrite the assertions of this module, so that the message has the differences.
    assert not differences, f"the veto changed: {differences}"
    await _require_consistent_cache(service, tenant_id)


async def kept(service: app.Service, tenant_id: str) -> dict[str, dict[str, Any]]:
    """Collection -> id -> document for all documents with the tenant's id; `redis` -> key -> value."""
    database = internals.database(service).motor
    found: dict[str, dict[str, Any]] = {}
    for name in await database.list_collection_names():
        if name not in _ABOUT_THE_VETO:
            documents = [each async for batch in database[name].find_raw_batches() for each in _about(tenant_id, batch)]
            found[name] = {str(document["_id"]): document for document in documents}
    return {**found, "redis": await _kept_in_redis(service, tenant_id)}


def _about(tenant_id: str, batch: bytes) -> list[dict[str, Any]]:
    """The documents of a batch with the tenant's id. The others, thousands, are not decoded."""
    found, start = [], 0
    while (position := batch.find(tenant_id.encode(), start)) >= 0:
        while start + _size(batch, start) <= position:
            start += _size(batch, start)
        found.append(bson.decode(batch[start : start + _size(batch, start)]))
        start += _size(batch, start)
    return found


def _size(batch: bytes, start: int) -> int:
    """The length of the BSON document at this position, with which it begins."""
    return int.from_bytes(batch[start : start + 4], "little")


async def _kept_in_redis(service: app.Service, tenant_id: str) -> dict[str, Any]:
    """The keys with the tenant's id in key or value, without counters that are zero."""
    values = {}
    for key, value in (await _redis_values(service, tenant_id)).items():
        is_ignored = any(part in key for part in _RECORDS_OF_REQUESTS) or (":limit:" in key and value in ("0", None))
        if not is_ignored:
            values[key] = value
    return values


async def _redis_values(service: app.Service, tenant_id: str) -> dict[str, Any]:
    """The keys with the tenant's id in key or value, and their values. The others, thousands, are not read."""
    redis = internals.redis(service)
    client: Any = redis.client
    keys = await client.eval(_KEYS_ABOUT, 0, redis.key("*"), tenant_id)
    async with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        readable = [(key, kind) for key, kind in zip(keys, await pipeline.execute(), strict=True) if kind in _READ]
        for key, kind in readable:
            _READ[kind](pipeline, key)
        # Between the two round trips a key may have expired or changed its type.
        found = await pipeline.execute(raise_on_error=False)
    return {key: value for (key, _), value in zip(readable, found, strict=True)}


_KEYS_ABOUT = """
local read = {
    string = function(key) return {redis.call('GET', key)} end,
    hash = function(key) return redis.call('HGETALL', key) end,
    set = function(key) return redis.call('SMEMBERS', key) end,
    zset = function(key) return redis.call('ZRANGE', key, 0, -1) end,
    list = function(key) return redis.call('LRANGE', key, 0, -1) end,
}
local function names(key, text)
    if string.find(key, text, 1, true) then return true end
    local parts = read[redis.call('TYPE', key)['ok']]
    for _, part in ipairs(parts and parts(key) or {}) do
        if string.find(part, text, 1, true) then return true end
    end
    return false
end
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    if names(key, ARGV[2]) then table.insert(found, key) end
end
return found
"""
"""The keys that match a pattern and have a text in the key or in the value."""

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


async def _require_consistent_cache(service: app.Service, tenant_id: str) -> None:
    """Assert that cached users equal the stored ones."""
    users = internals.store(service, "users")
    async for document in internals.database(service).motor["users"].find({"tenantId": tenant_id}, {"_id": 1}):
        cached = await users.find_cached(TenantId(tenant_id), document["_id"])
        assert cached == await users.get(TenantId(tenant_id), document["_id"])
