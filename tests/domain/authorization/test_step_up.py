"""Rules of step-up authentication (RFC 9470): classes, requests that need a second factor, challenges."""

from __future__ import annotations

import json

import pytest

from identity.domain.authorization import claims_request, step_up
from identity.domain.clients.oauth_settings import OAuthSettings

GOLD, BRONZE = "urn:example:gold", "urn:example:bronze"
BOTH = OAuthSettings(authentication_context_class=BRONZE, step_up_configuration={"contextClass": GOLD})


def acr(acr_values: str | None = None, **how):
    claims = json.dumps({"id_token": {"acr": how}}) if how else None
    return claims_request.parse(claims, acr_values).acr


@pytest.mark.requirement("oauth-12-43")
@pytest.mark.parametrize(("requested", "is_required"), [
    (acr(GOLD), True),
    (acr(f"{GOLD} {BRONZE}"), True),
    (acr(f"urn:example:platinum {GOLD}"), True),
    (acr(essential=True, values=[GOLD]), True),
    (acr(value=GOLD), True),
    (acr(f"{BRONZE} {GOLD}"), False),
    (acr("urn:example:platinum"), False),
    (acr(essential=True), False),
    (acr(), False),
])  # fmt: skip
def test_first_supported_class_counts(requested, is_required):
    assert step_up.requires_second_factor(BOTH, requested) is is_required
    assert not step_up.requires_second_factor(OAuthSettings(authentication_context_class=BRONZE), requested)


@pytest.mark.requirement("oauth-12-43")
def test_class_is_that_of_the_actual_login():
    assert step_up.achieved_class(BOTH, ("pwd",)) == BRONZE
    assert step_up.achieved_class(BOTH, ("pwd", "otp", "mfa")) == GOLD
    assert step_up.achieved_class(OAuthSettings(), ("pwd", "otp", "mfa")) is None
    assert step_up.supported_classes(BOTH) == (BRONZE, GOLD)


@pytest.mark.requirement("oauth-12-44")
@pytest.mark.parametrize(("settings", "claims", "challenge"), [
    ({}, {"auth_time": 0}, None),
    ({"requiredAtUserinfo": True}, {"acr": GOLD}, None),
    ({"requiredAtUserinfo": True}, {"acr": BRONZE}, {"acr_values": GOLD}),
    ({"requiredAtUserinfo": True}, {}, {"acr_values": GOLD}),
    ({"maximumAgeAtUserinfo": 60}, {"auth_time": 1000}, None),
    ({"maximumAgeAtUserinfo": 60}, {"auth_time": 900}, {"max_age": "60"}),
    ({"maximumAgeAtUserinfo": 60}, {}, {"max_age": "60"}),
    ({"maximumAgeAtUserinfo": 60, "requiredAtUserinfo": True}, {}, {"acr_values": GOLD, "max_age": "60"}),
])  # fmt: skip
def test_challenge_says_what_is_required(settings, claims, challenge):
    oauth = OAuthSettings(step_up_configuration={"contextClass": GOLD, **settings})
    assert step_up.userinfo_challenge(oauth, claims, 1050) == challenge
    assert step_up.userinfo_challenge(OAuthSettings(), claims, 1050) is None
