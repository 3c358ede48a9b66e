"""Client keys and DPoP proofs (RFC 9449), independent of the service's code."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from identity.ids import new_id


class ClientKey:
    """An ES256 key."""

    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        point = self.private.public_key().public_numbers()
        x, y = (_base64url(number.to_bytes(32, "big")) for number in (point.x, point.y))
        self.jwk = {"crv": "P-256", "kty": "EC", "x": x, "y": y}

    @property
    def thumbprint(self) -> str:
        """RFC 7638 section 3."""
        return _base64url(hashlib.sha256(json.dumps(self.jwk, separators=(",", ":")).encode()).digest())

    @property
    def d(self) -> str:
        """The private member of the key."""
        return _base64url(self.private.private_numbers().private_value.to_bytes(32, "big"))

    def proof(
        self,
        method: str,
        url: object,
        token: str | None = None,
        *,
        header: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """A proof for a request, with the hash of a token where one is given; None leaves a claim out."""
        claims: dict[str, Any] = {"jti": new_id(), "htm": method, "htu": str(url), "iat": int(time.time())}
        if token is not None:
            claims["ath"] = _base64url(hashlib.sha256(token.encode()).digest())
        head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk, **(header or {})}
        return self.signed(_given(head), _given({**claims, **changes}))

    def signed(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """A compact JWS."""
        signing_input = ".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
        r, s = decode_dss_signature(self.private.sign(signing_input.encode(), ec.ECDSA(SHA256())))
        return f"{signing_input}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def header(self, http: httpx.AsyncClient, method: str, path: str, **changes: Any) -> dict[str, str]:
        """The DPoP header of a request that this client is about to make."""
        return {"DPoP": self.proof(method, http.base_url.join(path), **changes)}

    def shown(self, http: httpx.AsyncClient, token: str, path: str, method: str = "GET", **changes: Any) -> Any:
        """The headers of a request to a protected resource."""
        proof = self.proof(method, http.base_url.join(path), token, **changes)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}


def _given(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
