"""Open verifications: the latest per owner, encrypted, separated by tenant, and expiring."""

from __future__ import annotations

import pytest

from identity.ids import TenantId, new_id
from identity.store.open_verifications import OpenVerifications

KIND = "emailVerification"
GIVEN = {"id": "the id of a verification", "code": "BCDFGH"}


@pytest.fixture
def verifications(redis, vault) -> OpenVerifications:
    return OpenVerifications(redis, vault)


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def test_latest_verification_is_found_and_can_be_deleted(verifications, tenant_id):
    assert await verifications.find(tenant_id, KIND, "a user") is None
    await verifications.save(tenant_id, KIND, "a user", {"id": "an older id", "code": None}, 30)
    await verifications.save(tenant_id, KIND, "a user", GIVEN, 30)
    assert await verifications.find(tenant_id, KIND, "a user") == GIVEN
    assert await verifications.find(tenant_id, "registrationVerification", "a user") is None
    await verifications.delete(tenant_id, KIND, "a user")
    assert await verifications.find(tenant_id, KIND, "a user") is None


async def test_another_tenant_can_neither_find_nor_delete_it(verifications, tenant_id):
    other = TenantId(new_id())
    await verifications.save(tenant_id, KIND, "a user", GIVEN, 30)
    assert await verifications.find(other, KIND, "a user") is None
    await verifications.delete(other, KIND, "a user")
    await verifications.save(other, KIND, "a user", {"id": "theirs", "code": None}, 30)
    assert await verifications.find(tenant_id, KIND, "a user") == GIVEN


async def test_value_is_sealed_and_expires(verifications, tenant_id, redis):
    await verifications.save(tenant_id, KIND, "a user", GIVEN, 30)
    (key,) = [key async for key in redis.client.scan_iter(redis.key("open-verification", KIND, tenant_id, "*"))]
    assert 0 < await redis.client.ttl(key) <= 30
    stored = await redis.client.get(key)
    assert GIVEN["id"] not in stored and GIVEN["code"] not in stored
