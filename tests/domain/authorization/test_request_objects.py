"""Request objects, with the example of OpenID Connect Core 6.1."""

from __future__ import annotations

import json

import pytest

from identity.domain.authorization import request_objects as rules
from identity.tokens import external_keys, jws
from identity.tokens.jws import Rejection, UnverifiedJwt, VerifiedJwt

NOW = 1_800_000_000
GOOD = {"iss": "client", "aud": "https://us.example.com", "exp": NOW + 60, "response_type": "code id_token"}

KEY = {
    "kty": "RSA",
    "kid": "k2bdc",
    "n": "y9Lqv4fCp6Ei-u2-ZCKq83YvbFEk6JMs_pSj76eMkddWRuWX2aBKGHAtKlE5P7_vn__PCKZWePt3vGkB6ePgzAFu08NmKemwE5bQI0e6kICh"
    "tt_6KzT5OaaXDFI6qCLJmk51Cc4VYFaxgqevMncYrzaW_50mZ1yGSFIQzLYP8bijAHGVjdEFgZaZEN9lsn_GdWLaJpHrB3ROlS50E45wxrlg9xMncVb8qDPu"
    "XZarvghLL0HzOuYRadBJVoWZowDNTpKpk2RklZ7QaBO7XDv3uR7s_sf2g-bAjSYxYUGsqkNA9b3xVW53am_UZZ3tZbFTIh557JICWKHlWj5uzeJXaw",
    "e": "AQAB",
}
EXAMPLE = (
    "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsyYmRjIn0.ew0KICJpc3MiOiAiczZCaGRSa3F0MyIsDQogImF1ZCI6ICJodHRwczovL3NlcnZlci5leGFtcGxl"
    "LmNvbSIsDQogInJlc3BvbnNlX3R5cGUiOiAiY29kZSBpZF90b2tlbiIsDQogImNsaWVudF9pZCI6ICJzNkJoZFJrcXQzIiwNCiAicmVkaXJlY3RfdXJp"
    "IjogImh0dHBzOi8vY2xpZW50LmV4YW1wbGUub3JnL2NiIiwNCiAic2NvcGUiOiAib3BlbmlkIiwNCiAic3RhdGUiOiAiYWYwaWZqc2xka2oiLA0KICJu"
    "b25jZSI6ICJuLTBTNl9XekEyTWoiLA0KICJtYXhfYWdlIjogODY0MDAsDQogImNsYWltcyI6IA0KICB7DQogICAidXNlcmluZm8iOiANCiAgICB7DQog"
    "ICAgICJnaXZlbl9uYW1lIjogeyJlc3NlbnRpYWwiOiB0cnVlfSwNCiAgICAgIm5pY2tuYW1lIjogbnVsbCwNCiAgICAgImVtYWlsIjogeyJlc3NlbnRp"
    "YWwiOiB0cnVlfSwNCiAgICAgImVtYWlsX3ZlcmlmaWVkIjogeyJlc3NlbnRpYWwiOiB0cnVlfSwNCiAgICAgInBpY3R1cmUiOiBudWxsDQogICAgfSwN"
    "CiAgICJpZF90b2tlbiI6IA0KICAgIHsNCiAgICAgImdlbmRlciI6IG51bGwsDQogICAgICJiaXJ0aGRhdGUiOiB7ImVzc2VudGlhbCI6IHRydWV9LA0K"
    "ICAgICAiYWNyIjogeyJ2YWx1ZXMiOiBbInVybjptYWNlOmluY29tbW9uOmlhcDpzaWx2ZXIiXX0NCiAgICB9DQogIH0NCn0.nwwnNsk1-ZkbmnvsF6zT"
    "Hm8CHERFMGQPhos-EJcaH4Hh-sMgk8ePrGhw_trPYs8KQxsn6R9Emo_wHwajyFKzuMXZFSZ3p6Mb8dkxtVyjoy2GIzvuJT_u7PkY2t8QU9hjBcHs68Pk"
    "gjDVTrG1uRTx0GxFbuPbj96tVuj11pTnmFCUR6IEOXKYr7iGOCRB3btfJhM0_AKQUfqKnRlrRscc8Kol-cSLWoYE9l5QqholImzjT_cMnNIznW9E7CDy"
    "WXTsO70xnB4SkG6pXfLSjLLlxmPGiyon_-Te111V8uE83IlzCYIb_NMXvtTIVc1jpspnTSD7xMbpL-2QgwUsAlMGzw"
)
DECLARED = ("response_type", "redirect_uri", "scope", "state", "nonce", "max_age", "claims", "prompt")


@pytest.mark.requirement("oauth-12-6")
async def test_example_of_openid_connect_core_6_1_is_verified_and_read():
    token = jws.parse(EXAMPLE)
    assert isinstance(token, UnverifiedJwt)
    verified = await token.verified(external_keys.KeySet({"keys": [KEY]}).find(token.header))
    assert isinstance(verified, VerifiedJwt)
    found = rules.parameters(verified.claims, DECLARED)
    claims = json.loads(found.pop("claims"))
    assert claims["id_token"]["acr"] == {"values": ["urn:mace:incommon:iap:silver"]}
    assert claims["userinfo"]["nickname"] is None
    assert found == {
        "response_type": "code id_token",
        "redirect_uri": "https://client.example.org/cb",
        "scope": "openid",
        "state": "af0ifjsldkj",
        "nonce": "n-0S6_WzA2Mj",
        "max_age": "86400",
    }
    problem = rules.problem(verified.header, verified.claims, {}, "s6BhdRkqt3", "https://server.example.com", NOW)
    assert problem == "must have an exp"


async def test_example_with_one_bit_changed_is_not_the_client_s():
    token = jws.parse(EXAMPLE[:-2] + "A" + EXAMPLE[-1])
    assert isinstance(token, UnverifiedJwt)
    key = external_keys.KeySet({"keys": [KEY]}).find(token.header)
    assert await token.verified(key) is Rejection.INVALID


def problem(outside=None, header=None, **changes):
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return rules.problem(header or {}, claims, outside or {}, "client", "https://us.example.com", NOW)


def test_complete_request_object_is_accepted():
    assert problem() is None
    assert problem({"response_type": "id_token code", "client_id": "client"}, client_id="client") is None
    assert problem(header={"typ": "application/oauth-authz-req+jwt"}) is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"exp": NOW - 59}, None),
        ({"exp": NOW - 60}, "expired"),
        ({"exp": NOW + 3660}, None),
        ({"exp": NOW + 3661}, "too long"),
        ({"nbf": NOW + 60}, None),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"iat": NOW + 61}, "not valid yet"),
        ({"sub": "user"}, None),
        ({"sub": "client"}, "sub"),
        ({"header": {"typ": "client-authentication+jwt"}}, "another type"),
        ({"outside": {"response_type": "code"}}, "response_type"),
        ({"outside": {"response_type": "code"}, "response_type": None}, "response_type"),
        ({"outside": {"response_type": "code"}, "response_type": 7}, "response_type"),
        ({"outside": {"request_uri": "x"}}, "only one"),
    ],
)
def test_request_object_requires_its_claims(changes, word):
    found = problem(**changes)
    assert (found is None) if word is None else (word in found)


@pytest.mark.parametrize("value", [True, 1.5, None, [], ["openid"], {"a": 1}, "a\x00b"])
def test_non_string_claims_are_rejected(value):
    with pytest.raises(ValueError, match="has an invalid state"):
        rules.parameters({"state": value}, DECLARED)


def test_several_resources_are_an_array():
    one, two = "https://api.example.com/1", "https://api.example.com/2"
    assert rules.parameters({"resource": [one, two]}, ["resource"]) == {"resource": f"{one} {two}"}
    assert rules.parameters({"resource": one}, ["resource"]) == {"resource": one}
    assert rules.parameters({"resource": []}, ["resource"]) == {}
    with pytest.raises(ValueError, match="has an invalid resource"):
        rules.parameters({"resource": [one, ["x"]]}, ["resource"])


def test_blank_parameter_is_absent():
    assert rules.parameters({"state": "", "scope": "openid", "unknown": []}, DECLARED) == {"scope": "openid"}
