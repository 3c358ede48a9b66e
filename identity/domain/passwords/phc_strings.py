"""Password hashes of other products in the PHC string format: argon2, scrypt, PBKDF2 and bcrypt.

A string has its parameters, its salt and its hash: `$argon2id$v=19$m=7168,t=5,p=1$salt$hash`. Both are Base64 without
padding; the variant of passlib, with `.` in place of `+` and PBKDF2's iterations without a name, is read as well.
The variants of Firebase's scrypt are not: they encrypt with a key of the project.

Verifying is CPU-bound: call it through PasswordPool.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Final

import argon2.exceptions
import argon2.low_level

from identity.ids import same_secret

SCHEME: Final = "phc"
"""The `encryptionScheme` of imported PHC strings. No new password is hashed with it."""

MAXIMUM_LENGTH: Final = 1024

ARGON2_MEMORY_KIB: Final = 19_456
"""The memory of this service's own argon2id; costs of other parameters are compared with its passes."""

_MAXIMUM_MEMORY_KIB: Final = 131_072
_MAXIMUM_PASSES: Final = 14
_MAXIMUM_LANES: Final = 16
_MAXIMUM_ITERATIONS: Final = 2_000_000
_MAXIMUM_BCRYPT_COST: Final = 16
_SALT_BYTES: Final = range(1, 129)
_HASH_BYTES: Final = range(16, 129)
_ARGON2_SALT_BYTES: Final = 8

_OUT_OF_MEMORY: Final = argon2.low_level.error_to_str(-22)
_ARGON2_TYPES: Final[Mapping[str, argon2.low_level.Type]] = {
    "argon2d": argon2.low_level.Type.D,
    "argon2i": argon2.low_level.Type.I,
    "argon2id": argon2.low_level.Type.ID,
}
_ARGON2_VERSIONS: Final = (16, 19)
_PBKDF2_DIGESTS: Final[Mapping[str, str]] = {
    "pbkdf2": "sha1",
    "pbkdf2-sha1": "sha1",
    "pbkdf2-sha256": "sha256",
    "pbkdf2-sha512": "sha512",
}
_BCRYPT: Final = re.compile(r"\$2[aby]\$([0-9]{2})\$([./A-Za-z0-9]{22})([./A-Za-z0-9]{31})")
_PARAMETERS: Final = re.compile(r"[a-z]+=[0-9]{1,10}(,[a-z]+=[0-9]{1,10})*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/.]+")


@dataclasses.dataclass(frozen=True, slots=True)
class PhcString:
    """A parsed string. `scheme` and `factor` are the scheme of this service with about the same cost, and its factor.

    For bcrypt they are the scheme itself, and `salt` and `hash` in its own alphabet.
    """

    algorithm: str
    scheme: str
    factor: int
    parameters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    salt: bytes = b""
    hash: bytes = dataclasses.field(default=b"", repr=False)

    def derive(self, password: bytes) -> bytes:
        """Hash a password with the parameters and the salt. Raises ValueError and MemoryError."""
        given = self.parameters
        if self.algorithm in _ARGON2_TYPES:
            kind, size = _ARGON2_TYPES[self.algorithm], len(self.hash)
            return hash_argon2(password, self.salt, given["t"], given["m"], given["p"], size, kind, given["v"])
        if self.algorithm == "scrypt":
            cost, limit = {"n": 1 << given["ln"], "r": given["r"], "p": given["p"]}, 2 * _MAXIMUM_MEMORY_KIB * 1024
            return hashlib.scrypt(password, salt=self.salt, **cost, maxmem=limit, dklen=len(self.hash))
        digest = _PBKDF2_DIGESTS[self.algorithm]
        return hashlib.pbkdf2_hmac(digest, password, self.salt, given["i"], len(self._compared))

    @property
    def _compared(self) -> bytes:
        """The part of the hash that is compared.

        The blocks of PBKDF2 are independent (RFC 8018 section 5.2): who guesses passwords computes only the first, and
        so does this service.
        """
        if self.algorithm not in _PBKDF2_DIGESTS:
            return self.hash
        return self.hash[: hashlib.new(_PBKDF2_DIGESTS[self.algorithm], usedforsecurity=False).digest_size]

    def matches(self, password: bytes) -> bool:
        """Return whether this is the password, compared in constant time. Raises MemoryError."""
        try:
            derived = self.derive(password)
        except ValueError:
            return False
        return same_secret(derived.hex(), self._compared.hex())


def parse(text: str) -> PhcString:
    """Parse a string. Raises ValueError with the reason: malformed, an unknown algorithm, or too costly."""
    if len(text) > MAXIMUM_LENGTH:
        raise ValueError("is too long")
    if bcrypt := _BCRYPT.fullmatch(text):
        return _bcrypt(int(bcrypt[1]), bcrypt[2], bcrypt[3])
    empty, *fields = text.split("$")
    if empty or len(fields) < 4:
        raise ValueError("is not a PHC string with parameters, salt and hash")
    algorithm, *middle, salt, hash_ = fields
    if algorithm in _ARGON2_TYPES:
        found = _argon2(algorithm, middle)
    elif algorithm == "scrypt":
        found = _scrypt(middle)
    elif algorithm in _PBKDF2_DIGESTS:
        found = _pbkdf2(algorithm, middle, len(_decoded(hash_)))
    else:
        raise ValueError("has an algorithm that is not supported")
    found = dataclasses.replace(found, salt=_decoded(salt), hash=_decoded(hash_))
    if len(found.salt) not in _SALT_BYTES or (algorithm in _ARGON2_TYPES and len(found.salt) < _ARGON2_SALT_BYTES):
        raise ValueError("has a salt of a length that is not supported")
    if len(found.hash) not in _HASH_BYTES:
        raise ValueError(f"must have a hash of {_HASH_BYTES[0]} to {_HASH_BYTES[-1]} bytes")
    return found


def hash_argon2(
    password: bytes,
    salt: bytes,
    passes: int,
    memory_kib: int,
    lanes: int,
    size: int,
    kind: argon2.low_level.Type,
    version: int = argon2.low_level.ARGON2_VERSION,
) -> bytes:
    """Hash with argon2 (RFC 9106). Raises ValueError for impossible parameters, and MemoryError."""
    try:
        return argon2.low_level.hash_secret_raw(password, salt, passes, memory_kib, lanes, size, kind, version)
    except argon2.exceptions.HashingError as error:
        if str(error) == _OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error
        raise ValueError(str(error)) from error


def _bcrypt(cost: int, salt: str, hash_: str) -> PhcString:
    if not 4 <= cost <= _MAXIMUM_BCRYPT_COST:
        raise ValueError(f"must have a cost of 4 to {_MAXIMUM_BCRYPT_COST}")
    return PhcString("bcrypt", "bcrypt", cost, salt=salt.encode(), hash=hash_.encode())


def _argon2(algorithm: str, fields: list[str]) -> PhcString:
    # Without a version it is 1.0, number 16, as in the first release of the reference implementation.
    version = _parameters(fields[0]).get("v", 0) if len(fields) == 2 else 16
    given = _required(fields[-1:], {"m", "t", "p"})
    memory, passes, lanes = given["m"], given["t"], given["p"]
    if version not in _ARGON2_VERSIONS or len(fields) > 2 or not passes or not 1 <= lanes <= _MAXIMUM_LANES:
        raise ValueError("has parameters that argon2 does not support here")
    if memory < 8 * lanes:
        raise ValueError("has less memory than argon2 requires")
    return PhcString(algorithm, "argon2id", _argon2_passes(memory, memory * passes), {**given, "v": version})


def _scrypt(fields: list[str]) -> PhcString:
    given = _required(fields, {"ln", "r", "p"})
    if not (1 <= given["ln"] <= 32 and given["r"] and given["p"]):
        raise ValueError("has parameters that scrypt does not support here")
    # 128 bytes per block and element (RFC 7914); each is written and read, argon2 passes over it once.
    memory = max(1, (given["r"] << given["ln"]) // 8)
    return PhcString("scrypt", "argon2id", _argon2_passes(memory, 2 * memory * given["p"]), given)


def _pbkdf2(algorithm: str, fields: list[str], size: int) -> PhcString:
    text = fields[0] if len(fields) == 1 else ""
    given = {"i": int(text)} if re.fullmatch(r"[0-9]{1,10}", text) else _parameters(text)
    if given.pop("l", size) != size or given.keys() != {"i"}:
        raise ValueError("has parameters other than i and l")
    if not 1 <= given["i"] <= _MAXIMUM_ITERATIONS:
        raise ValueError(f"must have 1 to {_MAXIMUM_ITERATIONS:,} iterations")
    is_long = algorithm == "pbkdf2-sha512"
    scheme = "salted-pbkdf2-hmac-sha512-512" if is_long else "salted-pbkdf2-hmac-sha256"
    return PhcString(algorithm, scheme, given["i"], given)


def _argon2_passes(memory_kib: int, work_kib: int) -> int:
    """Return the passes of this service's argon2id that cost as much. Raises ValueError if they are too many."""
    passes = -(-work_kib // ARGON2_MEMORY_KIB)
    if memory_kib > _MAXIMUM_MEMORY_KIB or passes > _MAXIMUM_PASSES:
        raise ValueError("costs more memory or time than this service spends on a password")
    return max(1, passes)


def _required(fields: list[str], names: set[str]) -> dict[str, int]:
    given = _parameters(fields[0]) if len(fields) == 1 else {}
    if given.keys() != names:
        raise ValueError(f"must have the parameters {', '.join(sorted(names))}")
    return given


def _parameters(text: str) -> dict[str, int]:
    if not _PARAMETERS.fullmatch(text):
        raise ValueError("has malformed parameters")
    pairs = [pair.split("=") for pair in text.split(",")]
    return {name: int(value) for name, value in pairs}


def _decoded(text: str) -> bytes:
    if not _BASE64.fullmatch(text) or len(text) % 4 == 1:
        raise ValueError("has a salt or a hash that is not Base64 without padding")
    return base64.b64decode(text.replace(".", "+") + "=" * (-len(text) % 4), validate=True)
