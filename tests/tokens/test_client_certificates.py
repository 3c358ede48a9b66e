"""Client certificates: the authority that issued them, the names in them, and their public keys."""

from __future__ import annotations

import time

import pytest

from identity.errors import StartupError
from identity.tokens import client_certificates
from tests import certificates
from tests.certificates import Certificate

AUTHORITY = (certificates.authority().certificate,)


def parsed(certificate: Certificate):
    found = client_certificates.parse(certificate.der)
    assert found is not None
    return found


def is_issued(certificate: Certificate, authorities=AUTHORITY) -> bool:
    return client_certificates.is_issued_by(parsed(certificate), authorities, int(time.time() * 1000))


@pytest.mark.requirement("oauth-12-35")
def test_certificate_of_the_authority_is_accepted():
    assert is_issued(certificates.make("client", certificates.authority()))


@pytest.mark.requirement("oauth-12-35")
def test_certificates_of_others_are_not():
    forged = certificates.make("Test Authority", address=None, is_authority=True)
    assert not is_issued(certificates.make("client", forged))
    assert not is_issued(certificates.make("client"))
    assert not is_issued(certificates.make("client", certificates.authority(), days=(-3, -1)))
    assert not is_issued(certificates.make("client", certificates.authority(), days=(1, 3)))
    assert not is_issued(certificates.make("client", certificates.authority()), ())
    leaf = certificates.make("leaf", certificates.authority())
    assert not is_issued(certificates.make("client", leaf), (leaf.certificate,))
    old = certificates.make("old", address=None, is_authority=True, days=(-3, -1))
    assert not is_issued(certificates.make("client", old), (old.certificate,))


NAMES = [
    ("subject_dn", "CN=client", True), ("subject_dn", "CN=Client", False), ("subject_dn", "CN=client,O=x", False),
    ("san_dns", "client.example.com", True), ("san_dns", "example.com", False), ("san_dns", "127.0.0.1", False),
    ("san_ip", "127.0.0.1", True), ("san_ip", "127.0.0.2", False),
    ("san_uri", "client.example.com", False), ("san_email", "client.example.com", False),
]  # fmt: skip


@pytest.mark.requirement("oauth-12-35")
@pytest.mark.parametrize(("kind", "value", "is_name"), NAMES)
def test_names_are_compared_exactly_and_by_their_kind(kind, value, is_name):
    certificate = certificates.make("client", certificates.authority(), name="client.example.com")
    assert client_certificates.has_name(parsed(certificate), kind, value) is is_name
    bare = certificates.make("client", certificates.authority(), address=None)
    assert client_certificates.has_name(parsed(bare), kind, value) is (is_name and kind == "subject_dn")


@pytest.mark.requirement("oauth-12-35")
@pytest.mark.parametrize(("kind", "value"), [("subject_dn", "client"), ("subject_dn", ""), ("san_ip", "client"),
                                             ("san_dns", "clïent")])  # fmt: skip
def test_impossible_names_are_recognised(kind, value):
    assert not client_certificates.is_name(kind, value)


@pytest.mark.requirement("oauth-12-35")
def test_public_key_has_to_be_registered():
    certificate, other = certificates.make("client"), certificates.make("client")
    keys = {"keys": [{"kty": "RSA"}, {**certificate.jwk, "kid": "one"}]}
    assert client_certificates.has_key_of(parsed(certificate), keys)
    assert not client_certificates.has_key_of(parsed(other), keys)
    assert not client_certificates.has_key_of(parsed(certificate), {"keys": []})


@pytest.mark.requirement("oauth-12-35")
@pytest.mark.parametrize("der", [b"", b"x", certificates.authority().der[:-1]])
def test_what_is_no_certificate_is_not_read(der):
    assert client_certificates.parse(der) is None


def test_file_without_authorities_prevents_the_start(tmp_path):
    file = tmp_path / "authorities.pem"
    file.write_text("none")
    with pytest.raises(StartupError):
        client_certificates.load_authorities(file)
    assert client_certificates.load_authorities(None) == ()
