"""Refresh tokens: lookup by value, atomic rotation, replay detection, and revocation."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import ApplicationId, TenantId, UserId, new_id
from identity.instants import Instant, later
from identity.store.refresh_tokens import RefreshTokens, new_value

NOW = Instant(4_000_000_000_000)
EXPIRES = later(NOW, seconds=3600)


@pytest.fixture
async def tokens(database, vault) -> RefreshTokens:
    tokens = RefreshTokens(database, vault)
    await tokens.ensure_indexes()
    return tokens


def a_record(**members) -> dict:
    return {
        "id": new_id(),
        "applicationId": new_id(),
        "userId": new_id(),
        "insertInstant": NOW,
        "startInstant": NOW,
        "data": {},
        "metaData": {"scopes": ["openid", "offline_access"]},
        "private": {"grants": ["authorization_code"]},
        **members,
    }


async def inserted(tokens: RefreshTokens, tenant_id: str | None = None, **members) -> tuple[TenantId, dict]:
    tenant = TenantId(tenant_id or new_id())
    return tenant, await tokens.insert(tenant, a_record(**members), EXPIRES)


async def presented(tokens: RefreshTokens, tenant_id: TenantId, value: str, now: Instant = NOW):
    found = await tokens.find_by_value(tenant_id, value, now)
    assert found is not None
    return found


async def rotated(tokens: RefreshTokens, tenant_id: TenantId, value: str, now: Instant = NOW, grace: int = 0):
    found = await presented(tokens, tenant_id, value, now)
    return await tokens.rotate(tenant_id, found, {}, EXPIRES, now, grace_seconds=grace)


async def test_token_is_found_by_its_value(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    assert found.is_current
    assert found.record["id"] == record["id"]
    assert found.record["token"] == record["token"]
    assert len(record["token"]) == 64
    assert await tokens.find_by_value(tenant_id, new_value(), NOW) is None


@pytest.mark.requirement("design-state-2")
async def test_value_is_sealed_at_rest(tokens, database):
    _, record = await inserted(tokens)
    stored = await database.collection("refresh_tokens").find_one({"_id": record["id"]})
    assert record["token"] not in str(stored)
    assert record["token"][:32] not in str(stored)


async def test_value_is_masked_when_it_is_printed(tokens):
    tenant_id, record = await inserted(tokens)
    assert record["token"] not in repr(await tokens.find(tenant_id, record["id"]))


@pytest.mark.requirement("design-state-2")
async def test_expired_token_is_unknown_before_the_database_removes_it(tokens):
    tenant_id, record = await inserted(tokens)
    assert await tokens.find_by_value(tenant_id, record["token"], EXPIRES) is None


@pytest.mark.requirement("design-state-27")
async def test_token_is_unknown_in_another_tenant(tokens):
    tenant_id, record = await inserted(tokens)
    other = TenantId(new_id())
    assert await tokens.find_by_value(other, record["token"], NOW) is None
    assert await tokens.find(other, record["id"]) is None
    assert await tokens.find_of_user(other, record["userId"], NOW) == []
    found = await presented(tokens, tenant_id, record["token"])
    assert (await tokens.rotate(other, found, {}, EXPIRES, NOW, grace_seconds=0)).outcome == "unknown"
    assert not await tokens.record_use(other, found, {}, EXPIRES)
    assert await tokens.revoke(other, record["id"]) is None
    assert await tokens.revoke_user(other, record["userId"]) == []
    assert await tokens.revoke_application(other, record["applicationId"]) == 0
    assert await tokens.revoke_tenant(other) == 0
    assert (await presented(tokens, tenant_id, record["token"])).is_current


async def test_rotation_changes_the_value_and_keeps_the_record(tokens):
    tenant_id, record = await inserted(tokens)
    rotation = await rotated(tokens, tenant_id, record["token"])
    assert rotation.outcome == "rotated"
    assert rotation.token != record["token"]
    old = await presented(tokens, tenant_id, record["token"])
    assert not old.is_current
    assert old.record["id"] == record["id"]
    new = await presented(tokens, tenant_id, rotation.token)
    assert new.is_current
    assert new.record["id"] == record["id"]


async def test_value_of_many_rotations_ago_is_recognized(tokens):
    tenant_id, record = await inserted(tokens)
    value = record["token"]
    for _ in range(12):
        value = (await rotated(tokens, tenant_id, value)).token
    old = await presented(tokens, tenant_id, record["token"])
    assert not old.is_current
    assert old.record["id"] == record["id"]


async def test_of_64_racing_callers_one_rotates(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    rotations = await asyncio.gather(
        *(tokens.rotate(tenant_id, found, {}, EXPIRES, NOW, grace_seconds=0) for _ in range(64))
    )
    assert sorted(rotation.outcome for rotation in rotations) == ["replayed"] * 63 + ["rotated"]


async def test_racing_callers_of_many_tokens_each_rotate_their_own(tokens):
    """Rotations in one command have separate outcomes, also if a token was rotated or revoked meanwhile."""
    made = [await inserted(tokens) for _ in range(6)]
    found = [(tenant_id, await presented(tokens, tenant_id, record["token"])) for tenant_id, record in made]
    await rotated(tokens, made[0][0], made[0][1]["token"])
    await tokens.revoke(made[1][0], made[1][1]["id"])
    racing = [pair for pair in found for _ in range(8)]
    rotations = await asyncio.gather(
        *(tokens.rotate(tenant_id, one, {}, EXPIRES, NOW, grace_seconds=0) for tenant_id, one in racing)
    )
    outcomes = [sorted(one.outcome for one in rotations[start : start + 8]) for start in range(0, 48, 8)]
    assert outcomes[:2] == [["replayed"] * 8, ["unknown"] * 8]
    assert outcomes[2:] == [["replayed"] * 7 + ["rotated"]] * 4
    winners = [one.token for one in rotations if one.outcome == "rotated"]
    current = [
        await presented(tokens, tenant_id, value) for (tenant_id, _), value in zip(made[2:], winners, strict=True)
    ]
    assert all(one.is_current for one in current)


async def test_concurrent_lookups_find_the_record_of_their_tenant(tokens):
    """Lookups in one command: the same value in two tenants, an unknown one, and one that expired for its caller."""
    one, record = await inserted(tokens)
    other, same = await inserted(tokens, token=record["token"])
    lookups = [(one, NOW), (other, NOW), (one, EXPIRES), (TenantId(new_id()), NOW), (other, NOW)]
    found = await asyncio.gather(*(tokens.find_by_value(tenant_id, record["token"], now) for tenant_id, now in lookups))
    unknown = await asyncio.gather(tokens.find_by_value(one, new_value(), NOW), tokens.find_by_value(one, "x", NOW))
    assert [item and item.record["id"] for item in found] == [record["id"], same["id"], None, None, same["id"]]
    assert unknown == [None, None]


async def test_earlier_clock_reading_does_not_make_a_replay_graced(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    instants = (later(NOW, seconds=1), NOW)
    rotations = [await tokens.rotate(tenant_id, found, {}, EXPIRES, now, grace_seconds=0) for now in instants]
    assert [rotation.outcome for rotation in rotations] == ["rotated", "replayed"]


async def test_racing_callers_share_the_new_value_inside_the_grace_period(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    rotations = await asyncio.gather(
        *(tokens.rotate(tenant_id, found, {}, EXPIRES, NOW, grace_seconds=10) for _ in range(16))
    )
    assert sorted(rotation.outcome for rotation in rotations) == ["graced"] * 15 + ["rotated"]
    assert len({rotation.token for rotation in rotations}) == 1


async def test_grace_period_ends(tokens):
    tenant_id, record = await inserted(tokens)
    await rotated(tokens, tenant_id, record["token"])
    old = await presented(tokens, tenant_id, record["token"])
    assert old.is_graced(10, later(NOW, seconds=9))
    assert not old.is_graced(10, later(NOW, seconds=10))
    assert not old.is_graced(0, NOW)
    assert not old.is_graced(0, later(NOW, seconds=-1))


async def test_rotation_of_a_revoked_token_finds_nothing(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    assert (await tokens.revoke(tenant_id, record["id"]))["id"] == record["id"]
    assert await tokens.revoke(tenant_id, record["id"]) is None
    assert (await tokens.rotate(tenant_id, found, {}, EXPIRES, NOW, grace_seconds=60)).outcome == "unknown"


async def test_rotation_and_use_write_what_changed(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    assert await tokens.record_use(tenant_id, found, {"startInstant": NOW + 5}, later(EXPIRES, seconds=9))
    used = await presented(tokens, tenant_id, record["token"], later(EXPIRES, seconds=8))
    assert used.record["startInstant"] == NOW + 5
    rotation = await tokens.rotate(tenant_id, found, {"startInstant": NOW + 7}, EXPIRES, NOW, grace_seconds=0)
    assert (await presented(tokens, tenant_id, rotation.token)).record["startInstant"] == NOW + 7
    assert not await tokens.record_use(tenant_id, found, {}, EXPIRES)


async def test_value_changes_by_rotation_only(tokens):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])
    with pytest.raises(ValueError, match="rotation"):
        await tokens.record_use(tenant_id, found, {"token": "mine"}, EXPIRES)


@pytest.mark.parametrize("value", ["an-imported-one", "imported-" * 7 + "x"])
async def test_imported_value_works_and_rotates(tokens, value):
    tenant_id, record = await inserted(tokens, token=value)
    assert (await presented(tokens, tenant_id, value)).is_current
    rotation = await rotated(tokens, tenant_id, value)
    assert rotation.outcome == "rotated"
    assert not (await presented(tokens, tenant_id, value)).is_current
    assert (await presented(tokens, tenant_id, rotation.token)).record["id"] == record["id"]


async def test_tokens_are_revoked_by_user_application_and_tenant(tokens):
    tenant_id, one = await inserted(tokens)
    _, two = await inserted(tokens, tenant_id, userId=one["userId"])
    _, three = await inserted(tokens, tenant_id, applicationId=two["applicationId"])
    user_id, application_id = UserId(one["userId"]), ApplicationId(two["applicationId"])
    assert {found["id"] for found in await tokens.find_of_user(tenant_id, user_id, NOW)} == {one["id"], two["id"]}
    assert await tokens.revoke_user(tenant_id, user_id, application_id) == [application_id]
    assert [found["id"] for found in await tokens.find_of_user(tenant_id, user_id, NOW)] == [one["id"]]
    assert await tokens.revoke_application(tenant_id, application_id) == 1
    assert await tokens.find(tenant_id, three["id"]) is None
    assert await tokens.revoke_user(tenant_id, user_id) == [one["applicationId"]]
    _, four = await inserted(tokens, tenant_id)
    assert await tokens.revoke_tenant(tenant_id) == 1
    assert await tokens.find(tenant_id, four["id"]) is None


async def test_rotation_in_an_aborted_transaction_has_no_effect(tokens, database):
    tenant_id, record = await inserted(tokens)
    found = await presented(tokens, tenant_id, record["token"])

    async def write(session):
        await tokens.rotate(tenant_id, found, {}, EXPIRES, NOW, grace_seconds=0, session=session)
        raise LookupError

    with pytest.raises(LookupError):
        await database.in_transaction(write)
    assert (await presented(tokens, tenant_id, record["token"])).is_current


@pytest.mark.requirement("users-6-4")
async def test_value_is_found_across_tenants_unless_two_have_it(tokens) -> None:
    tenant_id, stored = await inserted(tokens)
    found = await tokens.find_by_value_across_tenants(stored["token"], NOW)
    assert found is not None and found.record["tenantId"] == tenant_id and found.is_current
    assert await tokens.find_by_value_across_tenants(stored["token"], EXPIRES) is None
    assert await tokens.find_by_value_across_tenants("unknown", NOW) is None
    other, _ = await inserted(tokens, token=stored["token"])
    assert await tokens.find_by_value_across_tenants(stored["token"], NOW) is None
    assert await tokens.find_by_value(other, stored["token"], NOW) is not None


async def test_obsolete_index_is_dropped(database, vault) -> None:
    collection = database.motor["refresh_tokens"]
    await collection.create_index([("tenantId", 1), ("private.lookup", 1)], name="lookup", unique=True)
    await RefreshTokens(database, vault).ensure_indexes()
    assert {"lookup", "value"} & set(await collection.index_information()) == {"value"}
