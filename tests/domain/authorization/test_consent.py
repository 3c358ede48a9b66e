"""Consent: the prompt matrix, remembered decisions, and granted scopes."""

from __future__ import annotations

import pytest

from identity.domain.authorization import consent
from identity.domain.authorization.consent import ConsentDecision
from identity.errors import AccessDenied

WANTED = ("openid", "offline_access", "email", "phone", "calendar", "unheard-of")
MODES = ("AlwaysPrompt", "RememberDecision", "NeverPrompt")
ANSWERED = ConsentDecision(frozenset({"email", "calendar"}), frozenset({"phone"}))


def application(relationship="ThirdParty", mode="AlwaysPrompt", required=(), disabled=()):
    provided = {
        name: {"enabled": name not in disabled, "required": name in required}
        for name in ("address", "email", "phone", "profile")
    }
    return {
        "oauthConfiguration": {"relationship": relationship, "consentMode": mode, "providedScopePolicy": provided},
        "scopes": [{"name": "calendar", "required": "calendar" in required}],
    }


@pytest.mark.requirement("oauth-1.9-19")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("again", [False, True])
def test_first_party_applications_need_no_consent(mode, again):
    assert consent.consent_prompt(application("FirstParty", mode), WANTED, None, force=again) is None


@pytest.mark.requirement("oauth-1.9-19")
@pytest.mark.parametrize(
    ("mode", "earlier", "again", "asks"),
    [
        ("AlwaysPrompt", None, False, True),
        ("AlwaysPrompt", None, True, True),
        ("RememberDecision", None, False, True),
        ("RememberDecision", ANSWERED, False, False),
        ("RememberDecision", ANSWERED, True, True),
        ("NeverPrompt", None, False, False),
        ("NeverPrompt", None, True, False),
    ],
)
def test_prompt_matrix_of_third_parties(mode, earlier, again, asks):
    assert (consent.consent_prompt(application(mode=mode), WANTED, earlier, force=again) is not None) is asks


def test_prompt_separates_required_optional_and_unknown_scopes():
    question = consent.consent_prompt(application(required=("email",)), WANTED, None, force=False)
    assert question is not None
    assert question.required == ("email",)
    assert question.optional == ("phone", "calendar")
    assert question.unknown == ("unheard-of",)
    assert question.approved == frozenset()


def test_scopes_without_consent_need_no_prompt():
    assert consent.consent_prompt(application(), ("openid", "offline_access", "unheard-of"), None, force=True) is None


def test_disabled_scope_is_unknown_and_needs_no_consent():
    assert consent.scopes_requiring_consent(application(disabled=("email",)), ("email", "phone")) == ("phone",)


def test_earlier_decision_must_cover_every_scope():
    app = application(mode="RememberDecision")
    assert consent.consent_prompt(app, ("email",), ANSWERED, force=False) is None
    assert consent.consent_prompt(app, ("email", "phone"), ANSWERED, force=False) is None
    assert consent.consent_prompt(app, ("email", "profile"), ANSWERED, force=False) is not None


def test_declined_scope_that_became_required_is_prompted_again():
    app = application(mode="RememberDecision", required=("phone",))
    question = consent.consent_prompt(app, ("email", "phone"), ANSWERED, force=False)
    assert question is not None
    assert question.approved == ANSWERED.approved
    assert consent.consent_prompt(app, ("email",), ANSWERED, force=False) is None


def test_granted_scopes_are_approved_or_need_no_consent():
    assert consent.granted_scopes(application(), WANTED, ANSWERED) == (
        "openid", "offline_access", "email", "calendar", "unheard-of",
    )  # fmt: skip
    assert consent.granted_scopes(application("FirstParty"), WANTED, ConsentDecision()) == WANTED


def test_decision_covers_prompted_scopes_only():
    question = consent.consent_prompt(application(required=("email",)), WANTED, None, force=False)
    assert question is not None
    decision = question.decide({"email", "calendar", "profile", "openid"})
    assert decision == ConsentDecision(frozenset({"email", "calendar"}), frozenset({"phone"}))
    with pytest.raises(AccessDenied) as refusal:
        question.decide({"calendar"})
    assert refusal.value.reason == "missing_required_scope"
    assert "email" in refusal.value.description
