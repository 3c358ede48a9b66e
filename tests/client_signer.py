"""Client assertions and request objects, signed with an independent library, with any claim or header changed."""

from __future__ import annotations

import time
import warnings
from typing import Any

from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from identity.domain.clients.client_assertions import JWT_BEARER
from identity.ids import new_id
from tests.relying_party import RelyingParty

ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
    *("HS256", "HS384", "HS512", "EdDSA", "Ed25519"),
]


def new_key(algorithm: str = "ES256", **members: Any) -> Key:
    """A new key for an algorithm, by default with a kid."""
    parameters: Any = {"kid": new_id(), "use": "sig", **members}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    if algorithm.startswith("ES"):
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
        return ECKey.generate_key(curve, parameters)
    if algorithm.startswith("Ed"):
        return OKPKey.generate_key("Ed25519", parameters)
    return RSAKey.generate_key(2048, parameters)


def public(*keys: Key) -> dict[str, Any]:
    """The JWK Set that a client registers."""
    return {"keys": [dict(key.as_dict(private=False)) for key in keys]}


def signed(key: Key | str, claims: dict[str, Any], algorithm: str = "ES256", **header: Any) -> str:
    """A JWS over the claims; a text is a secret. None leaves a member of the header out."""
    material = OctKey.import_key(key) if isinstance(key, str) else key
    usual = {"alg": algorithm, "typ": "JWT"}
    if not isinstance(key, str) and key.kid is not None:
        usual["kid"] = key.kid
    merged = {name: value for name, value in {**usual, **header}.items() if value is not None}
    with warnings.catch_warnings():
        # EdDSA is the older name of Ed25519, which others still write.
        warnings.simplefilter("ignore", SecurityWarning)
        return jwt.encode(merged, claims, material, algorithms=ALGORITHMS)


def claims(rp: RelyingParty, **changes: Any) -> dict[str, Any]:
    """The claims of a good assertion; None leaves one out."""
    now = int(time.time())
    usual = {
        "iss": rp.client_id, "sub": rp.client_id, "aud": rp.tenant["issuer"],
        "iat": now, "exp": now + 60, "jti": new_id(),
    }  # fmt: skip
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def form(assertion: str, **changes: str | None) -> dict[str, str | None]:
    """What takes the place of client_id and client_secret in a form."""
    usual = {
        "client_id": None, "client_secret": None,
        "client_assertion_type": JWT_BEARER, "client_assertion": assertion,
    }  # fmt: skip
    return {**usual, **changes}
