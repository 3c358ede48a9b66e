"""External public keys: of the JWK Set of a provider or client, or of a PEM that an administrator configured.

Only asymmetric keys are returned, so that a public key cannot be used as an HMAC secret (RFC 8725 section 2.1). The key
type determines the allowed algorithms, among which the header of a token may choose.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from cachetools import LRUCache
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from identity.call import Document
from identity.domain.clients import security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import StartupError
from identity.ids import TenantId, unbase64url
from identity.instants import Instant
from identity.outbound.client_key_fetch import ClientKeyFetcher
from identity.tokens.client_certificates import Authorities
from identity.tokens.signing_keys import PublicKey, SigningKey, from_public_key

_MAXIMUM_KEYS: Final = 100
_MAXIMUM_SETS: Final = 1000
_RSA_BITS: Final = range(2048, 8193)
_MAXIMUM_EXPONENT: Final = 2**32
_CURVES: Final[Mapping[str, tuple[ec.EllipticCurve, str]]] = {
    "P-256": (ec.SECP256R1(), "ES256"),
    "P-384": (ec.SECP384R1(), "ES384"),
    "P-521": (ec.SECP521R1(), "ES512"),
}
_ALGORITHM_OF_CURVE: Final = {curve.name: algorithm for curve, algorithm in _CURVES.values()}
_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""The private members of a JWK (RFC 7518 section 6)."""

ALGORITHMS: Final = (*_OF_RSA, "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""The signature algorithms of identity providers and clients with public keys."""


class KeySet:
    """The keys of a JWK Set (RFC 7517 section 5), parsed on first use."""

    def __init__(self, jwks: Document) -> None:
        entries = jwks.get("keys")
        listed = entries[:_MAXIMUM_KEYS] if isinstance(entries, list) else []
        self._entries = [entry for entry in listed if isinstance(entry, dict)]
        self._parsed: dict[tuple[int, str], SigningKey | None] = {}

    def find(self, header: Mapping[str, Any], algorithms: Collection[str] = ALGORITHMS) -> SigningKey | None:
        """Return the key for a token with this header and one of these algorithms, or None.

        A header without `kid` matches if exactly one key fits.
        """
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in algorithms:
            return None
        # Compared one by one: members may have any JSON type, and not all are hashable.
        indexes = [index for index, entry in enumerate(self._entries) if kid in (None, entry.get("kid"))]
        found = [key for index in indexes if (key := self._key(index, algorithm)) is not None]
        return found[0] if len(found) == 1 else None

    def _key(self, index: int, algorithm: str) -> SigningKey | None:
        if (index, algorithm) not in self._parsed:
            self._parsed[index, algorithm] = from_jwk(self._entries[index], algorithm)
        return self._parsed[index, algorithm]


class ClientKeys:
    """Finds the key that a client signed with, in its `jwks` or the key set at its `jwksURI`; caches parsed sets.

    `authorities` issue client certificates, `statement_issuers` sign software statements (issuer -> keys).
    """

    def __init__(
        self,
        published: ClientKeyFetcher,
        authorities: Authorities = (),
        statement_issuers: Mapping[str, KeySet] | None = None,
    ) -> None:
        self.authorities = authorities
        self.statement_issuers = statement_issuers or {}
        self._published = published
        self._sets: LRUCache[str, tuple[Document, KeySet]] = LRUCache(_MAXIMUM_SETS)

    async def find(
        self, tenant_id: TenantId, application: Document, header: Mapping[str, Any], now: Instant
    ) -> SigningKey | None:
        """Return the application's key for a token with this header, or None.

        An unknown kid fetches the published key set again, at most once a minute. Raises ClientKeysError if the key set
        cannot be fetched.
        """
        oauth = OAuthSettings.of(application)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS or not security_profiles.is_algorithm_allowed(oauth, algorithm):
            return None
        if oauth.jwks is not None:
            return self._find_in(application["id"], oauth.jwks, header)
        if (url := oauth.jwks_uri) is None:
            return None
        key = self._find_in(application["id"], await self._published.get(tenant_id, url, now), header)
        if key is None:
            key = self._find_in(application["id"], await self._published.get(tenant_id, url, now, refetch=True), header)
        return key

    async def find_set(self, tenant_id: TenantId, application: Document, now: Instant) -> Document | None:
        """Return the application's key set, or None without one. Raises ClientKeysError."""
        oauth = OAuthSettings.of(application)
        if oauth.jwks is not None or oauth.jwks_uri is None:
            return oauth.jwks
        return await self._published.get(tenant_id, oauth.jwks_uri, now)

    async def close(self) -> None:
        """Close every connection."""
        await self._published.close()

    def _find_in(self, application_id: str, jwks: Document, header: Mapping[str, Any]) -> SigningKey | None:
        known = self._sets.get(application_id)
        # The caches return the same document object until the key set changes.
        if known is None or known[0] is not jwks:
            known = (jwks, KeySet(jwks))
            self._sets[application_id] = known
        return known[1].find(header, ALGORITHMS)


def load_issuers(file: Path | None) -> dict[str, KeySet]:
    """Return the key sets of a JSON file, an object of issuers and their JWK Sets. Raises StartupError."""
    if file is None:
        return {}
    try:
        return {str(issuer): KeySet(jwks) for issuer, jwks in json.loads(file.read_bytes()).items()}
    except (ValueError, AttributeError) as error:
        message = f"client_registration.trusted_issuers_file: {file} is no object of issuers and JWK Sets"
        raise StartupError(message) from error


def jwk_problem(entry: Document) -> str | None:
    """Return why a JWK is not a usable public signature key, or None."""
    if private := sorted(PRIVATE_MEMBERS.intersection(entry)):
        return f"it holds what must stay secret ({', '.join(private)}); register the public key alone"
    if entry.get("use", "sig") != "sig":
        return "it is not for signatures"
    try:
        fitting = _algorithms(_PARSERS[entry["kty"]](entry))
    except (KeyError, TypeError, ValueError):
        return "it is not the JWK of a public RSA, EC (P-256, P-384, P-521) or Ed25519 key"
    if not fitting:
        return "it is too weak, or too large"
    if entry.get("alg", fitting[0]) not in fitting:
        return f"its alg must be one of {', '.join(fitting)}"
    return None


def from_pem(pem: str, kid: str, algorithm: object) -> SigningKey | None:
    """Return the key of a PEM for the algorithm of a token, or None if it does not fit."""
    public = _load(pem)
    if public is None or not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return None
    return _signing_key(public, kid, algorithm)


def is_public_pem(pem: str) -> bool:
    """Whether a text is the PEM of a usable public key or certificate."""
    public = _load(pem)
    return public is not None and bool(_algorithms(public))


def _load(pem: str) -> PublicKey | None:
    octets = (pem.replace("\r\n", "\n").strip() + "\n").encode()
    is_certificate = b"BEGIN CERTIFICATE" in octets
    try:
        found = x509.load_pem_x509_certificate(octets).public_key() if is_certificate else load_pem_public_key(octets)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return found if isinstance(found, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) else None


def from_jwk(entry: Document, algorithm: str) -> SigningKey | None:
    """Return the key of a JWK for the algorithm of a token, or None if it does not fit."""
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    try:
        public = _PARSERS[entry["kty"]](entry)
    except (KeyError, TypeError, ValueError):
        return None
    return _signing_key(public, str(entry.get("kid", "")), algorithm)


def _rsa(entry: Document) -> PublicKey:
    return rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()


def _ec(entry: Document) -> PublicKey:
    curve, _ = _CURVES[entry["crv"]]
    return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve).public_key()


def _okp(entry: Document) -> PublicKey:
    if entry["crv"] != "Ed25519":
        raise ValueError("another curve")
    return ed25519.Ed25519PublicKey.from_public_bytes(unbase64url(entry["x"]))


_PARSERS: Final = {"RSA": _rsa, "EC": _ec, "OKP": _okp}


def _number(text: str) -> int:
    return int.from_bytes(unbase64url(text), "big")


def _algorithms(public: PublicKey) -> tuple[str, ...]:
    """Return the algorithms of a key; none for one that is too weak or too expensive."""
    if isinstance(public, rsa.RSAPublicKey):
        is_usable = public.key_size in _RSA_BITS and public.public_numbers().e < _MAXIMUM_EXPONENT
        return _OF_RSA if is_usable else ()
    if isinstance(public, ed25519.Ed25519PublicKey):
        return ("EdDSA", "Ed25519")
    return tuple(name for curve, name in _ALGORITHM_OF_CURVE.items() if curve == public.curve.name)


def _signing_key(public: PublicKey, kid: str, algorithm: str) -> SigningKey | None:
    if algorithm not in _algorithms(public):
        return None
    return from_public_key(public, kid, "Ed25519" if algorithm == "EdDSA" else algorithm)
