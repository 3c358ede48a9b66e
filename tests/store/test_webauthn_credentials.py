"""Passkeys in MongoDB: unique by credential id within a tenant, with a counter that only increases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.errors import Duplicate
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.webauthn_credentials import WebAuthnCredentials

NOW = Instant(4_000_000_000_000)


@pytest.fixture
async def passkeys(database, vault) -> WebAuthnCredentials:
    store = WebAuthnCredentials(database, vault, ChangeStreamStatus())
    await store.ensure_indexes()
    return store


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


def make(tenant_id: str, user_id: str = "user", **members: Any) -> dict[str, Any]:
    made = {"id": new_id(), "tenantId": tenant_id, "userId": user_id, "credentialId": new_id(), "signCount": 0}
    return {**made, "insertInstant": NOW, "lastUpdateInstant": NOW, **members}


async def test_credential_ids_are_unique_within_a_tenant(passkeys, tenant_id) -> None:
    one = make(tenant_id)
    await passkeys.insert(tenant_id, one)
    with pytest.raises(Duplicate) as error:
        await passkeys.insert(tenant_id, make(tenant_id, credentialId=one["credentialId"]))
    assert error.value.index == "credentialId"
    other = TenantId(new_id())
    await passkeys.insert(other, make(other, credentialId=one["credentialId"]))
    assert await passkeys.find_by_credential_id(tenant_id, one["credentialId"]) == one


async def test_passkeys_of_a_user_are_found_oldest_first(passkeys, tenant_id) -> None:
    newer, older = make(tenant_id, insertInstant=NOW + 1), make(tenant_id)
    await passkeys.insert_all(tenant_id, [newer, older, make(tenant_id, "another")])
    assert await passkeys.find_of_user(tenant_id, "user") == [older, newer]


async def test_an_import_stores_all_or_nothing(passkeys, tenant_id) -> None:
    known = make(tenant_id)
    await passkeys.insert(tenant_id, known)
    with pytest.raises(Duplicate):
        await passkeys.insert_all(tenant_id, [make(tenant_id), make(tenant_id, credentialId=known["credentialId"])])
    assert await passkeys.find_of_user(tenant_id, "user") == [known]


@pytest.mark.parametrize(
    ("stored", "sent", "is_recorded"),
    [(0, 0, True), (0, 3, True), (3, 4, True), (3, 3, False), (3, 2, False), (3, 0, False)],
)
async def test_counter_only_increases(passkeys, tenant_id, stored, sent, is_recorded) -> None:
    one = make(tenant_id, signCount=stored)
    await passkeys.insert(tenant_id, one)
    later = Instant(NOW + 1)
    assert await passkeys.record_use(tenant_id, one["id"], sent, later, is_backed_up=True) is is_recorded
    found = await passkeys.get(tenant_id, one["id"])
    assert found["signCount"] == (sent if is_recorded else stored)
    assert (found.get("lastUseInstant"), found.get("backedUp")) == ((later, True) if is_recorded else (None, None))


@pytest.mark.requirement("passkeys-5")
async def test_of_64_racers_with_one_counter_one_is_recorded(passkeys, tenant_id) -> None:
    one = make(tenant_id, signCount=1)
    await passkeys.insert(tenant_id, one)
    racers = (passkeys.record_use(tenant_id, one["id"], 2, NOW, is_backed_up=False) for _ in range(64))
    assert sorted(await asyncio.gather(*racers)) == [False] * 63 + [True]


@pytest.mark.requirement("passkeys-8")
async def test_second_tenant_sees_and_changes_nothing(passkeys, tenant_id) -> None:
    one, other = make(tenant_id), TenantId(new_id())
    await passkeys.insert(tenant_id, one)
    assert await passkeys.find_of_user(other, "user") == []
    assert await passkeys.find_by_credential_id(other, one["credentialId"]) is None
    assert not await passkeys.record_use(other, one["id"], 1, NOW, is_backed_up=False)
    with pytest.raises(ValueError, match="tenant"):
        await passkeys.insert_all(other, [make(tenant_id)])
    await passkeys.delete_all(other, {"userId": "user"})
    assert await passkeys.find_of_user(tenant_id, "user") == [one]
