"""Public keys of credentials: PEM as the API has them, COSE_Key (RFC 9052 section 7) as signatures are verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ES256: Final = -7
EDDSA: Final = -8
ES384: Final = -35
ES512: Final = -36
RS256: Final = -257
RS384: Final = -258
RS512: Final = -259

ALGORITHMS: Final = (ES256, EDDSA, RS256, ES384, ES512, RS384, RS512)
"""The supported algorithms of the IANA COSE registry, the preferred one first."""

_CURVES: Final[Mapping[int, tuple[str, int, int]]] = {
    ES256: ("secp256r1", 1, 32),
    ES384: ("secp384r1", 2, 48),
    ES512: ("secp521r1", 3, 66),
}
"""Algorithm -> its curve, the COSE number of that, and the bytes of a coordinate (WebAuthn section 5.8.5)."""

_MINIMUM_RSA_BITS: Final = 2048


def to_pem(cose_key: bytes) -> tuple[str, int]:
    """Return a COSE_Key in PEM, and its algorithm. Raises ValueError for a key that does not fit its algorithm."""
    from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography  # noqa: PLC0415

    decoded = decode_credential_public_key(cose_key)
    key = decoded_public_key_to_cryptography(decoded)
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    to_cose(pem, decoded.alg)
    return pem, int(decoded.alg)


def to_cose(pem: str, algorithm: int) -> bytes:
    """Return a PEM public key as COSE_Key. Raises ValueError for a key that does not fit the algorithm."""
    from webauthn.helpers import encode_cbor  # noqa: PLC0415  see ceremonies

    try:
        key = serialization.load_pem_public_key(pem.encode())
    except UnsupportedAlgorithm as error:
        raise ValueError("the type of key is unknown") from error
    members: dict[int, int | bytes]
    if isinstance(key, ec.EllipticCurvePublicKey) and algorithm in _CURVES:
        members = _ec2(key, *_CURVES[algorithm])
    elif isinstance(key, ed25519.Ed25519PublicKey) and algorithm == EDDSA:
        raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        members = {1: 1, -1: 6, -2: raw}
    elif isinstance(key, rsa.RSAPublicKey) and algorithm in {RS256, RS384, RS512}:
        members = _rsa(key)
    else:
        raise ValueError("the key does not fit the algorithm")
    return encode_cbor({**members, 3: algorithm})


def _ec2(key: ec.EllipticCurvePublicKey, curve: str, number: int, size_bytes: int) -> dict[int, int | bytes]:
    if key.curve.name != curve:
        raise ValueError(f"the algorithm requires the curve {curve}")
    numbers = key.public_numbers()
    return {1: 2, -1: number, -2: numbers.x.to_bytes(size_bytes), -3: numbers.y.to_bytes(size_bytes)}


def _rsa(key: rsa.RSAPublicKey) -> dict[int, int | bytes]:
    if key.key_size < _MINIMUM_RSA_BITS:
        raise ValueError(f"an RSA key requires {_MINIMUM_RSA_BITS} bits")
    numbers = key.public_numbers()
    return {
        1: 3,
        -1: numbers.n.to_bytes((key.key_size + 7) // 8),
        -2: numbers.e.to_bytes((numbers.e.bit_length() + 7) // 8),
    }
