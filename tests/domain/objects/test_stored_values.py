"""Conversion between values and stored documents."""

from __future__ import annotations

import dataclasses
import json

import pytest

from identity.domain.authorization import claims_request
from identity.domain.authorization.authorization_codes import AuthorizationCode
from identity.domain.objects import stored_values
from identity.domain.objects.stored_values import stored_as
from identity.instants import Instant


@dataclasses.dataclass(frozen=True)
class Value:
    """A value with a member of each kind."""

    user_id: str
    scopes: tuple[str, ...] = ()
    is_new: bool = True
    link_id: str | None = stored_as("idPLink", default=None)


def test_members_have_names_in_camel_case_unless_stated() -> None:
    stored = stored_values.to_document(Value("u", ("a", "b"), is_new=False, link_id="l"))
    assert stored == {"userId": "u", "scopes": ("a", "b"), "isNew": False, "idPLink": "l"}


@pytest.mark.parametrize("value", [Value("u"), Value("u", ("a",), is_new=False, link_id="l")])
def test_value_survives_storage_as_json(value: Value) -> None:
    stored = json.loads(json.dumps(stored_values.to_document(value)))
    assert stored_values.from_document(Value, {**stored, "other": "members are ignored"}) == value


def test_absent_members_have_their_defaults() -> None:
    assert stored_values.from_document(Value, {"userId": "u"}) == Value("u")


def test_authorization_code_survives_storage_as_json() -> None:
    claims = claims_request.parse('{"id_token": {"email": null}}', None)
    code = AuthorizationCode("c", "https://a.example", "u", ("openid",), Instant(5), "PASSWORD", claims=claims)
    code = dataclasses.replace(code, dpop_jkt="jkt", device={"name": "TV"}, token_ids=("t",), device_grant_id="g")
    stored = json.loads(json.dumps(code.to_document()))
    assert {"clientId", "redirectUri", "codeChallenge", "dpopJkt", "deviceGrantId", "tokenIds"} <= stored.keys()
    assert AuthorizationCode.from_document(stored) == code
