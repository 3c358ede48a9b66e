"""PKCE (RFC 7636)."""

from __future__ import annotations

import pytest

from identity.domain.authorization import pkce

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.requirement("oauth-1.9-32")
def test_example_of_rfc_7636_appendix_b():
    assert pkce.challenge(VERIFIER) == CHALLENGE
    assert pkce.verify(VERIFIER, CHALLENGE)


@pytest.mark.parametrize("length", [43, 44, 128])
def test_verifier_of_permitted_length_matches_its_challenge(length):
    verifier = ("aZ09-._~" * 16)[:length]
    assert pkce.verify(verifier, pkce.challenge(verifier))


@pytest.mark.parametrize(
    "verifier",
    ["", "x", "a" * 42, "a" * 129, "a" * 42 + "+", "a" * 42 + "é", "a" * 42 + " ", "a" * 43 + "\n", CHALLENGE],
)
def test_attack_23_empty_short_and_foreign_verifiers_do_not_match(verifier):
    bound = pkce.challenge(verifier) if verifier.isascii() and verifier != CHALLENGE else CHALLENGE
    assert not pkce.verify(verifier, bound)


@pytest.mark.requirement("attack-23")
def test_attack_23_plain_challenge_does_not_match_itself():
    assert not pkce.verify(VERIFIER, VERIFIER)


@pytest.mark.requirement("contract-authorize-code_challenge")
@pytest.mark.parametrize("text", ["", "a" * 42, "a" * 44, CHALLENGE + "=", CHALLENGE[:-1] + "+", CHALLENGE + "\n"])
def test_challenge_has_43_characters_of_base64url(text):
    assert pkce.is_challenge(CHALLENGE)
    assert not pkce.is_challenge(text)
