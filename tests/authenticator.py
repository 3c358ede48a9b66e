"""A software authenticator: passkeys with ES256, ES384, EdDSA and RS256, and attestation none and packed self.

It signs any data, including data that a browser would refuse.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from webauthn.helpers import encode_cbor

from identity.ids import base64url

UP, UV, BE, BS, AT = 0x01, 0x04, 0x08, 0x10, 0x40

ES256, EDDSA, ES384, RS256 = -7, -8, -35, -257

ORIGIN, RELYING_PARTY = "https://auth.example.com", "auth.example.com"

Document = dict[str, Any]


@functools.cache
def _rsa_key() -> rsa.RSAPrivateKey:
    """Generating a key takes long, and no test compares two."""
    return rsa.generate_private_key(65537, 2048)


def _private_key(algorithm: int) -> Any:
    if algorithm in {ES256, ES384}:
        return ec.generate_private_key(ec.SECP256R1() if algorithm == ES256 else ec.SECP384R1())
    return ed25519.Ed25519PrivateKey.generate() if algorithm == EDDSA else _rsa_key()


@dataclasses.dataclass
class Passkey:
    """A credential with its private key and its counter, which grows by `step` with each signature."""

    algorithm: int = ES256
    count: int = 0
    step: int = 1
    flags: int = UP | UV
    origin: str = ORIGIN
    relying_party: str = RELYING_PARTY
    credential_id: bytes = dataclasses.field(default_factory=lambda: os.urandom(16))
    user_handle: str | None = None

    def __post_init__(self) -> None:
        self.key = _private_key(self.algorithm)

    @property
    def id(self) -> str:
        return base64url(self.credential_id)

    def cose(self) -> bytes:
        public = self.key.public_key()
        if self.algorithm in {ES256, ES384}:
            numbers = public.public_numbers()
            curve, size = {ES256: (1, 32), ES384: (2, 48)}[self.algorithm]
            x, y = numbers.x.to_bytes(size), numbers.y.to_bytes(size)
            return encode_cbor({1: 2, 3: self.algorithm, -1: curve, -2: x, -3: y})
        if self.algorithm == EDDSA:
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            return encode_cbor({1: 1, 3: EDDSA, -1: 6, -2: raw})
        numbers = public.public_numbers()
        return encode_cbor({1: 3, 3: RS256, -1: numbers.n.to_bytes(256), -2: numbers.e.to_bytes(3)})

    def pem(self) -> str:
        public = self.key.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        return str(public.public_bytes(serialization.Encoding.PEM, spki).decode())

    def pkcs8(self) -> bytes:
        der, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return bytes(self.key.private_bytes(serialization.Encoding.DER, der, plain))

    def sign(self, data: bytes) -> bytes:
        if self.algorithm in {ES256, ES384}:
            digest = hashes.SHA256() if self.algorithm == ES256 else hashes.SHA384()
            return bytes(self.key.sign(data, ec.ECDSA(digest)))
        if self.algorithm == EDDSA:
            return bytes(self.key.sign(data))
        return bytes(self.key.sign(data, padding.PKCS1v15(), hashes.SHA256()))

    def create(self, options: Mapping[str, Any], *, attestation: str = "none", **client_data: Any) -> Document:
        """What a browser posts after `navigator.credentials.create()`, but for the user."""
        self.user_handle = options["user"]["id"]
        signed = self._client_data("webauthn.create", options, client_data)
        data = self._authenticator_data(AT, b"\0" * 16 + len(self.credential_id).to_bytes(2) + self.credential_id)
        data += self.cose()
        statement: Document = {}
        if attestation == "packed":
            statement = {"alg": self.algorithm, "sig": self.sign(data + hashlib.sha256(signed).digest())}
        packed = encode_cbor({"fmt": attestation, "attStmt": statement, "authData": data})
        response = {"attestationObject": base64url(packed), "clientDataJSON": base64url(signed)}
        return {
            "credential": {
                "id": self.id,
                "type": "public-key",
                "response": response,
                "transports": ["internal"],
                "clientExtensionResults": {"credProps": {"rk": True}},
            },
            "origin": self.origin,
            "rpId": self.relying_party,
        }

    def get(self, options: Mapping[str, Any], *, handle: bool = True, **client_data: Any) -> Document:
        """What a browser posts after `navigator.credentials.get()`."""
        self.count += self.step
        signed = self._client_data("webauthn.get", options, client_data)
        data = self._authenticator_data()
        response = {
            "authenticatorData": base64url(data),
            "clientDataJSON": base64url(signed),
            "signature": base64url(self.sign(data + hashlib.sha256(signed).digest())),
        }
        if handle and self.user_handle is not None:
            response["userHandle"] = self.user_handle
        credential = {"id": self.id, "type": "public-key", "response": response}
        return {"credential": credential, "origin": self.origin, "rpId": self.relying_party}

    def _client_data(self, kind: str, options: Mapping[str, Any], changes: Mapping[str, Any]) -> bytes:
        usual = {"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps({**usual, **changes}).encode()

    def _authenticator_data(self, flags: int = 0, attested: bytes = b"") -> bytes:
        digest = hashlib.sha256(self.relying_party.encode()).digest()
        return digest + bytes([self.flags | flags]) + self.count.to_bytes(4) + attested
