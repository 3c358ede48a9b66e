"""Login intents: consumed once, by their own tenant, and expiring."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, fingerprint, new_id
from identity.store.login_intents import LoginIntents

INTENT = {"clientId": "an application", "given": {"state": "the-state"}}


@pytest.fixture
def intents(redis, vault) -> LoginIntents:
    return LoginIntents(redis, vault)


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def test_intent_is_found_repeatedly_and_consumed_once(intents, tenant_id):
    secret = await intents.issue(tenant_id, INTENT, 30)
    assert await intents.find(tenant_id, secret) == INTENT
    assert await intents.find(tenant_id, secret) == INTENT
    assert await intents.consume(tenant_id, secret) == INTENT
    assert await intents.consume(tenant_id, secret) is None
    assert await intents.find(tenant_id, secret) is None


@pytest.mark.requirement("oauth-1.9-25")
async def test_of_64_racing_callers_one_gets_the_intent(intents, tenant_id):
    secret = await intents.issue(tenant_id, INTENT, 30)
    found = await asyncio.gather(*(intents.consume(tenant_id, secret) for _ in range(64)))
    assert [intent for intent in found if intent is not None] == [INTENT]


async def test_another_tenant_can_neither_find_nor_consume_it(intents, tenant_id):
    secret = await intents.issue(tenant_id, INTENT, 30)
    assert await intents.find(TenantId(new_id()), secret) is None
    assert await intents.consume(TenantId(new_id()), secret) is None
    assert await intents.consume(tenant_id, secret) == INTENT


async def test_intent_can_be_replaced_while_it_exists(intents, tenant_id, redis):
    changed = {**INTENT, "details": {"methodId": "another"}}
    secret = await intents.issue(tenant_id, INTENT, 30)
    assert await intents.replace(tenant_id, secret, changed)
    assert 0 < await redis.client.ttl(redis.key("login-intent", tenant_id, fingerprint(secret))) <= 30
    assert not await intents.replace(TenantId(new_id()), secret, INTENT)
    assert await intents.consume(tenant_id, secret) == changed
    assert not await intents.replace(tenant_id, secret, INTENT)
    assert await intents.find(tenant_id, secret) is None


async def test_no_secret_is_stored_and_the_value_expires(intents, tenant_id, redis):
    secret = await intents.issue(tenant_id, INTENT, 30)
    key = redis.key("login-intent", tenant_id, fingerprint(secret))
    assert secret not in key + str(await redis.client.get(key))
    assert 0 < await redis.client.ttl(key) <= 30


async def test_answers_are_encrypted_also_when_they_are_replaced(intents, tenant_id, redis):
    first, second = ({**INTENT, "answers": {"user.password": password}} for password in ("first-pass", "second-pass"))
    secret = await intents.issue(tenant_id, first, 30)
    assert await intents.find(tenant_id, secret) == first
    assert await intents.replace(tenant_id, secret, second)
    stored = str(await redis.client.get(redis.key("login-intent", tenant_id, fingerprint(secret))))
    assert "user.password" not in stored
    assert "second-pass" not in stored
    assert await intents.consume(TenantId(new_id()), secret) is None
    assert await intents.consume(tenant_id, secret) == second
