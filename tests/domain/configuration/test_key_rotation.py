"""Signing and verification keys before, during and after a rotation."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.configuration import key_rotation
from identity.domain.configuration.key_rotation import HINT_MS, LAG_MS, MARGIN_MS
from identity.store.cache import STREAM_DOWN_SECONDS
from tests.builders import NOW, make_application, make_tenant

ACCESS, ID = "accessTokenKeyId", "idTokenKeyId"
HOUR = 3_600_000
ONCE_DEAD = 2 * LAG_MS + HOUR + MARGIN_MS


def tenant_with(**members: Any) -> dict[str, Any]:
    return make_tenant(jwtConfiguration={ACCESS: _id(1), ID: _id(1), **members})


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def changed(stored: dict[str, Any], now: int = NOW, ttl: int = 3600, **members: Any) -> dict[str, Any]:
    """The tenant after a change of its jwtConfiguration."""
    document = {**stored, "jwtConfiguration": {**stored["jwtConfiguration"], **members}}
    return {**document, "private": key_rotation.rotate_tenant(stored, document, ttl, now)}


def changed_application(tenant, stored, now: int = NOW, **members: Any) -> dict[str, Any]:
    document = {**stored, "jwtConfiguration": {**stored["jwtConfiguration"], **members}}
    return {**document, "private": key_rotation.rotate_application(tenant, stored, document, now)}


def signs(tenant, application, now: int) -> str:
    return key_rotation.signing_key(tenant, application, ACCESS, now)


def trusted(tenant, application, now: int | None) -> set[str]:
    return set(key_rotation.trusted_keys(tenant, application, ACCESS, now))


@pytest.mark.requirement("core-7-rotation-publish")
def test_previous_key_signs_until_published_and_verifies_until_its_last_token_expires() -> None:
    application = make_application()
    tenant = changed(tenant_with(), **{ACCESS: _id(2)})
    assert signs(tenant, application, NOW) == signs(tenant, application, NOW + LAG_MS - 1) == _id(1)
    assert signs(tenant, application, NOW + LAG_MS) == _id(2)
    # Signed at the last moment by a process that reads the change as late as possible.
    assert ONCE_DEAD > 2 * LAG_MS + HOUR
    assert trusted(tenant, application, NOW) == trusted(tenant, application, NOW + ONCE_DEAD - 1) == {_id(1), _id(2)}
    assert trusted(tenant, application, NOW + ONCE_DEAD) == {_id(2)}
    assert trusted(tenant, application, None) == {_id(1), _id(2)}
    assert key_rotation.trusted_keys(tenant, application, ID, NOW) == {_id(1)}


def test_new_key_is_effective_after_the_maximum_cache_age() -> None:
    assert LAG_MS > STREAM_DOWN_SECONDS * 1000


def test_unrelated_changes_record_no_rotation() -> None:
    tenant = tenant_with()
    assert changed(tenant)["private"] == {}
    again = changed(changed(tenant, **{ACCESS: _id(2)}), NOW + 10)
    assert again["private"] == changed(tenant, **{ACCESS: _id(2)})["private"]
    application = make_application()
    assert changed_application(tenant, application)["private"] == {}


def test_second_change_before_the_first_is_in_force() -> None:
    application = make_application()
    tenant = changed(changed(tenant_with(), **{ACCESS: _id(2)}), NOW + 100, **{ACCESS: _id(3)})
    assert signs(tenant, application, NOW + 100 + LAG_MS - 1) == _id(1)
    assert signs(tenant, application, NOW + 100 + LAG_MS) == _id(3)
    assert trusted(tenant, application, NOW + HOUR) == {_id(1), _id(2), _id(3)}
    back = changed(changed(tenant_with(), **{ACCESS: _id(2)}), NOW + 100, **{ACCESS: _id(1)})
    assert signs(back, application, NOW + 100) == signs(back, application, NOW + 5000) == _id(1)
    assert trusted(back, application, NOW + HOUR) == {_id(1), _id(2)}


@pytest.mark.requirement("core-7-rotation-verify")
def test_tokens_with_an_earlier_longer_lifetime_remain_verifiable() -> None:
    application = make_application()
    shorter = changed(tenant_with(timeToLiveInSeconds=86_400), ttl=86_400, timeToLiveInSeconds=60)
    assert signs(shorter, application, NOW) == _id(1)
    rotated = changed(shorter, NOW + 10_000, ttl=60, **{ACCESS: _id(2)})
    assert _id(1) in trusted(rotated, application, NOW + 86_400_000)
    assert _id(1) not in trusted(rotated, application, NOW + 86_400_000 + 2 * LAG_MS + MARGIN_MS)
    own = changed_application(
        tenant_with(), make_application(jwtConfiguration={"enabled": True, "timeToLiveInSeconds": 7200}), enabled=False
    )
    assert _id(1) in trusted(tenant_with(**{ACCESS: _id(2)}), own, NOW + 7_200_000)


def test_longer_lifetime_in_the_same_change_extends_verification() -> None:
    tenant = changed(tenant_with(timeToLiveInSeconds=60), ttl=60, timeToLiveInSeconds=3600, **{ACCESS: _id(2)})
    assert _id(1) in trusted(tenant, make_application(), NOW + LAG_MS + HOUR)
    application = make_application(jwtConfiguration={"timeToLiveInSeconds": 7200})
    own = changed_application(tenant_with(), application, enabled=True, **{ACCESS: _id(2)})
    assert _id(1) in trusted(tenant_with(**{ACCESS: _id(3)}), own, NOW + LAG_MS + 2 * HOUR)


def test_application_switches_to_own_keys_and_back() -> None:
    tenant, plain = tenant_with(), make_application()
    own = changed_application(tenant, plain, enabled=True, **{ACCESS: _id(5)})
    assert (signs(tenant, own, NOW), signs(tenant, own, NOW + LAG_MS)) == (_id(1), _id(5))
    assert key_rotation.signing_key(tenant, own, ID, NOW + LAG_MS) == _id(1)
    later = NOW + 10_000
    back = changed_application(tenant, own, later, enabled=False)
    assert (signs(tenant, back, later), signs(tenant, back, later + LAG_MS)) == (_id(5), _id(1))
    without = {name: value for name, value in back["jwtConfiguration"].items() if name != ACCESS}
    assert _id(5) in trusted(tenant, {**back, "jwtConfiguration": without}, later + HOUR)
    # The tenant changes in the meantime: an application without keys of its own follows.
    assert signs(changed(tenant, later, **{ACCESS: _id(2)}), plain, later + LAG_MS) == _id(2)
    assert signs(changed(tenant, later, **{ACCESS: _id(2)}), own, later) == _id(5)


def test_retired_keys_verify_hints_for_a_time() -> None:
    tenant = changed(tenant_with(), **{ACCESS: _id(2)})
    soon, late = NOW + ONCE_DEAD + HINT_MS - 1, NOW + ONCE_DEAD + HINT_MS
    for now, expected in ((soon, {_id(1), _id(2), _id(3)}), (late, {_id(2), _id(3)})):
        assert trusted(changed(tenant, now, **{ACCESS: _id(3)}), make_application(), None) == expected


def test_retired_keys_are_bounded_without_losing_live_ones() -> None:
    tenant = tenant_with()
    for number in range(2, 300):
        tenant = changed(tenant, NOW + number, ttl=60, **{ACCESS: _id(number)})
    assert len(tenant["private"]["retiredKeys"]) == 298
    tenant = changed(tenant, NOW + 2 * HOUR, ttl=60, **{ACCESS: _id(400)})
    assert len(tenant["private"]["retiredKeys"]) == 10
    assert _id(299) in trusted(tenant, make_application(), NOW + 2 * HOUR)


# Entity types, which have one key, or the tenant's


def entity_type_with(**members: Any) -> dict[str, Any]:
    return {"id": _id(77), "jwtConfiguration": {"enabled": False, **members}, "private": {"permissionsCount": 3}}


def own_key(number: int, ttl: int = 3600) -> dict[str, Any]:
    return {"enabled": True, ACCESS: _id(number), "timeToLiveInSeconds": ttl}


def changed_type(stored: dict[str, Any], now: int = NOW, ttl: int = 3600, **members: Any) -> dict[str, Any]:
    document = {**stored, "jwtConfiguration": {"enabled": False, **members}}
    return {**document, "private": key_rotation.rotate_entity_type(stored, document, ttl, now)}


@pytest.mark.requirement("core-7-rotation-entity")
def test_entity_type_rotates_keys_like_an_application() -> None:
    tenant, rotated = tenant_with(), changed_type(entity_type_with(**own_key(5)), **own_key(6))
    assert [key_rotation.entity_key(tenant, rotated, NOW + after) for after in (0, LAG_MS - 1, LAG_MS)] == [
        (_id(5), 3600), (_id(5), 3600), (_id(6), 3600),
    ]  # fmt: skip
    assert trusted(tenant, rotated, NOW + ONCE_DEAD - 1) == {_id(1), _id(5), _id(6)}
    assert trusted(tenant, rotated, NOW + ONCE_DEAD) == {_id(1), _id(6)}
    assert rotated["private"]["permissionsCount"] == 3


@pytest.mark.requirement("core-7-rotation-entity")
def test_entity_type_switches_to_its_own_key_in_every_tenant() -> None:
    own = changed_type(entity_type_with(), **own_key(5, ttl=60))
    for number, ttl in ((1, 3600), (2, 1800)):
        tenant = tenant_with(**{ACCESS: _id(number), "timeToLiveInSeconds": ttl})
        # What the tenant's key signs lives as long as the tenant says: by that its own rotation keeps it.
        assert key_rotation.entity_key(tenant, own, NOW + LAG_MS - 1) == (_id(number), ttl)
        assert key_rotation.entity_key(tenant, own, NOW + LAG_MS) == (_id(5), 60)
        assert trusted(tenant, own, NOW) == {_id(number), _id(5)}


@pytest.mark.requirement("core-7-rotation-entity")
def test_entity_type_returns_to_the_keys_of_the_tenants() -> None:
    tenant = tenant_with(timeToLiveInSeconds=7200)
    back = changed_type(entity_type_with(**own_key(5, ttl=60)), ttl=7200)
    assert key_rotation.entity_key(tenant, back, NOW) == (_id(5), 7200)
    assert key_rotation.entity_key(tenant, back, NOW + LAG_MS) == (_id(1), 7200)
    assert _id(5) in trusted(tenant, back, NOW + LAG_MS + 2 * HOUR)
    assert trusted(tenant, back, NOW + 2 * LAG_MS + 2 * HOUR + MARGIN_MS) == {_id(1)}


def test_second_change_of_an_entity_type_before_the_first_is_in_force() -> None:
    tenant = tenant_with()
    twice = changed_type(changed_type(entity_type_with(), **own_key(5)), NOW + 100, **own_key(6))
    assert key_rotation.entity_key(tenant, twice, NOW + 100)[0] == _id(1)
    assert key_rotation.entity_key(tenant, twice, NOW + 100 + LAG_MS)[0] == _id(6)
    assert trusted(tenant, twice, NOW + 100) == {_id(1), _id(5), _id(6)}


def test_unrelated_changes_of_an_entity_type_record_no_rotation() -> None:
    for members in ({}, own_key(5)):
        stored = entity_type_with(**members)
        assert changed_type(stored, **members)["private"] == {"permissionsCount": 3}
