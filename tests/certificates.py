"""Certificates for tests: a private authority, and valid and invalid certificates of servers and clients."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import functools
import hashlib
import ipaddress
import ssl
import tempfile
import urllib.parse
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A certificate with its private key, both as PEM too."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def thumbprint(self) -> str:
        """The `x5t#S256` (RFC 8705 section 3.1)."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.der).digest()).rstrip(b"=").decode()

    @property
    def client_cert(self) -> str:
        """The header of RFC 9440."""
        return f":{base64.b64encode(self.der).decode()}:"

    @property
    def escaped_pem(self) -> str:
        """`$ssl_client_escaped_cert` of nginx."""
        return urllib.parse.quote(self.pem)

    @property
    def jwk(self) -> dict[str, str]:
        """The public key of the certificate."""
        point = self.key.public_key().public_numbers()
        x, y = (base64.urlsafe_b64encode(n.to_bytes(32, "big")).rstrip(b"=").decode() for n in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()


def make(
    subject_name: str,
    issuer: Certificate | None = None,
    *,
    address: str | None = "127.0.0.1",
    name: str = "localhost",
    days: tuple[int, int] = (-2, 2),
    is_authority: bool = False,
) -> Certificate:
    """A certificate of `subject_name`, good for an address and a name, valid between days from now.

    Signed by `issuer`, or by itself.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject_name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if address is not None:
        alternatives = [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName(name)]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Certificate(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


@functools.cache
def authority() -> Certificate:
    """The authority that tests trust."""
    return make("Test Authority", address=None, is_authority=True)


def server_context(certificate: Certificate, *, client_authority: Certificate | None = None) -> ssl.SSLContext:
    """The TLS context of a server; with `client_authority` it demands a client certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "server.pem"
        file.write_text(certificate.pem + certificate.key_pem)
        context.load_cert_chain(file)
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_authority.pem)
    return context
