"""The relying party of a tenant and its origins."""

from __future__ import annotations

import pytest

from identity.domain.webauthn import relying_party
from tests.builders import make_tenant


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://auth.example.com", "auth.example.com"),
        ("https://auth.example.com:8443", "auth.example.com"),
        ("http://localhost:9011", "localhost"),
        ("http://app.localhost", "app.localhost"),
        ("http://auth.example.com", None),
        ("https://auth.example.com/", None),
        ("https://auth.example.com/path", None),
        ("https://user@auth.example.com", None),
        ("https://192.0.2.1", None),
        ("https://[::1]", None),
        ("https://auth.example.com:99999", None),
        ("https://auth.example.com:443", None),
        ("android:apk-key-hash:abc", None),
        ("null", None),
        ("", None),
        ("https://", None),
        ("https://[", None),
    ],
)
def test_only_secure_origins_have_passkeys(origin, host) -> None:
    assert relying_party.host_of(origin) == host


@pytest.mark.parametrize(
    ("origin", "is_included"),
    [
        ("https://example.com", True),
        ("https://auth.example.com", True),
        ("https://notexample.com", False),
        ("https://example.com.evil.org", False),
        ("https://com", False),
        ("http://auth.example.com", False),
    ],
)
def test_a_relying_party_includes_its_subdomains(origin, is_included) -> None:
    assert relying_party.includes("example.com", origin) is is_included


def test_origins_are_serialized_as_browsers_do() -> None:
    assert relying_party.origin_of("https://Auth.example.com:443/oauth2/authorize?x") == "https://auth.example.com"
    assert relying_party.origin_of("http://localhost:9011") == "http://localhost:9011"


@pytest.mark.parametrize(
    ("base_url", "configured", "found"),
    [
        ("https://auth.example.com", None, ("https://auth.example.com", "auth.example.com")),
        ("https://auth.example.com:8443", "example.com", ("https://auth.example.com:8443", "example.com")),
        ("https://auth.example.com", "example.org", None),
        ("http://auth.example.com", None, None),
        ("http://127.0.0.1:9011", None, None),
        ("http://auth.example.com:99999", None, None),
        ("http://[::1", "example.com", None),
    ],
)
def test_pages_have_passkeys_on_a_secure_origin_of_the_relying_party(base_url, configured, found) -> None:
    settings = {} if configured is None else {"relyingPartyId": configured}
    assert relying_party.of_page(make_tenant(webAuthnConfiguration=settings), base_url) == found


def test_names_default_to_the_issuer() -> None:
    assert relying_party.name_of(make_tenant(issuer="acme.com")) == "acme.com"
    named = make_tenant(webAuthnConfiguration={"relyingPartyName": "Acme", "relyingPartyId": "acme.com"})
    assert (relying_party.name_of(named), relying_party.configured_id(named)) == ("Acme", "acme.com")
    assert relying_party.configured_id(make_tenant()) is None
