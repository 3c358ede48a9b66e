"""Login intents, federation states and pending links: bound to their owner, consumed once, and expiring."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, fingerprint, new_id, new_secret
from identity.store.login_state import FederationStates, LoginIntents, PendingLinks

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


DETOUR = {"nonce": "a nonce", "codeVerifier": "a verifier"}


@pytest.fixture
def detours(redis, vault) -> FederationStates:
    return FederationStates(redis, vault, "provider")


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


LINK = {"identityProviderUserId": "42", "token": "a refresh token of the provider"}


@pytest.fixture
def links(redis, vault) -> PendingLinks:
    return PendingLinks(redis, vault)


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


async def test_pending_links_another_tenant_can_neither_find_nor_consume_it(links, tenant_id):
    pending_id = await links.issue(tenant_id, LINK, 30)
    assert await links.find(TenantId(new_id()), pending_id) is None
    assert await links.consume(TenantId(new_id()), pending_id) is None
    assert await links.consume(tenant_id, pending_id) == LINK


async def test_pending_links_unknown_id_is_not_found(links, tenant_id):
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
