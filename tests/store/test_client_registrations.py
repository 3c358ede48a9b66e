"""Initial access tokens and registrations of clients: atomic use, expiry, rotation, separation of tenants."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.client_registrations import ClientRegistrations, InitialAccessTokens

NOW, LATER = Instant(4_000_000_000_000), Instant(4_000_000_060_000)


@pytest.fixture
async def tokens(database, vault) -> InitialAccessTokens:
    store = InitialAccessTokens(database, vault, ChangeStreamStatus())
    await store.ensure_indexes()
    return store


@pytest.fixture
async def registrations(database, vault) -> ClientRegistrations:
    store = ClientRegistrations(database, vault, ChangeStreamStatus())
    await store.ensure_indexes()
    return store


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def added(tokens, tenant_id, uses: int = 1) -> str:
    token_id = new_id()
    document = {"id": token_id, "insertInstant": NOW, "remainingUses": uses, "expiresAt": LATER}
    await tokens.add(tenant_id, document, f"token of {token_id}")
    return token_id


@pytest.mark.requirement("oauth-12-40")
async def test_token_is_found_by_its_value_until_it_expires(tokens, tenant_id):
    token_id = await added(tokens, tenant_id)
    found = await tokens.find_live(tenant_id, f"token of {token_id}", NOW)
    assert (found["id"], found["expiresAt"]) == (token_id, LATER)
    assert await tokens.find_live(tenant_id, f"token of {token_id}", LATER) is None
    assert await tokens.find_live(tenant_id, token_id, NOW) is None
    assert not await tokens.consume(tenant_id, token_id, LATER)


@pytest.mark.requirement("oauth-12-40")
async def test_64_racing_callers_use_a_token_as_often_as_allowed(tokens, tenant_id):
    token_id = await added(tokens, tenant_id, uses=3)
    used = await asyncio.gather(*(tokens.consume(tenant_id, token_id, NOW) for _ in range(64)))
    assert sum(used) == 3
    assert await tokens.find_live(tenant_id, f"token of {token_id}", NOW) is None


@pytest.mark.requirement("oauth-12-40")
async def test_another_tenant_finds_and_uses_no_token(tokens, tenant_id):
    token_id, other = await added(tokens, tenant_id), TenantId(new_id())
    assert await tokens.find_live(other, f"token of {token_id}", NOW) is None
    assert not await tokens.consume(other, token_id, NOW)
    assert not await tokens.delete(other, token_id)
    assert await tokens.consume(tenant_id, token_id, NOW)


@pytest.mark.requirement("oauth-12-42")
async def test_one_of_64_racing_callers_rotates_a_registration(registrations, tenant_id):
    client_id = new_id()
    await registrations.add(tenant_id, {"id": client_id, "metadata": {}}, "old")
    found = await registrations.find_by_token(tenant_id, client_id, "old")
    rotations = (registrations.rotate(tenant_id, found, {"number": n}, f"new {n}") for n in range(64))
    rotated = await asyncio.gather(*rotations)
    assert sum(rotated) == 1
    assert await registrations.find_by_token(tenant_id, client_id, "old") is None
    number = rotated.index(True)
    found = await registrations.find_by_token(tenant_id, client_id, f"new {number}")
    assert found["metadata"] == {"number": number}


@pytest.mark.requirement("oauth-12-42")
async def test_another_tenant_finds_and_changes_no_registration(registrations, tenant_id):
    client_id, other = new_id(), TenantId(new_id())
    await registrations.add(tenant_id, {"id": client_id, "metadata": {}}, "token")
    found = await registrations.find_by_token(tenant_id, client_id, "token")
    assert await registrations.find_by_token(other, client_id, "token") is None
    assert not await registrations.rotate(other, found, {}, "new")
    assert not await registrations.delete(other, client_id)
    assert await registrations.find_by_token(tenant_id, client_id, "token") == found
