"""Recent entries and activity counts."""

from __future__ import annotations

import asyncio

from identity.ids import TenantId, new_id
from identity.store.activity import ActivityCounts, RecentEntries


async def test_newest_entries_are_kept_by_tenant_and_subject_until_they_expire(redis):
    entries, tenant_id = RecentEntries(redis, "test", maximum=3, ttl_seconds=60), TenantId(new_id())
    for number in range(5):
        await entries.add(tenant_id, "a", {"number": number})
    assert [entry["number"] for entry in await entries.find(tenant_id, "a")] == [4, 3, 2]
    assert await entries.find(tenant_id, "b") == []
    assert await entries.find(TenantId(new_id()), "a") == []
    assert 0 < await redis.client.ttl(redis.key("test", tenant_id, "a")) <= 60
    await entries.remove(TenantId(new_id()), "a")
    assert len(await entries.find(tenant_id, "a")) == 3
    await entries.remove(tenant_id, "a")
    assert await entries.find(tenant_id, "a") == []


async def test_racing_activities_are_all_counted(redis):
    counts, tenant_id, day = ActivityCounts(redis), TenantId(new_id()), f"2026-01-31 {new_id()}"
    await asyncio.gather(*(counts.add(tenant_id, day, "login") for _ in range(64)))
    await counts.add(TenantId(new_id()), day, "login")
    await counts.add(tenant_id, day, "other")
    assert await counts.by_day(tenant_id, [day, "2026-01-30"]) == [{"login": 64, "other": 1}, {}]
    assert await counts.by_day(TenantId(new_id()), [day]) == [{}]
    assert await counts.by_day(None, [day]) == [{"login": 65, "other": 1}]
    assert await redis.client.ttl(redis.key("activity", tenant_id, day)) > 0


async def test_noted_activities_are_written_together_and_counted_before(redis):
    counts, tenant_id, day = ActivityCounts(redis), TenantId(new_id()), f"2026-01-31 {new_id()}"
    assert [counts.note(tenant_id, day, "token") for _ in range(3)] == [True, False, False]
    assert await redis.client.hgetall(redis.key("activity", tenant_id, day)) == {}
    assert await counts.by_day(tenant_id, [day]) == [{"token": 3}]
    assert counts.note(tenant_id, day, "token")
    await counts.write_soon()
    assert await ActivityCounts(redis).by_day(tenant_id, [day]) == [{"token": 4}]
