"""Password hashing under every scheme of the published API, with argon2id as the default.

A scheme names the derivation, its factor is the cost. Salt and hash are standard Base64, unless the scheme has its own
alphabet (bcrypt, argon2id). These functions are CPU-bound: call them through PasswordPool.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import argon2.low_level
import bcrypt

from identity.call import Document
from identity.domain.passwords import phc_strings
from identity.ids import same_secret

MAXIMUM_BYTES: Final = 4096
"""The maximum size of a password, against denial of service; policies allow at most 256 characters."""

# The OWASP password storage recommendation for argon2id: 19 MiB, two passes, one lane; the factor is the passes.
_ARGON2_LANES = 1
_SALT_BYTES = 32
_SLOW_FACTORS: Final = {"argon2id": 30, "bcrypt": 13, "phpass-md5": 500_000, "phpass-sha512": 300_000}


@dataclasses.dataclass(frozen=True, slots=True)
class StoredPassword:
    """A stored password hash."""

    scheme: str
    factor: int
    salt: str
    hash: str = dataclasses.field(repr=False)


def stored_password(user: Document) -> StoredPassword | None:
    """Return the stored password hash of a user, or None for a user without a password."""
    stored = user["private"].get("password")
    return None if stored is None else StoredPassword(**stored)


@dataclasses.dataclass(frozen=True, slots=True)
class _Scheme:
    derive: Callable[[bytes, str, int], str]
    minimum_factor: int
    maximum_factor: int
    new_salt: Callable[[], str]


def hash_password(password: str, scheme: str, factor: int) -> StoredPassword:
    """Hash a password with a new salt.

    Raises KeyError for an unknown scheme, so check `is_known` first, and MemoryError.
    """
    salt = _SCHEMES[scheme].new_salt()
    return StoredPassword(scheme, factor, salt, _SCHEMES[scheme].derive(password.encode(), salt, factor))


def verify(password: str, stored: StoredPassword) -> bool:
    """Whether this is the password, compared in constant time. False for a malformed salt or an unknown scheme.

    Raises MemoryError: the password was not compared.
    """
    if stored.scheme == phc_strings.SCHEME:
        return phc_strings.parse(stored.hash).matches(password.encode())
    scheme = _SCHEMES.get(stored.scheme)
    if scheme is None:
        return False
    try:
        derived = scheme.derive(password.encode(), stored.salt, stored.factor)
    except ValueError:
        return False
    return same_secret(derived, stored.hash)


def is_known(scheme: str) -> bool:
    """Whether passwords can be hashed with the scheme."""
    return scheme in _SCHEMES


def is_acceptable_factor(scheme: str, factor: int) -> bool:
    """Whether the factor is within the bounds of the scheme."""
    return _SCHEMES[scheme].minimum_factor <= factor <= _SCHEMES[scheme].maximum_factor


def is_slow(scheme: str, factor: int) -> bool:
    """Return whether a hash occupies a core for more than about half a second."""
    return factor > _SLOW_FACTORS.get(scheme, 1_000_000)


def maximum_length(scheme: str) -> int | None:
    """Return the maximum length of a password in bytes that the scheme reads, or None if it reads all."""
    return 50 if scheme == "bcrypt" else None


def _pbkdf2(digest: str, size: int, password: bytes, salt: str, factor: int) -> str:
    return _base64(hashlib.pbkdf2_hmac(digest, password, _unbase64(salt), factor, size))


def _repeated(digest: str, password: bytes, salt: str, factor: int) -> str:
    value = password + _unbase64(salt)
    for _ in range(factor):
        value = hashlib.new(digest, value, usedforsecurity=False).digest()
    return _base64(value)


def _phpass(digest: str, length: int | None, password: bytes, salt: str, factor: int) -> str:
    value = hashlib.new(digest, salt.encode() + password, usedforsecurity=False).digest()
    for _ in range(factor):
        value = hashlib.new(digest, value + password, usedforsecurity=False).digest()
    return _base64(value)[:length]


def _hmac_sha256(password: bytes, salt: str, _factor: int) -> str:
    return _base64(hmac.new(_unbase64(salt), password, hashlib.sha256).digest())


def _bcrypt(password: bytes, salt: str, factor: int) -> str:
    # bcrypt reads 72 bytes; this library rejects more, where other implementations truncate.
    prefix = f"$2b${factor:02d}${salt}"
    return bcrypt.hashpw(password[:72], prefix.encode()).decode()[len(prefix) :]


def _argon2id(password: bytes, salt: str, factor: int) -> str:
    memory, kind = phc_strings.ARGON2_MEMORY_KIB, argon2.low_level.Type.ID
    return _base64(phc_strings.hash_argon2(password, _unbase64(salt), factor, memory, _ARGON2_LANES, 32, kind))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _new_salt() -> str:
    return _base64(os.urandom(_SALT_BYTES))


def _new_bcrypt_salt() -> str:
    return bcrypt.gensalt(4).decode().rpartition("$")[2]


def _new_text_salt() -> str:
    return _base64(os.urandom(6))


_SCHEMES: Final[Mapping[str, _Scheme]] = {
    "argon2id": _Scheme(_argon2id, 1, 10, _new_salt),
    "salted-pbkdf2-hmac-sha256": _Scheme(partial(_pbkdf2, "sha256", 32), 1, 1_000_000, _new_salt),
    "salted-pbkdf2-hmac-sha256-512": _Scheme(partial(_pbkdf2, "sha256", 64), 1, 1_000_000, _new_salt),
    "salted-pbkdf2-hmac-sha512-512": _Scheme(partial(_pbkdf2, "sha512", 64), 1, 1_000_000, _new_salt),
    "bcrypt": _Scheme(_bcrypt, 4, 16, _new_bcrypt_salt),
    "salted-md5": _Scheme(partial(_repeated, "md5"), 1, 1_000_000, _new_salt),
    "salted-sha256": _Scheme(partial(_repeated, "sha256"), 1, 1_000_000, _new_salt),
    "salted-hmac-sha256": _Scheme(_hmac_sha256, 0, 1_000_000, _new_salt),
    "phpass-md5": _Scheme(partial(_phpass, "md5", None), 1, 1_000_000, _new_text_salt),
    "phpass-sha512": _Scheme(partial(_phpass, "sha512", 43), 1, 1_000_000, _new_text_salt),
}
SCHEMES: Final = frozenset(_SCHEMES)
