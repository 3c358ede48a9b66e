"""Pending links: consumed once, by their own tenant, expiring, and encrypted in Redis."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, fingerprint, new_id
from identity.store.pending_links import PendingLinks

LINK = {"identityProviderUserId": "42", "token": "a refresh token of the provider"}


@pytest.fixture
def links(redis, vault) -> PendingLinks:
    return PendingLinks(redis, vault)


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def test_pending_link_is_consumed_once(links, tenant_id):
    pending_id = await links.issue(tenant_id, LINK, 30)
    assert await links.find(tenant_id, pending_id) == LINK
    assert await links.find_across_tenants(pending_id) == (tenant_id, LINK)
    assert await links.consume(tenant_id, pending_id) == LINK
    assert await links.consume(tenant_id, pending_id) is None
    assert await links.find(tenant_id, pending_id) is None
    assert await links.find_across_tenants(pending_id) is None


@pytest.mark.requirement("core-11-44")
async def test_of_64_racing_callers_one_gets_the_link(links, tenant_id):
    pending_id = await links.issue(tenant_id, LINK, 30)
    found = await asyncio.gather(*(links.consume(tenant_id, pending_id) for _ in range(64)))
    assert [link for link in found if link is not None] == [LINK]


async def test_another_tenant_can_neither_find_nor_consume_it(links, tenant_id):
    pending_id = await links.issue(tenant_id, LINK, 30)
    assert await links.find(TenantId(new_id()), pending_id) is None
    assert await links.consume(TenantId(new_id()), pending_id) is None
    assert await links.consume(tenant_id, pending_id) == LINK


async def test_unknown_id_is_not_found(links, tenant_id):
    assert await links.find(tenant_id, "unknown") is None
    assert await links.consume(tenant_id, "unknown") is None


async def test_neither_id_nor_link_is_stored_in_plaintext_and_the_value_expires(links, tenant_id, redis):
    pending_id = await links.issue(tenant_id, LINK, 30)
    key = redis.key("pending-link", fingerprint(pending_id))
    stored = await redis.client.hgetall(key)
    assert set(stored) == {"tenant", "link"}
    assert "refresh" not in str(stored)
    assert pending_id not in key + str(stored)
    assert 0 < await redis.client.ttl(key) <= 30
