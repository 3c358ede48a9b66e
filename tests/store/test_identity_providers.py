"""The cached providers of an application; links: unique accounts, numbered slots, and separation of tenants."""

from __future__ import annotations

import asyncio

import pytest

from identity.domain.users import identity_provider_links as rules
from identity.errors import Duplicate
from identity.ids import TenantId, new_id
from identity.operations.providers.identity_providers import RESOURCE
from identity.store.cache import ChangeStreamStatus
from identity.store.identity_providers import IdentityProviderLinks, IdentityProviders
from tests.builders import NOW


@pytest.fixture
def providers(database, vault) -> IdentityProviders:
    stream_status = ChangeStreamStatus()
    stream_status.is_streaming = True
    return IdentityProviders(database, RESOURCE.collection, vault, stream_status, tenant_scoped=False)


def provider(application_id: str, **members):
    private = {"applicationIds": [application_id]}
    return {"id": new_id(), "name": new_id(), "enabled": True, "lastUpdateInstant": 1, "private": private, **members}


async def test_enabled_providers_of_an_application_are_found_across_tenants(providers):
    application_id = new_id()
    own, shared = provider(application_id, tenantId=new_id()), provider(application_id)
    for one in (own, shared, provider(application_id, enabled=False), provider(new_id())):
        await providers.insert(None, one)
    found = await providers.of_application_across_tenants(application_id)
    assert {one["id"] for one in found} == {own["id"], shared["id"]}


async def test_providers_are_cached_until_one_changes(providers):
    application_id = new_id()
    assert await providers.of_application_across_tenants(application_id) == []
    one = provider(application_id)
    await providers._collection.insert_one({**one, "_id": one["id"]})
    assert await providers.of_application_across_tenants(application_id) == [], "not invalidated"
    providers.invalidate(one["id"])
    assert len(await providers.of_application_across_tenants(application_id)) == 1
    await providers._collection.delete_one({"_id": one["id"]})
    providers.invalidate_all()
    assert await providers.of_application_across_tenants(application_id) == []


PROVIDER = {"id": new_id(), "name": "Company", "type": "OpenIDConnect"}


@pytest.fixture
async def links(database, vault) -> IdentityProviderLinks:
    made = IdentityProviderLinks(database, vault, ChangeStreamStatus())
    await made.ensure_indexes()
    return made


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


def link(tenant_id: TenantId, account: str = "42", slot: int = 0, user_id: str | None = None, **given: str):
    made = rules.build_link(PROVIDER, account, tenant_id, user_id or new_id(), NOW, **given)
    return {**made, "private": {"slot": slot}}


async def test_every_method_is_limited_to_its_tenant(links, tenant_id):
    stored = link(tenant_id, token="secret")
    await links.insert(tenant_id, stored)
    other = TenantId(new_id())
    user_id, provider_id = stored["userId"], PROVIDER["id"]
    assert await links.find_account(other, provider_id, "42") is None
    assert await links.find_of_user(other, user_id) == []
    assert not await links.refresh(other, stored, "Eve", "theirs", NOW + 1)
    assert await links.remove(other, user_id, provider_id, "42") is None
    assert await links.find_account(tenant_id, provider_id, "42") == stored
    assert await links.find_of_user(tenant_id, user_id) == [stored]
    assert await links.find_of_user(tenant_id, user_id, provider_id) == [stored]
    assert await links.find_of_user(tenant_id, user_id, new_id()) == []
    assert await links.refresh(tenant_id, stored, "Ada", "newer", NOW + 1)
    changed = {**stored, "displayName": "Ada", "token": "newer", "lastLoginInstant": NOW + 1}
    assert await links.find_account(tenant_id, provider_id, "42") == changed
    assert await links.refresh(tenant_id, stored, None, None)
    assert await links.remove(tenant_id, user_id, provider_id, "42") == changed
    assert not await links.refresh(tenant_id, stored, None, None)


async def test_an_account_is_linked_once(links, tenant_id):
    await links.insert(tenant_id, link(tenant_id))
    with pytest.raises(Duplicate) as caught:
        await links.insert(tenant_id, link(tenant_id))
    assert caught.value.index == "account"
    elsewhere = TenantId(new_id())
    await links.insert(elsewhere, link(elsewhere))


async def test_slot_number_is_unique(links, tenant_id):
    user_id = new_id()
    await links.insert(tenant_id, link(tenant_id, "a", 0, user_id))
    with pytest.raises(Duplicate) as caught:
        await links.insert(tenant_id, link(tenant_id, "b", 0, user_id))
    assert caught.value.index == "slot"
    await links.insert(tenant_id, link(tenant_id, "b", 1, user_id))
    await links.insert(tenant_id, link(tenant_id, "c", 0))


async def test_of_64_racing_removals_of_a_link_one_returns_it(links, tenant_id):
    stored = link(tenant_id)
    await links.insert(tenant_id, stored)
    removals = (links.remove(tenant_id, stored["userId"], PROVIDER["id"], "42") for _ in range(64))
    found = await asyncio.gather(*removals)
    assert [one for one in found if one is not None] == [stored]


async def test_links_of_a_provider_go_in_all_tenants(links, tenant_id):
    other = TenantId(new_id())
    provider = {**PROVIDER, "id": new_id()}
    for each in (tenant_id, other):
        made = rules.build_link(provider, "42", each, new_id(), NOW)
        await links.insert(each, {**made, "private": {"slot": 0}})
    await links.insert(tenant_id, link(tenant_id, "stays"))
    assert await links.delete_provider_across_tenants(provider["id"]) == 2
    assert await links.find_account(other, provider["id"], "42") is None
    assert await links.find_account(tenant_id, PROVIDER["id"], "stays") is not None


@pytest.mark.parametrize(("taken", "free"), [([], 0), ([0, 1], 2), ([1, 2], 0), ([0, 2], 1)])
def test_lowest_free_slot_is_used(taken, free):
    assert rules.first_free_slot([{"private": {"slot": slot}} for slot in taken]) == free
