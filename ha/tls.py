"""A private authority with one server certificate, and a secret, as files for the servers of a scenario."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ADDRESS = ipaddress.ip_address("127.0.0.1")


@dataclasses.dataclass(frozen=True)
class Tls:
    """The files, and the password that servers require."""

    authority: Path
    certificate: Path
    """The certificate and its private key."""
    key_file: Path
    """The key by which the members of a replica set authenticate to each other."""
    secret: str


def create(folder: Path) -> Tls:
    """Write the files into a folder."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("Authority of the fail-over tests", authority_key, None, authority_key)
    server = _certificate("127.0.0.1", server_key, authority, authority_key)
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = Tls(folder / "ca.pem", folder / "server.pem", folder / "keyfile", secrets.token_hex(16))
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    for file, content in (
        (made.certificate, server.public_bytes(serialization.Encoding.PEM) + private),
        (made.key_file, made.secret.encode()),
    ):
        file.touch(mode=0o600)
        file.write_bytes(content)
    return made


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(_ADDRESS)]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
