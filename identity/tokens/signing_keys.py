"""Keys in the form that signs and verifies: parsed once from their documents, and never a PEM again.

python-jose gets key objects only: given a PEM it would parse it at each call, and given text it would guess what it is.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jose.backends.cryptography_backend import CryptographyECKey, CryptographyHMACKey, CryptographyRSAKey

from identity.call import Document

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("HS256", "HS384", "HS512"), "HMAC"),
    "Ed25519": "OKP",
}
"""Every algorithm that a key may have here, and the key type it needs (RFC 7518 section 3.1, RFC 9864)."""

_PSS_HASHES: Final[Mapping[str, Callable[[], hashes.HashAlgorithm]]] = {
    "PS256": hashes.SHA256,
    "PS384": hashes.SHA384,
    "PS512": hashes.SHA512,
}
"""Algorithms that others may have signed with, and none of our own keys (RFC 7518 section 3.5)."""

SECRET_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
"""The algorithms of HMAC."""
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}

CLIENT_SECRET_KEYS: Final = {
    "092dbedc-30af-4149-9c61-b578f2c72f59": "HS256",
    "4b8f1c06-518e-45bd-9ac5-d549686ae02a": "HS384",
    "c753a44d-7f2e-48d3-bc4e-c2c16488a23b": "HS512",
}
"""Ids of the fixed keys that stand for "the application's client secret", and their algorithms."""

_SIGNATURE_BYTES: Final = {"ES256": 64, "ES384": 96, "ES512": 132, "HS256": 32, "HS384": 48, "HS512": 64, "Ed25519": 64}


class KeyOperations(Protocol):
    """What signs or verifies octets."""

    def sign(self, msg: bytes) -> bytes:
        """The signature over these octets."""

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether this is the signature over these octets."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A parsed key, which decides the algorithm (RFC 8725 section 3.1).

    `signer` is None when there is only a public half; `kid` is None for client secrets.
    """

    id: str
    kid: str | None
    algorithm: str
    verifier: KeyOperations = dataclasses.field(repr=False)
    signer: KeyOperations | None = dataclasses.field(repr=False)
    signature_bytes: int

    @property
    def is_slow(self) -> bool:
        """Whether signing is worth a thread: RSA takes up to a millisecond, the others far less than the hop."""
        return TYPES[self.algorithm] == "RSA"

    @property
    def is_secret(self) -> bool:
        """Whether both sides hold the same secret (HMAC)."""
        return self.algorithm in _SECRET_BYTES

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's; one of the wrong length never reaches the mathematics."""
        return len(signature) == self.signature_bytes and self.verifier.verify(message, signature)


def parse(document: Document) -> SigningKey:
    """The key of a key document whose sealed members are open."""
    algorithm = document["algorithm"]
    if TYPES[algorithm] == "HMAC":
        return _hmac(document["id"], document["kid"], algorithm, document["secret"])
    public = load_pem_public_key(document["publicKey"].encode())
    size = (public.key_size + 7) // 8 if isinstance(public, rsa.RSAPublicKey) else _SIGNATURE_BYTES[algorithm]
    signer = None
    if "privateKey" in document:
        # Validated when it was made or imported, and sealed since: validating again costs tens of milliseconds.
        private = load_pem_private_key(document["privateKey"].encode(), None, unsafe_skip_rsa_key_validation=True)
        signer = _half(algorithm, private)
    return SigningKey(document["id"], document["kid"], algorithm, _half(algorithm, public), signer, size)


def from_public_key(public: PublicKey, kid: str, algorithm: str) -> SigningKey:
    """The key of somebody else, which only verifies, and with this algorithm alone."""
    size = (public.key_size + 7) // 8 if isinstance(public, rsa.RSAPublicKey) else _SIGNATURE_BYTES[algorithm]
    return SigningKey(kid, kid, algorithm, _half(algorithm, public), None, size)


def from_client_secret(key_id: str, client_secret: str) -> SigningKey:
    """The key that signs with an application's client secret (OpenID Connect Core 10.1), by the id of a fixed key."""
    return _hmac(key_id, None, CLIENT_SECRET_KEYS[key_id], client_secret)


def from_shared_secret(algorithm: str, secret: str) -> SigningKey | None:
    """The key that a client signs with when it signs with its secret, or None where the secret is too short for that.

    It must be as long as the hash (RFC 7518 section 3.2): a shorter one could be found by trying, from one token.
    """
    if len(secret.encode()) < _SECRET_BYTES[algorithm]:
        return None
    return _hmac("client-secret", None, algorithm, secret)


class KeyRing:
    """Parsed keys by id, parsed anew when their document changed; those used last are kept."""

    def __init__(self, find: Callable[[str], Awaitable[Document | None]], size: int = 1000) -> None:
        self._find = find
        self._size = size
        self._parsed: collections.OrderedDict[str, tuple[int, SigningKey]] = collections.OrderedDict()

    async def get(self, key_id: str, is_allowed: Callable[[Document], bool] | None = None) -> SigningKey | None:
        """The parsed key; None for a key that does not exist, has no algorithm to sign with, or is not allowed."""
        document = await self._find(key_id)
        if document is None or (is_allowed is not None and not is_allowed(document)):
            return None
        return self.parsed(document)

    def parsed(self, document: Document) -> SigningKey | None:
        """The parsed form of a key document; None for one that neither signs nor verifies by itself."""
        key_id, version = document["id"], document["lastUpdateInstant"]
        known = self._parsed.get(key_id)
        if known is not None and known[0] == version:
            self._parsed.move_to_end(key_id)
            return known[1]
        if document.get("algorithm") not in TYPES or key_id in CLIENT_SECRET_KEYS:
            return None
        key = parse(document)
        self._parsed[key_id] = (version, key)
        while len(self._parsed) > self._size:
            self._parsed.popitem(last=False)
        return key


def _hmac(key_id: str, kid: str | None, algorithm: str, secret: str) -> SigningKey:
    half = CryptographyHMACKey(secret.encode(), algorithm)
    return SigningKey(key_id, kid, algorithm, half, half, _SIGNATURE_BYTES[algorithm])


def _half(algorithm: str, key: Any) -> KeyOperations:
    if algorithm == "Ed25519":
        return _EdwardsHalf(key)
    if algorithm in _PSS_HASHES:
        return _PssHalf(key, _PSS_HASHES[algorithm]())
    half: KeyOperations = (CryptographyRSAKey if TYPES[algorithm] == "RSA" else CryptographyECKey)(key, algorithm)
    return half


class _EdwardsHalf:
    """Ed25519, which python-jose does not have (RFC 8037)."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def sign(self, msg: bytes) -> bytes:
        signature: bytes = self._key.sign(msg)
        return signature

    def verify(self, msg: bytes, sig: bytes) -> bool:
        try:
            self._key.verify(sig, msg)
        except InvalidSignature:
            return False
        return True


class _PssHalf:
    """RSASSA-PSS, which python-jose does not have; the salt is as long as the hash (RFC 7518 section 3.5)."""

    def __init__(self, key: Any, algorithm: hashes.HashAlgorithm) -> None:
        self._key = key
        self._hash = algorithm
        self._padding = padding.PSS(padding.MGF1(algorithm), algorithm.digest_size)

    def sign(self, msg: bytes) -> bytes:
        signature: bytes = self._key.sign(msg, self._padding, self._hash)
        return signature

    def verify(self, msg: bytes, sig: bytes) -> bool:
        try:
            self._key.verify(sig, msg, self._padding, self._hash)
        except InvalidSignature:
            return False
        return True
