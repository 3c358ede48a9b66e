"""Pushed requests: bound to a client and a tenant, expiring, and consumed once."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import ApplicationId, TenantId, fingerprint, new_id
from identity.store.pushed_requests import PushedRequests

REQUEST = {"scope": "openid", "redirect_uri": "https://app.example.com/"}


@pytest.fixture
def requests(redis) -> PushedRequests:
    return PushedRequests(redis)


@pytest.fixture
def owner() -> tuple[TenantId, ApplicationId]:
    return TenantId(new_id()), ApplicationId(new_id())


async def test_request_is_found_repeatedly_and_consumed_once(requests, owner):
    await requests.save(*owner, "secret", REQUEST, 30)
    assert await requests.find(*owner, "secret") == REQUEST
    assert await requests.find(*owner, "secret") == REQUEST
    assert await requests.consume(*owner, "secret") == REQUEST
    assert await requests.consume(*owner, "secret") is None
    assert await requests.find(*owner, "secret") is None


@pytest.mark.requirement("oauth-12-11")
async def test_of_64_racing_callers_one_gets_the_request(requests, owner):
    await requests.save(*owner, "secret", REQUEST, 30)
    found = await asyncio.gather(*(requests.consume(*owner, "secret") for _ in range(64)))
    assert [request for request in found if request is not None] == [REQUEST]


@pytest.mark.requirement("oauth-12-11")
async def test_another_tenant_or_client_can_neither_find_nor_consume_it(requests, owner):
    tenant_id, client_id = owner
    await requests.save(*owner, "secret", REQUEST, 30)
    for other in ((TenantId(new_id()), client_id), (tenant_id, ApplicationId(new_id()))):
        assert await requests.find(*other, "secret") is None
        assert await requests.consume(*other, "secret") is None
    assert await requests.consume(*owner, "secret") == REQUEST


async def test_secret_is_not_stored_and_the_value_expires(requests, owner, redis):
    await requests.save(*owner, "secret", REQUEST, 30)
    key = redis.key("pushed-request", *owner, fingerprint("secret"))
    assert "secret" not in await redis.client.get(key)
    assert 0 < await redis.client.ttl(key) <= 30
