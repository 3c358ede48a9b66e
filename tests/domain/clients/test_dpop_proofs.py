"""Validation of DPoP proofs claim by claim."""

from __future__ import annotations

import pytest

from identity.domain.clients.dpop_proofs import LEEWAY_SECONDS, is_same_target, is_thumbprint, problem

URL = "https://resource.example.org/protectedresource"
NOW = 1562262618
CLAIMS = {"jti": "e1j3V_bKic8-LAEB", "htm": "GET", "htu": URL, "iat": NOW}

# RFC 9449 section 7.1.
TOKEN = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
ATH = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


def found(token: str | None = None, **changes: object) -> str | None:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return problem(claims, method="GET", urls=(URL,), now=NOW, access_token=token)


@pytest.mark.requirement("oauth-12-15")
def test_example_of_rfc_9449_is_valid():
    assert found() is None
    assert found(TOKEN, ath=ATH) is None


@pytest.mark.requirement("attack-40")
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"jti": 1}, "jti"),
        ({"htm": None}, "htm"),
        ({"htm": "get"}, "htm"),
        ({"htm": "POST"}, "htm"),
        ({"htu": None}, "htu"),
        ({"htu": 1}, "htu"),
        ({"htu": URL + "/"}, "htu"),
        ({"iat": None}, "iat"),
        ({"iat": NOW - LEEWAY_SECONDS - 1}, "iat"),
        ({"iat": NOW + LEEWAY_SECONDS + 1}, "iat"),
    ],
)
def test_attack_40_claim_of_another_request_is_a_problem(changes, name):
    assert name in found(**changes)


def test_iat_may_differ_by_a_minute():
    assert found(iat=NOW - LEEWAY_SECONDS) is None
    assert found(iat=NOW + LEEWAY_SECONDS) is None


@pytest.mark.parametrize("ath", [None, "", ATH[:-1], ATH.lower(), "é", 1])
def test_attack_40_ath_must_match_the_token(ath):
    assert "ath" in found(TOKEN, ath=ath)


@pytest.mark.requirement("oauth-12-15")
@pytest.mark.parametrize(
    "htu",
    [
        "https://id.example.com/oauth2/token",
        "HTTPS://ID.Example.COM/oauth2/token",
        "https://id.example.com:443/oauth2/token",
        "https://id.example.com/oauth2/token?query=1",
        "https://id.example.com/oauth2/token#fragment",
        "https://id.example.com/oauth2/%74oken",
    ],
)
def test_equivalent_targets_match(htu):
    assert is_same_target(htu, "https://id.example.com/oauth2/token")


@pytest.mark.requirement("attack-40")
@pytest.mark.parametrize(
    "htu",
    [
        "",
        "/oauth2/token",
        "http://id.example.com/oauth2/token",
        "https://id.example.com:8443/oauth2/token",
        "https://id.example.com/oauth2/Token",
        "https://id.example.com/oauth2/token/",
        "https://id.example.com/oauth2%2Ftoken",
        "https://id.example.com/oauth2/../oauth2/token",
        "https://id.example.com.evil.com/oauth2/token",
        "https://user@id.example.com/oauth2/token",
        "https://id.example.com:port/oauth2/token",
        "https://[::1/oauth2/token",
        "https:id.example.com/oauth2/token",
    ],
)
def test_attack_40_other_targets_do_not_match(htu):
    assert not is_same_target(htu, "https://id.example.com/oauth2/token")


def test_url_without_path_matches_the_root():
    assert is_same_target("https://id.example.com", "https://id.example.com/")
    assert is_same_target("https://id.example.com/a%2fb", "https://id.example.com/a%2Fb")


def test_thumbprint_is_43_characters_of_base64url():
    assert is_thumbprint(ATH)
    assert not any(map(is_thumbprint, ("", ATH[:-1], ATH + "A", ATH[:-1] + "=", ATH[:-1] + "\n")))
