"""Two-factor policies, trusted devices, and the visible members of methods."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.login.login_outcomes import Authenticated, PasswordChangeRequired, SecondFactorRequired, find_halt
from identity.domain.two_factor import two_factor
from identity.instants import Instant

Document = dict[str, Any]
METHOD = {"id": "AAAA", "method": "email", "email": "ada@example.com", "secret": "hidden"}


def tenant(policy: str = "Enabled", **enabled: bool) -> Document:
    methods = {method: {"enabled": enabled.get(method, False)} for method in two_factor.METHODS}
    return {"multiFactorConfiguration": {"loginPolicy": policy, **methods}}


def application(policy: str | None = None, trust: str | None = None) -> Document:
    settings = {"loginPolicy": policy, "trustPolicy": trust}
    return {"id": "app", "multiFactorConfiguration": {name: value for name, value in settings.items() if value}}


def user(*methods: Document) -> Document:
    return {"twoFactor": {"methods": list(methods), "recoveryCodes": []}}


@pytest.mark.requirement("users-9-19")
@pytest.mark.parametrize(
    ("policy", "own", "has_method", "is_trusted", "expected"),
    [
        ("Enabled", None, True, False, True),
        ("Enabled", None, True, True, False),
        ("Enabled", None, False, False, False),
        ("Disabled", None, True, False, False),
        ("Required", None, True, False, True),
        ("Required", None, True, True, False),
        ("Required", None, False, False, True),
        ("Required", None, False, True, True),
        ("ChallengeOnHighRisk", None, True, False, True),
        ("ChallengeOnMediumRisk", None, False, False, False),
        ("Required", "Disabled", True, False, False),
        ("Disabled", "Required", False, False, True),
        ("Disabled", "Enabled", True, False, True),
    ],
)
def test_policy_determines_who_is_challenged(policy, own, has_method, is_trusted, expected) -> None:
    about = user(METHOD) if has_method else user()
    for asked in (application(own), None) if own is None else (application(own),):
        assert two_factor.is_challenged(tenant(policy), asked, about, is_trusted=is_trusted) is expected


@pytest.mark.requirement("users-9-20")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [(None, {"app", None, "other"}), ("Any", {"app", None, "other"}), ("This", {"app"}), ("None", set())],
)
def test_trust_policy_determines_valid_trusts(policy, expected) -> None:
    live = [
        {"applicationId": "app", "expiration": 11},
        {"applicationId": "other", "expiration": 11},
        {"expiration": 11},
    ]
    over = [{**trust, "expiration": 10} for trust in live]
    found = two_factor.valid_trusts([*live, *over], application("Enabled", policy), Instant(10))
    assert {trust.get("applicationId") for trust in found} == expected
    assert len(found) == len(expected)


def test_without_application_every_trust_is_valid() -> None:
    trusts = [{"applicationId": "app", "expiration": 11}, {"expiration": 11}]
    assert two_factor.valid_trusts(trusts, None, Instant(10)) == trusts


def test_enabled_methods_can_be_added() -> None:
    assert two_factor.configurable_methods(tenant()) == ()
    assert two_factor.configurable_methods(tenant(authenticator=True, sms=True)) == ("authenticator", "sms")


def test_visible_method_has_no_secret_and_is_masked() -> None:
    assert two_factor.visible_method(METHOD, is_masked=False) == {
        "id": "AAAA",
        "method": "email",
        "email": "ada@example.com",
    }
    assert two_factor.visible_method(METHOD, is_masked=True)["email"] == "a***@example.com"
    phone = {"id": "BBBB", "method": "sms", "mobilePhone": "+1 (415) 555-0123"}
    assert two_factor.visible_method(phone, is_masked=True)["mobilePhone"] == "***23"
    assert two_factor.masked_email("a@b@example.com") == "a***@example.com"


def test_recovery_codes_match_in_any_notation() -> None:
    codes = two_factor.new_recovery_codes()
    typed = codes[7].lower().replace("-", " ")
    assert two_factor.matches_recovery_code(codes, f" {typed} ")
    assert not two_factor.matches_recovery_code(codes, "AAAAA-AAAAA"[:-1])
    assert not two_factor.matches_recovery_code([], "")


def test_lost_methods_are_detected() -> None:
    other = {**METHOD, "id": "BBBB"}
    assert two_factor.has_lost_methods(user(METHOD), user(other))
    assert not two_factor.has_lost_methods(user(METHOD), user(METHOD, other))


def test_second_factor_precedes_a_required_password_change() -> None:
    settings = {**tenant("Required", authenticator=True), "maximumPasswordAge": {"enabled": False}}
    settings["passwordValidationRules"] = {"validateOnLogin": False}
    about = {**user(), "private": {}, "active": True, "passwordChangeRequired": True, "passwordChangeReason": "Expired"}
    stopped = find_halt(Authenticated(settings, None, about, Instant(0), "password"))
    assert isinstance(stopped, SecondFactorRequired)
    assert (stopped.configurable, stopped.reason_to_change) == (("authenticator",), "Expired")
    after = Authenticated(
        settings, None, {**about, "passwordChangeRequired": False}, Instant(0), has_second_factor=True
    )
    later = find_halt(
        Authenticated(after.tenant, None, after.user, after.now, has_second_factor=True, reason_to_change="Breached")
    )
    assert later == PasswordChangeRequired(after.user, "Breached", has_second_factor=True)
