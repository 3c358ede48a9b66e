"""The risk of a login: each signal with its levels, the switches of the tenant, and the sum."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from identity.config import loading
from identity.domain.login import client_risk
from identity.domain.login.client_risk import Level, RiskFacts
from identity.instants import Instant
from tests.conftest import ROOT

SETTINGS = loading.load(ROOT / "config", {}).client_risk
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = Instant(5_000 * DAY)
USER: dict[str, Any] = {
    "insertInstant": NOW - 1_000 * DAY,
    "lastLoginInstant": NOW - DAY,
    "passwordLastUpdateInstant": NOW - 30 * DAY,
    "identities": [{"insertInstant": NOW - 1_000 * DAY}],
    "twoFactor": {"methods": []},
}
METHOD = {"insertInstant": NOW - 900 * DAY}


def assess(user: dict[str, Any] | None = None, switches: dict[str, bool] | None = None, **facts: Any):
    return client_risk.assess(RiskFacts(NOW, {**USER, **(user or {})}, **facts), switches or {}, SETTINGS)


def found(risk: client_risk.ClientRisk) -> dict[str, str]:
    return {finding.name: finding.level.name for finding in risk.findings}


def test_usual_login_has_no_risk() -> None:
    assert assess() == client_risk.ClientRisk(Level.LOW)


@pytest.mark.requirement("users-10-23")
@pytest.mark.parametrize(
    ("user", "facts", "expected"),
    [
        ({}, {"is_travel_impossible": True}, {"ImpossibleTravel": "HIGH"}),
        ({}, {"is_new_device": True}, {"UnrecognizedDevice": "HIGH"}),
        ({}, {"is_address_blocklisted": True}, {"BlocklistedIp": "HIGH"}),
        ({}, {"user_agent": "Mozilla/5.0 HeadlessChrome/120"}, {"SuspiciousUserAgent": "HIGH"}),
        ({}, {"user_agent": "Mozilla/5.0 (X11; Linux) Firefox/120"}, {}),
        ({"breachedPasswordStatus": "ExactMatch"}, {}, {"BreachedPassword": "HIGH"}),
        ({"breachedPasswordStatus": "None"}, {}, {}),
        ({}, {"failures": [NOW - 59 * MINUTE] * 2}, {}),
        ({}, {"failures": [NOW - 59 * MINUTE] * 3}, {"FailedAttempts": "MEDIUM"}),
        ({}, {"failures": [NOW] * 10}, {"FailedAttempts": "HIGH"}),
        ({}, {"failures": [NOW - 61 * MINUTE] * 10}, {}),
        ({"lastLoginInstant": NOW - 59 * DAY}, {}, {}),
        ({"lastLoginInstant": NOW - 60 * DAY}, {}, {"DormantAccount": "MEDIUM"}),
        ({"lastLoginInstant": NOW - 180 * DAY}, {}, {"DormantAccount": "HIGH"}),
        ({"passwordLastUpdateInstant": NOW - 365 * DAY}, {}, {"DormantPassword": "MEDIUM"}),
        ({"passwordLastUpdateInstant": NOW - 730 * DAY}, {}, {"DormantPassword": "HIGH"}),
        ({"passwordLastUpdateInstant": NOW - 23 * HOUR}, {}, {"RecentPasswordChange": "HIGH"}),
        ({"passwordLastUpdateInstant": NOW - 6 * DAY}, {}, {"RecentPasswordChange": "MEDIUM"}),
        ({"passwordLastUpdateInstant": NOW - 8 * DAY}, {}, {}),
        ({"identities": [{"insertInstant": NOW - HOUR}]}, {}, {"RecentIdentityChange": "HIGH"}),
        ({"identities": [{"insertInstant": NOW - 2 * DAY}]}, {}, {"RecentIdentityChange": "MEDIUM"}),
        ({"twoFactor": {"methods": [METHOD]}}, {"is_device_trusted": True}, {}),
        ({"twoFactor": {"methods": [METHOD]}}, {}, {"UntrustedDevice": "MEDIUM"}),
        (
            {"twoFactor": {"methods": [METHOD, {"insertInstant": NOW - HOUR}]}},
            {"is_device_trusted": True},
            {"RecentFactorChange": "HIGH"},
        ),
    ],
)
def test_signals_have_levels(user: dict[str, Any], facts: dict[str, Any], expected: dict[str, str]) -> None:
    assert found(assess(user, **facts)) == expected


def test_what_a_user_was_created_with_is_no_change() -> None:
    created = {"insertInstant": NOW - HOUR, "lastLoginInstant": NOW - HOUR, "passwordLastUpdateInstant": NOW - HOUR}
    assert found(assess({**created, "identities": [{"insertInstant": NOW - HOUR}]})) == {}


def test_user_without_an_earlier_login_has_no_changes_and_no_dormancy() -> None:
    never = {name: value for name, value in USER.items() if name != "lastLoginInstant"}
    never["passwordLastUpdateInstant"] = NOW - HOUR
    assert client_risk.assess(RiskFacts(NOW, never), {}, SETTINGS).findings == ()


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        ({"is_travel_impossible": True}, Level.HIGH),
        ({"is_new_device": True}, Level.MEDIUM),
        ({"is_new_device": True, "failures": [NOW] * 10}, Level.HIGH),
        ({"failures": [NOW] * 3}, Level.LOW),
    ],
)
def test_weights_add_up_to_the_level(facts: dict[str, Any], level: Level) -> None:
    assert assess(**facts).level is level


def test_thresholds_of_the_operator_apply() -> None:
    settings = dataclasses.replace(SETTINGS, medium_score=10, high_score=50)
    facts = RiskFacts(NOW, USER, is_new_device=True)
    assert client_risk.assess(facts, {}, settings).level is Level.HIGH


@pytest.mark.parametrize("signal", [s for s in client_risk.SIGNALS if s.switch], ids=lambda signal: signal.name)
def test_tenant_switches_every_published_signal_off(signal: client_risk.Signal) -> None:
    everything = {
        "lastLoginInstant": NOW - 200 * DAY,
        "identities": [{"insertInstant": NOW - HOUR}],
        "twoFactor": {"methods": [METHOD]},
    }
    facts: dict[str, Any] = {
        "is_travel_impossible": True,
        "is_new_device": True,
        "is_address_blocklisted": True,
        "user_agent": "curl/8",
    }
    change = NOW - (800 * DAY if signal.name == "DormantPassword" else HOUR)
    everything["passwordLastUpdateInstant"] = change
    assert signal.name in found(assess(everything, **facts))
    assert signal.switch is not None
    assert signal.name not in found(assess(everything, {signal.switch: False}, **facts))


def test_only_published_signals_of_the_level_high_are_threats() -> None:
    user = {"breachedPasswordStatus": "ExactMatch", "lastLoginInstant": NOW - 60 * DAY}
    risk = assess(user, is_new_device=True)
    assert risk.threats == ("UnrecognizedDevice",)
    assert risk.published_threats == ("UnrecognizedDevice", "DormantAccount")
    assert risk.reasons == ["BreachedPassword", "UnrecognizedDevice", "DormantAccount"]


def test_documentation_lists_every_signal_with_its_weights() -> None:
    text = Path(ROOT / "docs" / "users" / "risk.md").read_text()
    for signal in client_risk.SIGNALS:
        weights = [str(signal.weights.get(level, "")) for level in (Level.MEDIUM, Level.HIGH)]
        assert f"| `{signal.name}` | {weights[0]} | {weights[1]} |" in text
