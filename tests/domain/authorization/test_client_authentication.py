"""Client authentication (RFC 6749 section 2.3)."""

from __future__ import annotations

import base64
from urllib.parse import quote_plus

import pytest

from identity.domain.authorization import client_authentication as rules
from identity.errors import InvalidClient, InvalidRequest, OAuth2Error
from tests.builders import make_application

SECRET = "s3cret+/=%:ä with everything in it"


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def check(authorization=None, client_id=None, client_secret=None, *, required=True, expected=SECRET):
    presented = rules.read_credentials(authorization, client_id, client_secret)
    policy = "Required" if required else "NotRequired"
    application = make_application({"clientSecret": expected, "clientAuthenticationPolicy": policy})
    rules.authenticate(presented, application, "authorization_code")
    return presented


def failure(*arguments, **named) -> tuple[type[OAuth2Error], str | None]:
    with pytest.raises(OAuth2Error) as caught:
        check(*arguments, **named)
    return type(caught.value), caught.value.reason


@pytest.mark.requirement("contract-authentication-3")
@pytest.mark.parametrize("required", [True, False])
def test_right_secret_authenticates_in_header_and_body(required):
    encoded = basic(quote_plus("client"), quote_plus(SECRET))
    assert check(encoded, required=required).method == "client_secret_basic"
    assert check(encoded.replace("Basic", "bAsIc"), required=required).client_id == "client"
    assert check(None, "client", SECRET, required=required).method == "client_secret_post"


@pytest.mark.requirement("certification-token-1", "oauth-2.1-1")
def test_secret_in_the_header_may_be_plain_or_form_encoded():
    """RFC 6749 section 2.3.1 wants it encoded, many clients send it as it is; a colon belongs to the secret."""
    for secret in ("plain+plus", "per%25cent", "co:lon", "sl/ash="):
        assert check(basic("client", secret), expected=secret)
        assert check(basic("client", quote_plus(secret)), expected=secret)


def test_client_id_may_be_repeated_in_the_body():
    assert check(basic("client", quote_plus(SECRET)), "client").client_id == "client"


def test_public_client_is_identified_by_client_id():
    assert check(None, "client", required=False).method == "none"


@pytest.mark.parametrize("required", [True, False])
def test_wrong_secret_is_rejected_even_if_optional(required):
    wrong = (InvalidClient, "invalid_client_authentication")
    assert failure(basic("client", "wrong"), required=required) == wrong
    assert failure(None, "client", "wrong", required=required) == wrong
    assert failure(None, "client", SECRET + "x", required=required) == wrong


def test_missing_credentials_are_reported():
    assert failure() == (InvalidRequest, "missing_client_id")
    assert failure(None, "", "x") == (InvalidRequest, "missing_client_id")
    assert failure(None, "client") == (InvalidClient, "client_authentication_missing")


@pytest.mark.parametrize("required", [True, False])
def test_attack_24_an_empty_secret_is_not_an_absent_one(required):
    assert failure(None, "client", "", required=required) == (InvalidClient, "missing_client_secret")
    assert failure(basic("client", ""), required=required) == (InvalidClient, "missing_client_secret")


@pytest.mark.requirement("attack-24")
def test_attack_24_an_empty_secret_does_not_match_an_empty_one():
    assert failure(None, "client", "", expected="") == (InvalidClient, "missing_client_secret")


@pytest.mark.requirement("attack-25", "oauth-2.1-11")
def test_attack_25_two_authentications_that_differ_are_refused():
    header = basic("client", quote_plus(SECRET))
    assert failure(header, "other") == (InvalidClient, "client_id_mismatch")
    assert failure(header, "client", "wrong") == (InvalidClient, "invalid_client_authentication")
    assert failure(header, "client", "") == (InvalidClient, "invalid_client_authentication")
    assert failure(basic("client", "wrong"), "client", SECRET) == (InvalidClient, "invalid_client_authentication")
    assert check(header, "client", SECRET).client_id == "client"


@pytest.mark.parametrize("header", ["Bearer abc", "Digest x", "Basicx abc", "x", "DPoP abc"])
def test_other_schemes_are_refused(header):
    assert failure(header) == (InvalidClient, "invalid_client_authentication_scheme")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "!!!",
        "Y2xpZW50OnNlY3JldA",
        "Y2xpZW50OnNlY3JldA=",
        "Y2xp ZW50OnNlY3JldA==",
        "Y2xpZW50",
        "OnNlY3JldA==",
        "/////w==",
    ],
)
def test_attack_25_loosely_encoded_credentials_are_refused(value):
    assert failure(f"Basic {value}", expected="secret") == (InvalidClient, "invalid_client_authentication")


def test_secrets_are_not_in_the_repr():
    assert "s3cret" not in repr(rules.read_credentials(None, "client", SECRET))


DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.mark.requirement(
    "contract-authentication-4", "contract-authentication-7", "contract-authentication-8", "oauth-2.1-2"
)
@pytest.mark.parametrize(
    ("grant_type", "policy", "expected"),
    [
        ("authorization_code", "Required", "NEVER"),
        ("authorization_code", "NotRequired", "NOTHING"),
        ("authorization_code", "NotRequiredWhenUsingPKCE", "PKCE"),
        ("password", "Required", "NEVER"),
        ("password", "NotRequired", "NOTHING"),
        ("password", "NotRequiredWhenUsingPKCE", "NEVER"),
        ("refresh_token", "Required", "NEVER"),
        ("refresh_token", "NotRequired", "NOTHING"),
        ("refresh_token", "NotRequiredWhenUsingPKCE", "PKCE"),
        (DEVICE, "Required", "NEVER"),
        (DEVICE, "NotRequired", "NOTHING"),
        (DEVICE, "NotRequiredWhenUsingPKCE", "NOTHING"),
        ("introspection", "NotRequiredWhenUsingPKCE", "NEVER"),
    ],
)
def test_policy_decides_what_takes_the_place_of_credentials(grant_type, policy, expected):
    application = make_application({"clientAuthenticationPolicy": policy})
    assert rules.substitute_for_credentials(application, grant_type) == expected
