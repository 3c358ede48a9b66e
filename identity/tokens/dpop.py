"""DPoP proofs as JWS, signed by the public key in their header (RFC 9449 section 4.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.tokens import external_keys, jwks, jws
from identity.tokens.jws import Rejection
from identity.tokens.signing_keys import SigningKey

ALGORITHMS: Final = external_keys.ALGORITHMS
"""The signature algorithms of proofs, all asymmetric."""

_TYPE: Final = "dpop+jwt"
_MAXIMUM_LENGTH: Final = 8192
_MAXIMUM_SIGNATURE_BYTES: Final = 512
"""That of RSA with 4096 bits: the caller chooses the key, and larger ones are expensive to verify."""


@dataclasses.dataclass(frozen=True, slots=True)
class DpopProof:
    """A proof with a valid signature; its claims are not validated yet."""

    claims: Document
    algorithm: str
    thumbprint: str


async def verify(text: str) -> DpopProof | None:
    """Return the proof if its type is dpop+jwt and its signature is valid, else None."""
    if len(text) > _MAXIMUM_LENGTH:
        return None
    verified = await jws.verify_external(text, _embedded_key)
    if isinstance(verified, Rejection) or verified.header.get("typ") != _TYPE:
        return None
    return DpopProof(verified.claims, verified.header["alg"], jwks.thumbprint(verified.header["jwk"]))


async def _embedded_key(header: Mapping[str, Any]) -> SigningKey | None:
    jwk, algorithm = header.get("jwk"), header.get("alg")
    if not isinstance(jwk, dict) or external_keys.PRIVATE_MEMBERS & jwk.keys() or algorithm not in ALGORITHMS:
        return None
    key = external_keys.from_jwk(jwk, algorithm)
    return None if key is None or key.signature_bytes > _MAXIMUM_SIGNATURE_BYTES else key
