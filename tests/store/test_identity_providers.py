"""The providers of an application: cached until any provider changes."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from identity.operations.providers.identity_providers import RESOURCE
from identity.store.cache import ChangeStreamStatus
from identity.store.identity_providers import IdentityProviders


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
