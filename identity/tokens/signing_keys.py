"""Parsed keys that sign and verify.

python-jose only receives key objects: it would parse a PEM on every call, and guess the type of a text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from cachetools import LRUCache
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
"""All algorithms of keys, and their key types (RFC 7518 section 3.1, RFC 9864)."""

_PSS_HASHES: Final[Mapping[str, Callable[[], hashes.HashAlgorithm]]] = {
    "PS256": hashes.SHA256,
    "PS384": hashes.SHA384,
    "PS512": hashes.SHA512,
}
"""Algorithms of external signatures only, not of our own keys (RFC 7518 section 3.5)."""

SECRET_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
"""The HMAC algorithms."""
SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The lengths of generated secrets, and the minimum of others (RFC 7518 section 3.2)."""

CLIENT_SECRET_KEYS: Final = {
    "092dbedc-30af-4149-9c61-b578f2c72f59": "HS256",
    "4b8f1c06-518e-45bd-9ac5-d549686ae02a": "HS384",
    "c753a44d-7f2e-48d3-bc4e-c2c16488a23b": "HS512",
}
"""The fixed key ids that mean "the application's client secret", with their algorithms."""

_MAX_REMEMBERED: Final = 2_000
"""The digests of signatures that are remembered for each key."""
_SIGNATURE_BYTES: Final = {"ES256": 64, "ES384": 96, "ES512": 132, "Ed25519": 64, **SECRET_BYTES}

_REMEMBERING: Final = threading.Lock()
"""Signatures are verified in several threads."""


class KeyOperations(Protocol):
    """Signs and verifies octets."""

    def sign(self, msg: bytes) -> bytes:
        """Return the signature of these octets."""

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether this is a valid signature of these octets."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SigningKey:
    """A parsed key, which determines the algorithm (RFC 8725 section 3.1).

    `signer` is None for a public key; `kid` is None for client secrets.
    """

    id: str
    kid: str | None
    algorithm: str
    verifier: KeyOperations = dataclasses.field(repr=False)
    signer: KeyOperations | None = dataclasses.field(repr=False)
    signature_bytes: int
    verified: LRUCache[bytes, None] = dataclasses.field(
        default_factory=functools.partial(LRUCache, _MAX_REMEMBERED), repr=False
    )

    @property
    def is_slow(self) -> bool:
        """Whether signing runs in a thread: RSA takes up to a millisecond, other algorithms less than the switch."""
        return TYPES[self.algorithm] == "RSA"

    @property
    def is_secret(self) -> bool:
        """Whether the key is symmetric (HMAC)."""
        return self.algorithm in SECRET_BYTES

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is valid; the length is checked first.

        Valid signatures are remembered, because clients present an access token many times.
        """
        if len(signature) != self.signature_bytes:
            return False
        digest = hashlib.sha256(message + signature).digest()
        if digest in self.verified:
            return True
        is_valid = self.verifier.verify(message, signature)
        if is_valid:
            with _REMEMBERING:
                self.verified[digest] = None
        return is_valid


def parse(document: Document) -> SigningKey:
    """Parse a key document with decrypted members."""
    algorithm = document["algorithm"]
    if TYPES[algorithm] == "HMAC":
        return _hmac(document["id"], document["kid"], algorithm, document["secret"])
    public = load_pem_public_key(document["publicKey"].encode())
    signer = None
    if "privateKey" in document:
        # Validated when it was created and encrypted since; validating again costs tens of milliseconds.
        private = load_pem_private_key(document["privateKey"].encode(), None, unsafe_skip_rsa_key_validation=True)
        signer = _operations(algorithm, private)
    return SigningKey(
        document["id"], document["kid"], algorithm, _operations(algorithm, public), signer, _size(public, algorithm)
    )


def from_public_key(public: PublicKey, kid: str, algorithm: str) -> SigningKey:
    """Return an external key, which only verifies, with this algorithm."""
    return SigningKey(kid, kid, algorithm, _operations(algorithm, public), None, _size(public, algorithm))


def from_client_secret(key_id: str, client_secret: str) -> SigningKey:
    """Return an application's client secret as a key (OpenID Connect Core 10.1), by a fixed key id."""
    return _hmac(key_id, None, CLIENT_SECRET_KEYS[key_id], client_secret)


def from_shared_secret(algorithm: str, secret: str) -> SigningKey | None:
    """Return the key of a client that signs with its secret; None for a secret shorter than the hash.

    A shorter secret could be found by brute force from one token (RFC 7518 section 3.2).
    """
    if len(secret.encode()) < SECRET_BYTES[algorithm]:
        return None
    return _hmac("client-secret", None, algorithm, secret)


class KeyRing:
    """A cache of parsed keys by id; a changed document is parsed again."""

    def __init__(self, find: Callable[[str], Awaitable[Document | None]], size: int = 1000) -> None:
        self._find = find
        self._parsed: LRUCache[str, tuple[int, SigningKey]] = LRUCache(size)

    async def get(self, key_id: str, is_allowed: Callable[[Document], bool] | None = None) -> SigningKey | None:
        """Return a parsed key; None if it does not exist, cannot sign, or is not allowed."""
        document = await self._find(key_id)
        if document is None or (is_allowed is not None and not is_allowed(document)):
            return None
        return self.parsed(document)

    def parsed(self, document: Document) -> SigningKey | None:
        """Parse a key document; None for one that neither signs nor verifies."""
        key_id, version = document["id"], document["lastUpdateInstant"]
        known = self._parsed.get(key_id)
        if known is not None and known[0] == version:
            return known[1]
        if document.get("algorithm") not in TYPES or key_id in CLIENT_SECRET_KEYS:
            return None
        key = parse(document)
        self._parsed[key_id] = (version, key)
        return key


def _size(public: object, algorithm: str) -> int:
    """The number of bytes of a signature."""
    return (public.key_size + 7) // 8 if isinstance(public, rsa.RSAPublicKey) else _SIGNATURE_BYTES[algorithm]


def _hmac(key_id: str, kid: str | None, algorithm: str, secret: str) -> SigningKey:
    operations = CryptographyHMACKey(secret.encode(), algorithm)
    return SigningKey(key_id, kid, algorithm, operations, operations, _SIGNATURE_BYTES[algorithm])


def _operations(algorithm: str, key: Any) -> KeyOperations:
    if algorithm == "Ed25519":
        return _DirectOperations(key)
    if algorithm in _PSS_HASHES:
        digest = _PSS_HASHES[algorithm]()
        return _DirectOperations(key, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
    operations: KeyOperations = (CryptographyRSAKey if TYPES[algorithm] == "RSA" else CryptographyECKey)(key, algorithm)
    return operations


class _DirectOperations:
    """Algorithms that python-jose does not support: Ed25519 (RFC 8037) and RSASSA-PSS (RFC 7518 section 3.5).

    `parameters` are the padding, with a salt as long as the hash, and the hash.
    """

    def __init__(self, key: Any, *parameters: object) -> None:
        self._key = key
        self._parameters = parameters

    def sign(self, msg: bytes) -> bytes:
        signature: bytes = self._key.sign(msg, *self._parameters)
        return signature

    def verify(self, msg: bytes, sig: bytes) -> bool:
        try:
            self._key.verify(sig, msg, *self._parameters)
        except InvalidSignature:
            return False
        return True
