"""User claims in tokens and userinfo, by policy and scope."""

from __future__ import annotations

import pytest

from identity.domain.authorization import jwt_claims
from tests.builders import NOW, make_application, make_registration, make_user

ADDRESS = {"street_address": "1 Main Street", "country": "NZ"}
FULL = {
    "username": "someone",
    "firstName": "Some",
    "middleName": "Middle",
    "lastName": "One",
    "fullName": "Dr. Some One",
    "birthDate": "1990-02-28",
    "imageUrl": "https://example.com/i.png",
    "mobilePhone": "555 1234",
    "preferredLanguages": ["es_MX", "en"],
    "timezone": "America/Denver",
    "verified": True,
    "data": {
        "nickname": "Sam",
        "website": "https://example.com",
        "profile": "https://example.com/p",
        "gender": "x",
        "address": ADDRESS,
    },
}
PROFILE = {
    "name": "Dr. Some One",
    "given_name": "Some",
    "middle_name": "Middle",
    "family_name": "One",
    "nickname": "Sam",
    "preferred_username": "someone",
    "profile": "https://example.com/p",
    "picture": "https://example.com/i.png",
    "website": "https://example.com",
    "gender": "x",
    "birthdate": "1990-02-28",
    "zoneinfo": "America/Denver",
    "locale": "es-MX",
    "updated_at": NOW // 1000,
}
EMAIL = {"email": "user@example.com", "email_verified": True}


@pytest.fixture
def strict():
    return make_application({"scopeHandlingPolicy": "Strict"})


@pytest.fixture
def compatible():
    return make_application({"scopeHandlingPolicy": "Compatibility"})


@pytest.mark.requirement("certification-token-7", "contract-userinfo-6")
@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ((), {}),
        (("openid", "offline_access", "other"), {}),
        (("profile",), PROFILE),
        (("email",), EMAIL),
        (("address",), {"address": ADDRESS}),
        (("phone",), {"phone_number": "555 1234"}),
        (("profile", "email"), {**PROFILE, **EMAIL}),
    ],
)
def test_scopes_return_all_claims_with_a_value(scopes, expected):
    assert jwt_claims.scope_claims(make_user(**FULL), scopes) == expected


def test_claims_without_a_value_are_omitted():
    user = make_user()
    assert jwt_claims.scope_claims(user, ("profile", "phone", "address")) == {"updated_at": NOW // 1000}
    assert jwt_claims.scope_claims(make_user(email=None, username="x"), ("email",)) == {}


def test_name_is_composed_where_there_is_no_full_name():
    assert jwt_claims.scope_claims(make_user(firstName="Some", lastName="One"), ("profile",))["name"] == "Some One"


@pytest.mark.requirement("contract-userinfo-8")
def test_phone_number_is_verified_only_as_an_identity():
    identity = {"type": "phoneNumber", "value": "+15551234567", "verified": True}
    user = make_user(phoneNumber="+15551234567", mobilePhone="555 9", identities=[identity])
    expected = {"phone_number": "+15551234567", "phone_number_verified": True}
    assert jwt_claims.scope_claims(user, ("phone",)) == expected
    user["identities"] = []
    assert jwt_claims.scope_claims(user, ("phone",))["phone_number_verified"] is False


def test_address_in_data_may_be_a_string():
    user = make_user(data={"address": "1 Main Street\nAuckland"})
    assert jwt_claims.scope_claims(user, ("address",)) == {"address": {"formatted": "1 Main Street\nAuckland"}}


@pytest.mark.requirement("certification-token-6")
@pytest.mark.parametrize("value", [7, True, [], {"a": 1}, None])
def test_mistyped_data_is_not_returned(value):
    user = make_user(data={"nickname": value, "address": [value]})
    assert set(jwt_claims.scope_claims(user, ("profile", "address"))) == {"updated_at"}


def test_data_cannot_set_other_claims():
    user = make_user(data={"sub": "admin", "roles": ["admin"], "email": "x@y.z", "name": "Other"})
    assert set(jwt_claims.scope_claims(user, ("profile", "address"))) == {"updated_at"}


@pytest.mark.requirement("contract-userinfo-10")
def test_strict_userinfo_follows_the_scopes(strict):
    user = make_user(**FULL)
    token = {"sub": user["id"], "applicationId": strict["id"], "roles": ["admin"], "custom": 1}
    assert jwt_claims.userinfo_claims(user, strict, token, ("openid", "email")) == {"sub": user["id"], **EMAIL}


@pytest.mark.requirement("contract-userinfo-10")
def test_compatible_userinfo_has_token_and_user_claims(compatible):
    user = make_user(**FULL)
    token = {
        "sub": user["id"],
        "applicationId": compatible["id"],
        "roles": ["admin"],
        "custom": 1,
        **dict.fromkeys(("aud", "exp", "iat", "iss", "jti", "tid", "tty", "gty", "sid", "scope", "auth_time"), "x"),
    }
    kept = ("birthdate", "family_name", "given_name", "middle_name", "name", "picture", "preferred_username")
    assert jwt_claims.userinfo_claims(user, compatible, token, ()) == {
        "sub": user["id"],
        "applicationId": compatible["id"],
        "roles": ["admin"],
        "custom": 1,
        "phone_number": "555 1234",
        **EMAIL,
        **{name: PROFILE[name] for name in kept},
    }


def test_access_token_has_application_and_roles_of_registered_users(strict, compatible):
    user = make_user(registrations=[make_registration(strict, "b", "a")])
    assert jwt_claims.access_token_claims(user, strict) == {"applicationId": strict["id"], "roles": ["a", "b"]}
    assert jwt_claims.access_token_claims(user, compatible) == {"email": "user@example.com", "email_verified": False}


@pytest.mark.requirement("audit-b2")
@pytest.mark.parametrize("alone", [True, False])
def test_id_token_has_the_claims_of_its_scopes(alone, strict, compatible):
    user = make_user(**FULL)
    granted = ("openid", "email", "address")
    address = {"address": ADDRESS} if alone else {}
    assert jwt_claims.id_token_claims(user, strict, granted, alone=alone) == {**EMAIL, **address}
    login_ids = {**EMAIL, "preferred_username": "someone"}
    assert jwt_claims.id_token_claims(user, compatible, ("openid",), alone=alone) == login_ids


@pytest.mark.requirement("audit-b2")
@pytest.mark.parametrize("oauth", [{"idTokenClaims": "Minimal"}, {"profile": "strict"}])
@pytest.mark.parametrize("policy", ["Strict", "Compatibility"])
def test_minimal_id_token_has_user_claims_only_without_access_token(policy, oauth):
    user, application = make_user(**FULL), make_application({"scopeHandlingPolicy": policy, **oauth})
    granted = ("openid", "email")
    assert jwt_claims.id_token_claims(user, application, granted, alone=False) == {}
    assert jwt_claims.id_token_claims(user, application, granted, alone=True)["email"] == "user@example.com"


@pytest.mark.requirement("oauth-4.4-6")
def test_all_returned_claims_are_in_claims_supported(strict):
    token_claims = set(jwt_claims.scope_claims(make_user(**FULL), ("profile", "email", "address", "phone")))
    assert token_claims <= set(jwt_claims.CLAIMS_SUPPORTED)
    assert jwt_claims.is_strict(strict)
