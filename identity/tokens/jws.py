"""Compact JWS (RFC 7515): signed and verified with known keys.

The key determines the algorithm, never the token: its `kid` only selects among our keys. Size, encoding and structure
are checked first because they are cheap, then the signature, then the claims.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import enum
import json
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from identity.call import Document
from identity.ids import base64url, unbase64url
from identity.instants import NumericDate
from identity.tokens.signing_keys import SigningKey

MAXIMUM_LENGTH: Final = 16_384
MAXIMUM_DEPTH: Final = 32

_TIMES: Final = ("exp", "iat", "nbf", "auth_time")
_NAMES: Final = ("iss", "sub", "jti", "sid", "tid", "tty")
_LATEST: Final = 253_402_300_800
"""The first second of the year 10000."""

# The closing quote is optional, so that an unterminated string is scanned once, not again from each of its quotes.
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_MAXIMUM_KID = 191

# More threads than cores would only delay each signature.
_threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="signing")


class Rejection(enum.Enum):
    """Why a token is rejected."""

    MALFORMED = "malformed"
    INVALID = "invalid"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedJwt:
    """A token with a verified signature; `claims` have the right types but are not validated."""

    header: Document
    claims: Document
    key: SigningKey


FindKey = Callable[[str, Mapping[str, Any]], Awaitable[SigningKey | None]]
"""(kid, unverified claims) -> the key of ours that may have signed them.

For a token without a kid the first argument is its algorithm, and only client secrets are searched.
"""


FindExternalKey = Callable[[Mapping[str, Any]], Awaitable[SigningKey | None]]
"""Header of an external token -> the key that may have signed it."""

_CURRENT_NAMES: Final = {"EdDSA": "Ed25519"}
"""Deprecated names of algorithms (RFC 9864 section 4)."""


async def sign(
    key: SigningKey, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None, *, typ: str = "JWT"
) -> str:
    """Sign claims as a compact JWS; `alg` and `kid` come from the key, `header` adds members.

    RSA runs in a thread, where OpenSSL releases the GIL. Raises ValueError for a key without a private half.
    """
    if key.signer is None:
        raise ValueError(f"the key {key.id} has no private half")
    protected = {**(header or {}), "alg": key.algorithm, "typ": typ}
    if key.kid is not None:
        protected["kid"] = key.kid
    signing_input = f"{base64url(orjson.dumps(protected))}.{base64url(orjson.dumps(claims))}"
    octets = signing_input.encode()
    if key.is_slow:
        signature = await asyncio.get_running_loop().run_in_executor(_threads, key.signer.sign, octets)
    else:
        signature = key.signer.sign(octets)
    return f"{signing_input}.{base64url(signature)}"


async def verify(token: str, find: FindKey, find_secret: FindKey | None = None) -> VerifiedJwt | Rejection:
    """Verify the signature of one of our tokens. Its lifetime is not checked: see `check_times`.

    Only client secrets have no kid: a token without one is verified with the key from `find_secret`, if given.

    `jwk`, `jku`, `x5u` and `x5c` in the header are ignored; `crit` is rejected because no extension is supported, and
    hence `b64` (RFC 7515 section 4.1.11, RFC 7797).
    """
    parsed = parse(token)
    if isinstance(parsed, Rejection):
        return parsed
    header = parsed.header
    if "kid" not in header and find_secret is not None:
        name, find = header.get("alg"), find_secret
    else:
        name = header.get("kid")
    if not isinstance(name, str) or len(name) > _MAXIMUM_KID:
        return Rejection.INVALID
    key = await find(name, parsed.claims)
    if key is None or header.get("alg") != key.algorithm:
        return Rejection.INVALID
    has_signed = key.has_signed(parsed.signing_input, parsed.signature)
    return VerifiedJwt(header, parsed.claims, key) if has_signed else Rejection.INVALID


@dataclasses.dataclass(frozen=True, slots=True)
class UnverifiedJwt:
    """A parsed token; its header and claims may only be used to find the key that verifies it."""

    header: Document
    claims: Document
    signing_input: bytes
    signature: bytes = dataclasses.field(repr=False)

    async def verified(self, key: SigningKey | None) -> VerifiedJwt | Rejection:
        """Verify the signature with a key; asymmetric keys run in a thread."""
        algorithm = self.header.get("alg")
        if key is None or not isinstance(algorithm, str) or _CURRENT_NAMES.get(algorithm, algorithm) != key.algorithm:
            return Rejection.INVALID
        if key.is_secret:
            has_signed = key.has_signed(self.signing_input, self.signature)
        else:
            loop = asyncio.get_running_loop()
            has_signed = await loop.run_in_executor(_threads, key.has_signed, self.signing_input, self.signature)
        return VerifiedJwt(self.header, self.claims, key) if has_signed else Rejection.INVALID


def parse(token: str) -> UnverifiedJwt | Rejection:
    """Parse a token without verifying it. `crit` and `b64` are rejected."""
    if len(token) > MAXIMUM_LENGTH or not token.isascii() or token.count(".") != 2:
        return Rejection.MALFORMED
    header_text, claims_text, signature_text = token.split(".")
    try:
        header, claims = (_strict_object(unbase64url(text)) for text in (header_text, claims_text))
        signature = unbase64url(signature_text)
    except ValueError:
        return Rejection.MALFORMED
    if not has_valid_claim_types(claims):
        return Rejection.MALFORMED
    if "crit" in header or "b64" in header:
        return Rejection.INVALID
    return UnverifiedJwt(header, claims, f"{header_text}.{claims_text}".encode(), signature)


async def verify_external(token: str, find: FindExternalKey) -> VerifiedJwt | Rejection:
    """Verify an external token with the key that `find` returns for its header.

    As in `verify` the key determines the algorithm.
    """
    unverified = parse(token)
    return unverified if isinstance(unverified, Rejection) else await unverified.verified(await find(unverified.header))


def check_times(claims: Mapping[str, Any], now: NumericDate) -> Rejection | None:
    """Reject a token after its `exp` or before its `nbf` (RFC 7519 sections 4.1.4 and 4.1.5), without leeway.

    A token without `exp` is expired.
    """
    if claims.get("exp", 0) <= now:
        return Rejection.EXPIRED
    if claims.get("nbf", 0) > now:
        return Rejection.NOT_YET_VALID
    return None


def _strict_object(raw: bytes) -> Document:
    """Decode a JSON object of bounded depth, without duplicate members, NaN, infinities and lone surrogates.

    Raises ValueError.
    """
    # The depth is measured only for a token with many brackets; a typical one has a handful.
    if raw.count(b"{") + raw.count(b"[") > MAXIMUM_DEPTH:
        _require_shallow(raw)
    value = orjson.loads(raw)
    # What orjson would write in the same way, such as our own tokens, has no duplicate members.
    if orjson.dumps(value) != raw:
        value = _DECODER.decode(raw.decode("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("not an object")  # the input is invalid, not our types
    if b"\\u" in raw:
        # A lone surrogate can be escaped in JSON, but the decoded text cannot be encoded as UTF-8.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _require_shallow(raw: bytes) -> None:
    depth = 0
    for found in _NESTING.finditer(raw):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(found[0], 0)
        if depth > MAXIMUM_DEPTH:
            raise ValueError("nested too deeply")


def _unique(pairs: list[tuple[str, Any]]) -> Document:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate member")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def has_valid_claim_types(claims: Mapping[str, Any]) -> bool:
    """Whether the registered claims have their specified types."""
    return (
        all(_is_time(claims[name]) for name in _TIMES if name in claims)
        and all(isinstance(claims[name], str) for name in _NAMES if name in claims)
        and _is_audience(claims.get("aud", ""))
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LATEST


def _is_audience(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(entry, str) for entry in value)
    return isinstance(value, str)
