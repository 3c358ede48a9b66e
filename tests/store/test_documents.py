"""Documents: what was read before a commit is not remembered after it, and what is too large is told."""

from __future__ import annotations

import pytest

from identity.errors import Invalid
from identity.ids import TenantId, new_id


async def test_document_read_during_a_transaction_is_forgotten_when_it_commits(service, tenant) -> None:
    """Deterministic form of a race: a reader caches the old version after the write and before the commit."""
    tenants, database = service.services.tenants, service.services.database
    name = f"Renamed {new_id()}"

    async def write(session) -> None:
        stored = await tenants.find(None, tenant["id"], session)
        changed = {**stored, "name": name, "lastUpdateInstant": stored["lastUpdateInstant"] + 1}
        await tenants.replace(None, changed, stored["lastUpdateInstant"], session)
        assert (await tenants.cached(None, tenant["id"]))["name"] == tenant["name"]

    await database.in_transaction(write)
    assert (await tenants.cached(None, tenant["id"]))["name"] == name


async def test_document_that_grows_too_large_is_the_caller_s_fault_and_stays_as_it_was(service, tenant) -> None:
    """By replacement, by an update and by a bulk write, each outside of a transaction and inside of one."""
    services, tenant_id = service.services, TenantId(tenant["id"])
    group = {"id": new_id(), "tenantId": tenant_id, "name": "x", "insertInstant": 1, "lastUpdateInstant": 1}
    half = "x" * 9_000_000
    await services.groups.insert(tenant_id, {**group, "data": {"a": half}})
    user = {**group, "data": half, "memberships": []}
    await services.users.insert(tenant_id, user)

    async def replaced(session) -> None:
        await services.groups.replace(tenant_id, {**group, "data": {"a": half, "b": half}}, 1, session)

    async def updated(session) -> None:
        await services.groups.update(tenant_id, {"_id": group["id"]}, {"$set": {"data.b": half}}, session)

    async def joined(session) -> None:
        await services.users.add_memberships(tenant_id, [{"userId": user["id"], "data": half}], session)

    async def inserted(session) -> None:
        await services.groups.insert(tenant_id, {**group, "id": new_id(), "data": half + half}, session)

    for write in (replaced, updated, joined, inserted):
        for run in (write(None), services.database.in_transaction(write)):
            with pytest.raises(Invalid, match=r"\[TooLarge\]"):
                await run
    assert (await services.groups.get(tenant_id, group["id"]))["data"] == {"a": half}
    assert (await services.users.get(tenant_id, user["id"]))["memberships"] == []
