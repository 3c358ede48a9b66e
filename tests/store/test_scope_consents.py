"""Scope consents: atomic merges, expiry, deletion with scopes and applications, separation of tenants."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import ApplicationId, TenantId, UserId, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.scope_consents import ScopeConsents

NOW, LATER, MUCH_LATER = Instant(4_000_000_000_000), Instant(4_000_000_060_000), Instant(4_000_000_120_000)
USER, APPLICATION = UserId(new_id()), ApplicationId(new_id())


@pytest.fixture
async def consents(database, vault) -> ScopeConsents:
    store = ScopeConsents(database, vault, ChangeStreamStatus())
    await store.ensure_indexes()
    return store


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def decide(consents, tenant_id, approved=(), declined=(), *, now=NOW, expires=LATER, user_id=USER):
    return await consents.decide(tenant_id, user_id, APPLICATION, approved, declined, now=now, expires=expires)


async def test_consent_is_found_until_it_expires(consents, tenant_id):
    await decide(consents, tenant_id, ["email"], ["phone"])
    found = await consents.find_live(tenant_id, USER, APPLICATION, NOW)
    assert (found["approved"], found["declined"]) == (["email"], ["phone"])
    assert (found["userId"], found["applicationId"], found["expiresAt"]) == (USER, APPLICATION, LATER)
    assert await consents.find_live(tenant_id, USER, APPLICATION, LATER) is None
    assert [one["id"] for one in await consents.find_of_user(tenant_id, USER, NOW)] == [found["id"]]
    assert await consents.find_of_user(tenant_id, USER, LATER) == []


@pytest.mark.requirement("oauth-1.9-21")
async def test_new_decisions_are_merged_by_scope(consents, tenant_id):
    await decide(consents, tenant_id, ["email", "profile"], ["phone"])
    found = await decide(consents, tenant_id, ["phone", "$odd"], ["email"], now=NOW + 1, expires=MUCH_LATER)
    assert (sorted(found["approved"]), found["declined"]) == (["$odd", "phone", "profile"], ["email"])
    assert (found["insertInstant"], found["lastUpdateInstant"], found["expiresAt"]) == (NOW, NOW + 1, MUCH_LATER)


async def test_expired_decisions_are_not_merged(consents, tenant_id):
    await decide(consents, tenant_id, ["email"], ["phone"])
    found = await decide(consents, tenant_id, ["address"], [], now=LATER, expires=MUCH_LATER)
    assert (found["approved"], found["declined"]) == (["address"], [])


async def test_racing_decisions_are_all_merged(consents, tenant_id):
    await asyncio.gather(*(decide(consents, tenant_id, [f"scope-{number}"]) for number in range(64)))
    found = await consents.find_live(tenant_id, USER, APPLICATION, NOW)
    assert sorted(found["approved"]) == sorted(f"scope-{number}" for number in range(64))


async def test_another_tenant_can_neither_find_nor_change_them(consents, tenant_id):
    other = TenantId(new_id())
    await decide(consents, tenant_id, ["email"])
    await decide(consents, other, [], ["email"])
    assert (await consents.find_live(tenant_id, USER, APPLICATION, NOW))["approved"] == ["email"]
    await consents.remove_scope(other, APPLICATION, "email")
    assert (await consents.find_live(other, USER, APPLICATION, NOW))["declined"] == []
    assert await consents.remove(other, USER, APPLICATION)
    assert not await consents.remove(other, USER, APPLICATION)
    assert await consents.find_of_user(other, USER, NOW) == []
    assert len(await consents.find_of_user(tenant_id, USER, NOW)) == 1


async def test_deleted_scope_is_removed_from_every_consent(consents, tenant_id):
    others = UserId(new_id())
    await decide(consents, tenant_id, ["email", "calendar"])
    await decide(consents, tenant_id, ["email"], ["calendar"], user_id=others)
    await consents.remove_scope(tenant_id, APPLICATION, "calendar")
    for user_id in (USER, others):
        found = await consents.find_live(tenant_id, user_id, APPLICATION, NOW)
        assert (found["approved"], found["declined"]) == (["email"], [])


async def test_expired_documents_are_deleted_by_mongodb(consents):
    expiry = [index for index in consents.indexes() if index.document["name"] == "expiry"]
    assert [index.document.get("expireAfterSeconds") for index in expiry] == [0]
