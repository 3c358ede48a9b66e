"""Documents: cache invalidation at commits, name suffixes, and size limits."""

from __future__ import annotations

import asyncio

import pytest

from identity import background_tasks
from identity.errors import Invalid
from identity.ids import TenantId, new_id
from tests import internals


@pytest.mark.requirement("design-state-11")
async def test_document_read_during_a_transaction_is_forgotten_when_it_commits(service, tenant) -> None:
    """Deterministic form of a race: a reader caches the old version after the write and before the commit."""
    tenants, database = internals.store(service, "tenants"), internals.database(service)
    name = f"Renamed {new_id()}"

    async def write(session) -> None:
        stored = await tenants.find(None, tenant["id"], session)
        changed = {**stored, "name": name, "lastUpdateInstant": stored["lastUpdateInstant"] + 1}
        await tenants.replace(None, changed, stored["lastUpdateInstant"], session)
        assert (await tenants.find_cached(None, tenant["id"]))["name"] == tenant["name"]

    await database.in_transaction(write)
    assert (await tenants.find_cached(None, tenant["id"]))["name"] == name


async def test_document_that_would_exceed_the_size_limit_is_rejected_and_unchanged(service, tenant) -> None:
    """By replacement, update and bulk write, with and without a transaction."""
    services, tenant_id = service.services, TenantId(tenant["id"])
    group = {"id": new_id(), "tenantId": tenant_id, "name": "x", "insertInstant": 1, "lastUpdateInstant": 1}
    half = "x" * 9_000_000
    await services.directory.groups.insert(tenant_id, {**group, "data": {"a": half}})
    user = {**group, "data": half, "memberships": []}
    await services.directory.users.insert(tenant_id, user)

    async def replaced(session) -> None:
        await services.directory.groups.replace(tenant_id, {**group, "data": {"a": half, "b": half}}, 1, session)

    async def updated(session) -> None:
        await services.directory.groups.update(tenant_id, {"_id": group["id"]}, {"$set": {"data.b": half}}, session)

    async def joined(session) -> None:
        await services.directory.users.add_memberships(tenant_id, [{"userId": user["id"], "data": half}], session)

    async def inserted(session) -> None:
        await services.directory.groups.insert(tenant_id, {**group, "id": new_id(), "data": half + half}, session)

    for write in (replaced, updated, joined, inserted):
        for run in (write(None), services.runtime.database.in_transaction(write)):
            with pytest.raises(Invalid, match=r"\[TooLarge\]"):
                await run
    assert (await services.directory.groups.get(tenant_id, group["id"]))["data"] == {"a": half}
    assert (await services.directory.users.get(tenant_id, user["id"]))["memberships"] == []
    # They are incomplete documents, which a list of all tenants would include.
    await services.directory.groups.delete(tenant_id, group["id"])
    await services.directory.users.delete(tenant_id, user["id"])


async def test_names_of_an_earlier_version_are_indexed_at_startup(service, api) -> None:
    """Documents of earlier versions get their name suffixes when the indexes are created."""
    name = f"Earlier {new_id()}"
    made = (await api.post("/api/entity/type", json={"entityType": {"name": name}})).json()["entityType"]
    collection = internals.database(service).collection("entity_types")
    await collection.update_one({"_id": made["id"]}, {"$unset": {"private.endings": 1}})
    search = {"search": {"name": name[4:]}}
    assert (await api.post("/api/entity/type/search", json=search)).json()["total"] == 0
    await internals.store(service, "entity_types").ensure_indexes()
    assert (await api.post("/api/entity/type/search", json=search)).json() == {"total": 1, "entityTypes": [made]}


@pytest.mark.requirement("core-12-3")
async def test_name_is_found_by_its_new_value_alone_after_a_change(api) -> None:
    mark = new_id()
    made = (await api.post("/api/entity/type", json={"entityType": {"name": f"Old {mark}"}})).json()["entityType"]
    await api.patch(f"/api/entity/type/{made['id']}", json={"entityType": {"name": f"New {mark}"}})
    for text, total in (
        (f"old {mark}", 0),
        (f"EW {mark}", 1),
        (mark[:-1], 1),
        (f"new*{mark[9:]}", 1),
        (f"{mark[9:]}*", 0),
    ):
        found = (await api.get("/api/entity/type/search", params={"name": text})).json()
        assert found["total"] == total, text


@pytest.mark.requirement("design-state-18")
async def test_reading_many_documents_yields_to_other_tasks(service, monkeypatch) -> None:
    """With every step counted as long, other tasks run once per document."""
    monkeypatch.setattr(background_tasks, "_STEP_SECONDS", -1.0)
    services, tenant_id = service.services, TenantId(new_id())
    stored = {"tenantId": tenant_id, "insertInstant": 1, "lastUpdateInstant": 1}
    ids = [new_id() for _ in range(50)]
    for group_id in ids:
        await services.directory.groups.insert(tenant_id, {**stored, "id": group_id, "name": group_id})
    turns = [0]

    async def count() -> None:
        while True:
            turns.append(len(seen))
            await asyncio.sleep(0)

    seen: dict[str, bool] = {}
    counting = asyncio.create_task(count())
    async for group in services.directory.groups.iterate(tenant_id):
        seen[group["id"]] = True
    counting.cancel()
    assert sorted(seen) == sorted(ids)
    assert set(turns) >= set(range(1, 50))
    for group_id in ids:
        await services.directory.groups.delete(tenant_id, group_id)


async def test_distinct_members_are_cached_for_each_tenant_until_a_document_changes(service) -> None:
    groups, mine, other = internals.store(service, "groups"), TenantId(new_id()), TenantId(new_id())
    group = {"name": "x", "insertInstant": 1, "lastUpdateInstant": 1, "data": {"level": 1, "more": 2}}
    for tenant_id, name in ((mine, "one"), (mine, "two"), (other, "three")):
        await groups.insert(tenant_id, {**group, "id": new_id(), "tenantId": tenant_id, "name": name})
    where, members = {"insertInstant": 1}, ("data.level", "data.missing")
    for tenant_id in (mine, other):
        assert await groups.distinct_cached(tenant_id, "levels", where, members) == [{"data": {"level": 1}}]
    named = await groups.distinct_cached_across_tenants("names", {"tenantId": {"$in": [mine, other]}}, ("name",))
    assert sorted(one["name"] for one in named) == ["one", "three", "two"]
    await groups.insert(mine, {**group, "id": new_id(), "tenantId": mine, "name": "four", "data": {"level": 2}})
    levels = [one["data"]["level"] for one in await groups.distinct_cached(mine, "levels", where, members)]
    assert sorted(levels) == [1, 2]
    assert await groups.distinct_cached(other, "levels", where, members) == [{"data": {"level": 1}}]
    for tenant_id in (mine, other):
        await groups.delete_all(tenant_id, {})


async def test_list_can_be_limited_to_members_and_to_the_first_documents(service) -> None:
    groups, mine = internals.store(service, "groups"), TenantId(new_id())
    for instant in (1, 2, 3):
        group = {"id": new_id(), "tenantId": mine, "name": f"{instant}", "insertInstant": instant}
        await groups.insert(mine, {**group, "lastUpdateInstant": 1})
    first = await groups.list_cached(mine, "first two", {}, ("name",), 2)
    assert [(one["name"], one.keys()) for one in first] == [("3", {"id", "name"}), ("2", {"id", "name"})]
    assert await groups.list_cached(TenantId(new_id()), "first two", {}, ("name",), 2) == []
    await groups.delete_all(mine, {})


async def test_concurrent_readers_do_not_share_what_they_change(service, tenant) -> None:
    tenants = internals.store(service, "tenants")
    first, second = await asyncio.gather(tenants.get(None, tenant["id"]), tenants.get(None, tenant["id"]))
    first["jwtConfiguration"]["timeToLiveInSeconds"] += 1
    assert second["jwtConfiguration"] == (await tenants.get(None, tenant["id"]))["jwtConfiguration"]
