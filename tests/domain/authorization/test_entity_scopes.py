"""Scopes of the client credentials grant."""

from __future__ import annotations

import pytest

from identity.domain.authorization import entity_scopes
from identity.errors import InvalidScope

ONE, OTHER = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


@pytest.mark.requirement("contract-token-14")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, {}),
        ("", {}),
        (f"target-entity:{ONE}", {ONE: ()}),
        (f"target-entity:{ONE.upper()}", {ONE: ()}),
        (f"target-entity:{ONE}:read", {ONE: ("read",)}),
        (f"target-entity:{ONE}:write,read,write", {ONE: ("write", "read")}),
        (f"target-entity:{ONE}:scim:user:read,a:b", {ONE: ("scim:user:read", "a:b")}),
        (f"target-entity:{ONE}:read  target-entity:{OTHER}", {ONE: ("read",), OTHER: ()}),
        (f"target-entity:{ONE}:read target-entity:{ONE}:write", {ONE: ("read", "write")}),
        (f"target-entity:{ONE}:read target-entity:{ONE}", {ONE: ()}),
        (f"target-entity:{ONE} target-entity:{ONE}:read", {ONE: ()}),
    ],
)
def test_targets_and_permissions_are_parsed(text, wanted):
    assert entity_scopes.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "openid",
        "target-entity",
        "target-entity:",
        "target-entity:unknown",
        f"target-entity:{ONE}:",
        f"target-entity:{ONE}:,",
        f"target-entity:{ONE}:read,",
        f"target-entity:{ONE}:read,,write",
        f'target-entity:{ONE}:re"ad',
        f"target-entity:{ONE}:read\ttarget-entity:{OTHER}",
        f"Target-Entity:{ONE}",
        f"target-entity:{ONE} offline_access",
        " ".join([f"target-entity:{ONE}"] * 101),
    ],
)
def test_other_resources_are_invalid_targets(text):
    with pytest.raises(InvalidScope) as refusal:
        entity_scopes.parse(text)
    assert refusal.value.reason == "invalid_target_entity_scope"


def test_attack_28_granted_permissions_are_requested_and_held():
    assert entity_scopes.granted(ONE, (), ["read", "write"]) == ("read", "write")
    assert entity_scopes.granted(ONE, ("write",), ["read", "write"]) == ("write",)
    assert entity_scopes.granted(ONE, (), []) == ()
    for held in ([], ["read"], ["admin "]):
        with pytest.raises(InvalidScope) as refusal:
            entity_scopes.granted(ONE, ("read", "admin"), held)
        assert refusal.value.reason == "invalid_entity_permission_scope"
