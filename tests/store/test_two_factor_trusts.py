"""Trusted devices: one per secret, of one user, with trust for several applications until it expires."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import ApplicationId, TenantId, UserId, fingerprint, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.two_factor_trusts import TwoFactorTrusts

NOW, LATER, MUCH_LATER = Instant(4_000_000_000_000), Instant(4_000_000_060_000), Instant(4_000_000_120_000)
USER, APPLICATION = UserId(new_id()), ApplicationId(new_id())


@pytest.fixture
async def trusts(database, vault) -> TwoFactorTrusts:
    store = TwoFactorTrusts(database, vault, ChangeStreamStatus())
    await store.ensure_indexes()
    return store


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


async def trust(trusts, tenant_id, secret="secret", application_id=APPLICATION, *, user_id=USER, expires=LATER):
    return await trusts.trust(tenant_id, user_id, secret, application_id, now=NOW, expires=expires)


async def test_trust_is_found_until_it_ends(trusts, tenant_id):
    assert await trust(trusts, tenant_id)
    found = await trusts.find_live(tenant_id, USER, "secret", NOW)
    assert found["trusts"] == [{"applicationId": APPLICATION, "startInstant": NOW, "expiration": LATER}]
    assert (found["userId"], found["expiresAt"], found["insertInstant"]) == (USER, LATER, NOW)
    assert await trusts.find_live(tenant_id, USER, "secret", LATER) is None


async def test_a_device_is_trusted_for_several_applications_and_for_each_once(trusts, tenant_id):
    others = [None, ApplicationId(new_id())]
    racers = (trust(trusts, tenant_id, application_id=one) for one in [APPLICATION, *others] * 8)
    assert all(await asyncio.gather(*racers))
    await trust(trusts, tenant_id, expires=MUCH_LATER)
    await trust(trusts, tenant_id, application_id=None)
    found = await trusts.find_live(tenant_id, USER, "secret", LATER)
    ends = {one.get("applicationId"): one["expiration"] for one in found["trusts"]}
    assert ends == {APPLICATION: MUCH_LATER, None: LATER, others[1]: LATER}
    assert (len(found["trusts"]), found["expiresAt"]) == (3, MUCH_LATER)


async def test_device_of_another_user_is_not_changed(trusts, tenant_id):
    await trust(trusts, tenant_id)
    other = UserId(new_id())
    assert not await trust(trusts, tenant_id, user_id=other)
    assert await trusts.find_live(tenant_id, other, "secret", NOW) is None


async def test_second_tenant_sees_and_changes_nothing(trusts, tenant_id):
    await trust(trusts, tenant_id)
    other = TenantId(new_id())
    assert await trusts.find_live(other, USER, "secret", NOW) is None
    assert await trust(trusts, other, application_id=None)
    await trusts.remove_application(other, APPLICATION)
    await trusts.delete_all(other, {"userId": USER})
    assert len((await trusts.find_live(tenant_id, USER, "secret", NOW))["trusts"]) == 1


async def test_deleting_an_application_removes_its_trust(trusts, tenant_id):
    await trust(trusts, tenant_id)
    await trust(trusts, tenant_id, application_id=None)
    await trusts.remove_application(tenant_id, APPLICATION)
    found = await trusts.find_live(tenant_id, USER, "secret", NOW)
    assert [one.get("applicationId") for one in found["trusts"]] == [None]


async def test_secret_is_stored_as_a_hash_and_the_document_expires(trusts, tenant_id, database):
    await trust(trusts, tenant_id, "a secret of a device")
    stored = await database.collection("two_factor_trusts").find_one({"tenantId": tenant_id})
    assert stored["_id"] == f"{tenant_id} {fingerprint('a secret of a device')}"
    assert "a secret of a device" not in str(stored)
    indexes = await database.collection("two_factor_trusts").index_information()
    assert indexes["expiry"]["expireAfterSeconds"] == 0 and indexes["expiry"]["key"] == [("expiresAt", 1)]
