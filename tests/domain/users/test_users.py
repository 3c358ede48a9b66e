"""Users as values: login ids, derived, stored and visible members."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from identity.domain.users import users
from identity.ids import TenantId, UserId
from identity.instants import Instant

NOW = Instant(1_700_000_000_000)
LATER = Instant(NOW + 5000)
SECRET = base64.b64encode(b"12345678901234567890").decode()


def user_document(**members: Any) -> dict[str, Any]:
    plain = {
        "data": {},
        "memberships": [],
        "passwordChangeRequired": False,
        "preferredLanguages": [],
        "twoFactor": {"methods": [], "recoveryCodes": []},
        "usernameStatus": "ACTIVE",
    }
    return copy.deepcopy(plain | members)


def make_user(**members: Any) -> dict[str, Any]:
    return users.with_derived_members(
        users.with_unique_username(users.build_user(user_document(**members), UserId("u"), TenantId("t"), NOW))
    )


def kinds(errors: Any) -> set[str]:
    return {error.code for error in errors}


@pytest.mark.requirement("users-2-2")
def test_login_value_prefers_email_to_username_to_phone() -> None:
    everything = {"email": "a@example.com", "username": "ann", "phoneNumber": "+15551234567"}
    assert users.primary_login_id(make_user(**everything)) == "a@example.com"
    assert users.primary_login_id(make_user(**{**everything, "email": ""})) == "ann"
    assert users.primary_login_id(make_user(phoneNumber="+15551234567")) == "+15551234567"


def test_new_user_document_has_no_plain_password() -> None:
    user = make_user(email="a@example.com", password="p", salt="s", factor=1, encryptionScheme="bcrypt")
    assert not {"password", "salt", "factor", "encryptionScheme"} & user.keys()


def test_lookup_keys_are_derived_from_the_user() -> None:
    user = make_user(email="a@example.com", username="Ann", firstName="ANN", lastName="Lee")
    assert user["private"] == {
        "dataTerms": [],
        "login": "a@example.com",
        "terms": ["a@example.com", "ann", "lee"],
        "usernameKey": "ann",
    }
    renamed = users.with_derived_members(
        users.with_unique_username(users.apply_update(user, user_document(email="b@example.com"), LATER))
    )
    assert renamed["private"] == {"dataTerms": [], "login": "b@example.com", "terms": ["b@example.com"]}


@pytest.mark.requirement("users-2-2")
def test_identities_keep_the_instants_of_what_did_not_change() -> None:
    user = make_user(email="a@example.com", username="Ann")
    user["identities"][0]["lastLoginInstant"] = NOW
    changed = users.apply_update(user, user_document(email="a@example.com", username="Bob"), LATER)
    email, username = users.with_derived_members(users.with_unique_username(changed))["identities"]
    assert (email["insertInstant"], email["lastUpdateInstant"], email["lastLoginInstant"]) == (NOW, NOW, NOW)
    assert (username["value"], username["insertInstant"]) == ("Bob", LATER)
    assert "lastLoginInstant" not in username


@pytest.mark.requirement("users-2-2")
def test_identities_have_their_verification_reason() -> None:
    user = users.with_derived_members(
        users.with_verified_reason(make_user(email="a@example.com", username="Ann"), "Skipped", NOW)
    )
    found = {identity["type"]: (identity["verified"], identity["verifiedReason"]) for identity in user["identities"]}
    assert found == {"email": (True, "Skipped"), "username": (False, "Unverifiable")}
    assert user["verifiedInstant"] == NOW
    pending = users.with_verified_reason(user, "Pending", LATER)
    assert pending["verified"] is False
    assert users.with_verified_reason(pending, "Completed", LATER)["verifiedInstant"] == NOW


def test_replacement_keeps_immutable_members_and_increases_its_instant() -> None:
    user = {**make_user(email="a@example.com", firstName="Ann"), "active": False, "verified": True}
    fresh = users.apply_update(user, user_document(email="b@example.com"), NOW)
    assert (fresh["active"], fresh["verified"], fresh["id"]) == (False, True, "u")
    assert fresh["lastUpdateInstant"] == NOW + 1
    assert "firstName" not in fresh


def test_a_required_change_of_password_has_a_reason_for_as_long_as_it_is_required() -> None:
    user = make_user(email="a@example.com")
    required = users.apply_update(user, user_document(email="a@example.com", passwordChangeRequired=True), LATER)
    assert required["passwordChangeReason"] == "Administrative"
    expired = {**required, "passwordChangeReason": "Expired"}
    still = users.apply_update(expired, user_document(email="a@example.com", passwordChangeRequired=True), LATER)
    assert still["passwordChangeReason"] == "Expired"
    assert "passwordChangeReason" not in users.apply_update(expired, user_document(email="a@example.com"), LATER)


def test_only_a_method_with_the_same_id_keeps_its_secret() -> None:
    stored = {"methods": [{"id": "AAAA", "method": "authenticator", "secret": SECRET}], "recoveryCodes": ["c"]}
    sent = [{"id": "AAAA", "method": "authenticator"}, {"id": "BBBB", "method": "authenticator"}]
    kept = users.with_stored_secrets({"methods": sent, "recoveryCodes": []}, stored)
    assert [method.get("secret") for method in kept["methods"]] == [SECRET, None]
    assert kept["recoveryCodes"] == ["c"]
    gone = users.with_stored_secrets({"methods": [], "recoveryCodes": []}, stored)
    assert gone == {"methods": [], "recoveryCodes": []}


def test_patch_target_has_no_secrets_or_immutable_members() -> None:
    method = {"id": "AAAA", "method": "authenticator", "secret": SECRET}
    user = make_user(email="a@example.com", twoFactor={"methods": [method], "recoveryCodes": ["a recovery code"]})
    user["private"]["password"] = {"hash": "h-1"}
    form = users.request_form(user)
    assert not any(secret in str(form) for secret in (SECRET, "a recovery code", "h-1"))
    assert not {"id", "tenantId", "verified", "registrations", "insertInstant", "lastUpdateInstant"} & form.keys()


@pytest.mark.requirement("attack-56")
def test_events_and_responses_contain_no_secrets() -> None:
    method = {"id": "AAAA", "method": "authenticator", "secret": SECRET}
    user = make_user(email="a@example.com", twoFactor={"methods": [method], "recoveryCodes": ["a recovery code"]})
    user["registrations"] = [{"applicationId": "x", "authenticationToken": "t-1"}]
    before = copy.deepcopy(user)
    assert not any(
        secret in str(users.without_secrets(user)) for secret in (SECRET, "a recovery code", "t-1", "private")
    )
    assert "a recovery code" not in str(
        users.without_private_members(user)
    ) and "private" not in users.without_private_members(user)
    assert user == before


@pytest.mark.parametrize("number", ["+15551234567", "+4930123456"])
def test_phone_numbers_are_e164(number: str) -> None:
    assert users.is_e164_number(number)


@pytest.mark.parametrize(
    "number",
    [
        "",
        "5551234567",
        "+0555123456",
        "+1555",
        "+1234567890123456",
        "+1 555 123",
        "+\u0661\u0662\u0663\u0664\u0665\u0666\u0667",
    ],
)
def test_invalid_phone_numbers_are_rejected(number: str) -> None:
    assert not users.is_e164_number(number)


@pytest.mark.requirement("core-1-4")
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {"[blank]user.email", "[blank]user.username"}),
        ({"email": "a@example.com"}, set()),
        ({"phoneNumber": "+15551234567"}, set()),
        ({"username": "a\tb"}, {"[invalid]user.username"}),
        ({"username": "a", "mobilePhone": "555-555-5555"}, set()),
        ({"username": "a", "mobilePhone": "(555) 555-5555"}, set()),
        ({"username": "a", "mobilePhone": "+49 30 123456 ext. 7"}, set()),
        ({"username": "a", "mobilePhone": "call me"}, {"[invalid]user.mobilePhone"}),
        ({"username": "a", "mobilePhone": "\u0665\u0665\u0665\u0665\u0665\u0665\u0665"}, {"[invalid]user.mobilePhone"}),
        (
            {"username": "a", "twoFactor": {"methods": [{"id": "A", "method": "sms"}], "recoveryCodes": []}},
            {"[blank]user.twoFactor.methods[0].mobilePhone"},
        ),
        (
            {
                "username": "a",
                "twoFactor": {
                    "methods": [{"id": "AAAA", "method": "email", "email": "a@example.com"}] * 2,
                    "recoveryCodes": [],
                },
            },
            {"[duplicate]user.twoFactor.methods[1].id"},
        ),
    ],
)
def test_problems_of_a_user(members: dict[str, Any], expected: set[str]) -> None:
    assert kinds(users.problems(make_user(**members))) == expected


def test_blocked_domains_match_case_insensitively_and_completely() -> None:
    blocked = ["Blocked.example"]
    assert kinds(users.blocked_domain_problems({"email": "a@blocked.example"}, blocked)) == {"[blocked]user.email"}
    assert not users.blocked_domain_problems({"email": "a@not-blocked.example"}, blocked)
    assert not users.blocked_domain_problems({"email": "a@sub.blocked.example"}, blocked)
    assert not users.blocked_domain_problems({}, blocked)


def test_duplicate_error_depends_on_the_other_users_state() -> None:
    user = make_user(email="a@example.com", username="Ann")
    active, inactive = make_user(email="a@example.com"), {**make_user(username="ANN"), "active": False}
    assert kinds(users.duplicate_problems(user, [active, inactive])) == {
        "[duplicate]user.email",
        "[inactive]user.username",
    }


def test_a_changed_login_id_is_one_that_had_a_value_and_has_another() -> None:
    before = make_user(email="a@example.com", username="ann")
    after = make_user(email="b@example.com", phoneNumber="+15551234567")
    assert users.changed_identities(before, after) == [("email", "a@example.com", "b@example.com")]


@pytest.mark.requirement("users-2-5")
def test_username_suffix_has_the_configured_digits() -> None:
    suffix = users.username_suffix("#", 4)
    assert suffix[0] == "#" and len(suffix) == 5 and suffix[1:].isdigit()
