"""Federation states: bound to a browser, a tenant and a kind, consumed once, and encrypted in Redis."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, fingerprint, new_id, new_secret
from identity.store.federation_state import FederationStates

DETOUR = {"nonce": "a nonce", "codeVerifier": "a verifier"}


@pytest.fixture
def detours(redis, vault) -> FederationStates:
    return FederationStates(redis, vault, "provider")


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


@pytest.fixture
async def detour_id(detours, tenant_id) -> str:
    made = new_secret()
    await detours.issue(tenant_id, made, "this browser", DETOUR, 30)
    return made


async def test_federation_state_is_consumed_once_and_returns_its_tenant(detours, tenant_id, detour_id):
    assert await detours.find_across_tenants(detour_id, "this browser") == (tenant_id, DETOUR)
    assert await detours.consume_across_tenants(detour_id, "this browser") == (tenant_id, DETOUR)
    assert await detours.consume_across_tenants(detour_id, "this browser") is None
    assert await detours.find_across_tenants(detour_id, "this browser") is None


async def test_of_64_racing_callers_one_comes_back(detours, tenant_id, detour_id):
    found = await asyncio.gather(*(detours.consume_across_tenants(detour_id, "this browser") for _ in range(64)))
    assert [each for each in found if each is not None] == [(tenant_id, DETOUR)]


async def test_another_browser_can_neither_find_nor_consume_it(detours, detour_id):
    for other in ("", "another browser"):
        assert await detours.find_across_tenants(detour_id, other) is None
        assert await detours.consume_across_tenants(detour_id, other) is None
    assert await detours.consume_across_tenants(detour_id, "this browser") is not None


async def test_ids_of_different_kinds_are_not_interchangeable(detours, detour_id, redis, vault):
    assert await FederationStates(redis, vault, "link").consume_across_tenants(detour_id, "this browser") is None
    assert await detours.find_across_tenants(detour_id, "this browser") is not None


async def test_two_tenants_keep_their_own(detours, tenant_id, detour_id):
    other = TenantId(new_id())
    await detours.issue(other, "the other id", "this browser", {"nonce": "other"}, 30)
    assert await detours.find_across_tenants("the other id", "this browser") == (other, {"nonce": "other"})
    assert await detours.find_across_tenants(detour_id, "this browser") == (tenant_id, DETOUR)


async def test_unknown_id_is_not_found(detours):
    assert await detours.find_across_tenants("unknown", "") is None
    assert await detours.consume_across_tenants("unknown", "") is None


async def test_neither_id_nor_content_is_stored_in_plaintext_and_the_value_expires(detours, detour_id, redis):
    key = redis.key("detour", "provider", fingerprint(detour_id))
    stored = await redis.client.hgetall(key)
    assert set(stored) == {"tenant", "browser", "detour"}
    assert not {"verifier", "this browser", detour_id} & set(stored.values())
    assert "verifier" not in stored["detour"]
    assert 0 < await redis.client.ttl(key) <= 30
