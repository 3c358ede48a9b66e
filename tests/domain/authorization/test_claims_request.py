"""Parsing of the claims parameter."""

from __future__ import annotations

import json

import pytest

from identity.domain.authorization import claims_request
from identity.domain.authorization.claims_request import ACR, NO_CLAIMS, ClaimsRequest, RequestedClaim
from identity.errors import InvalidRequest


def parsed(members, acr_values=None) -> ClaimsRequest:
    return claims_request.parse(json.dumps(members), acr_values)


def test_example_of_openid_connect_core_5_5():
    request = parsed(
        {
            "userinfo": {
                "given_name": {"essential": True},
                "nickname": None,
                "email": {"essential": True},
                "email_verified": {"essential": True},
                "picture": None,
                "http://example.info/claims/groups": None,
            },
            "id_token": {
                "auth_time": {"essential": True},
                "acr": {"values": ["urn:mace:incommon:iap:silver"]},
            },
        }
    )
    assert request.userinfo == {
        "given_name": RequestedClaim(is_essential=True),
        "nickname": RequestedClaim(),
        "email": RequestedClaim(is_essential=True),
        "email_verified": RequestedClaim(is_essential=True),
        "picture": RequestedClaim(),
    }
    assert request.id_token == {ACR: RequestedClaim(values=('"urn:mace:incommon:iap:silver"',))}


def test_empty_request_stores_nothing():
    for request in (claims_request.parse(None, None), parsed({}), parsed({"userinfo": None, "id_token": {"x": None}})):
        assert request == NO_CLAIMS
        assert request.to_document() is None
    assert ClaimsRequest.from_document(None) is NO_CLAIMS


def test_stored_request_is_equivalent_except_essential():
    request = parsed({"userinfo": {"email": {"essential": True}, "name": {"value": "Ada"}}}, "a b")
    kept = request.to_document()
    assert kept == {"userinfo": {"email": None, "name": ['"Ada"']}, "id_token": {"acr": ['"a"', '"b"']}}
    assert ClaimsRequest.from_document(json.loads(json.dumps(kept))).to_document() == kept


def test_claims_parameter_takes_precedence_over_acr_values():
    request = parsed({"id_token": {"acr": {"essential": True, "value": "gold"}}}, "bronze")
    assert request.acr == RequestedClaim(is_essential=True, values=('"gold"',))
    assert claims_request.parse(None, "bronze").acr == RequestedClaim(values=('"bronze"',))


@pytest.mark.parametrize(("value", "accepted"), [(True, True), ("true", False), (1, False), (None, False)])
def test_values_are_compared_with_their_types(value, accepted):
    [wish] = parsed({"userinfo": {"email_verified": {"value": True}}}).userinfo.values()
    assert wish.accepts(value) is accepted


def test_objects_compare_independently_of_member_order():
    [wish] = parsed({"userinfo": {"address": {"value": {"a": 1, "b": 2}}}}).userinfo.values()
    assert wish.accepts({"b": 2, "a": 1})


def test_requested_sub_selects_one_user():
    request = parsed({"id_token": {"sub": {"value": "one"}}})
    assert request.is_about("one") and not request.is_about("other")
    assert parsed({"id_token": {"sub": None}}).is_about("anybody") and NO_CLAIMS.is_about("anybody")


@pytest.mark.parametrize(
    "value",
    [None, True, 0, 2**64, -(2**63), 1e300, "", "\x00", "\U0001f600", [], [[]], {}, {"$a.b": [None]}, "x" * 2000],
)
def test_requested_values_can_be_stored(value):
    members = {"userinfo": {"email": {"value": value}, "name": {"values": [value, value]}}}
    kept = parsed(members).to_document()
    assert kept is not None
    assert all(isinstance(text, str) for texts in kept["userinfo"].values() for text in texts)
    assert ClaimsRequest.from_document(kept).to_document() == kept


@pytest.mark.parametrize("depth", [300, 2000])
def test_deep_values_are_refused(depth):
    text = '{"userinfo": {"email": {"value": ' + depth * "[" + depth * "]" + "}}}"
    with pytest.raises(InvalidRequest, match="claims"):
        claims_request.parse(text, None)
