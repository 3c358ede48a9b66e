"""Validation of client assertions, with exact time limits."""

from __future__ import annotations

import pytest

from identity.domain.clients import client_assertions as rules

NOW = 1_800_000_000
US = ("https://us.example.com", "https://us.example.com/oauth2/token")
GOOD = {"iss": "client", "sub": "client", "aud": US[0], "exp": NOW + 60, "jti": "1"}


def problem(**changes):
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return rules.problem(claims, "client", US, NOW)


def test_complete_assertion_is_accepted():
    assert problem() is None
    assert problem(aud=list(US)) is None
    assert problem(iat=NOW, nbf=NOW, azp="x") is None


@pytest.mark.requirement("oauth-2.1-13")
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"exp": NOW - 59}, None),
        ({"exp": NOW - 60}, "expired"),
        ({"exp": NOW + 360}, None),
        ({"exp": NOW + 361}, "too long"),
        ({"exp": NOW + 86_400, "iat": NOW}, None),
        ({"exp": NOW + 86_400, "iat": NOW + 60}, None),
        ({"exp": NOW + 86_400, "iat": NOW + 61}, "not valid yet"),
        ({"exp": NOW + 86_400, "iat": NOW - 359}, None),
        ({"exp": NOW + 86_400, "iat": NOW - 360}, "expired"),
        ({"nbf": NOW + 60}, None),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"exp": None}, "exp"),
        ({"exp": None, "iat": NOW}, "exp"),
    ],
)
def test_assertion_is_valid_for_five_minutes_with_a_minute_leeway(changes, word):
    found = problem(**changes)
    assert (found is None) if word is None else (word in found)


def test_jti_is_stored_until_the_assertion_expires():
    assert rules.effective_expiration({"exp": NOW + 60}) == NOW + 60
    assert rules.effective_expiration({"exp": NOW + 3600, "iat": NOW}) == NOW + 300
    assert rules.effective_expiration({"exp": NOW + 60, "iat": NOW}) == NOW + 60


@pytest.mark.requirement("attack-40")
def test_attack_40_assertion_is_invalid_after_its_jti_is_deleted():
    """To the last second that an assertion is taken, its jti is remembered."""
    for claims in ({"exp": NOW + 300}, {"exp": NOW + 9999, "iat": NOW}, {"exp": NOW + 1, "iat": NOW - 100}):
        forgotten = rules.effective_expiration(claims) + rules.LEEWAY_SECONDS
        assert rules.time_problem(claims, forgotten - 1) is None
        assert rules.time_problem(claims, forgotten) == "has expired"


@pytest.mark.parametrize("audience", [None, "", "https://us.example.com/", [], [US[0], "x"], ["x", US[0]], [""]])
def test_audience_must_be_this_issuer_alone(audience):
    assert "aud" in problem(aud=audience)


@pytest.mark.parametrize("changes", [{"iss": "other"}, {"sub": "other"}, {"iss": None}, {"sub": None}])
def test_issuer_and_subject_are_the_client(changes):
    assert "iss" in problem(**changes)


@pytest.mark.parametrize(
    ("header", "is_fine"),
    [
        ({}, True),
        ({"typ": "JWT"}, True),
        ({"typ": "application/client-authentication+jwt"}, True),
        ({"typ": "at+jwt"}, False),
        ({"typ": ""}, False),
        ({"typ": None}, False),
        ({"typ": ["JWT"]}, False),
    ],
)
def test_typ_is_optional_but_checked(header, is_fine):
    assert (rules.type_problem(header) is None) == is_fine
