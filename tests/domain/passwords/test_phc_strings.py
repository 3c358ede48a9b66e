"""PHC strings against published vectors and other implementations, and the bounds of their cost."""

from __future__ import annotations

import base64
import hashlib

import argon2
import bcrypt
import pytest

from identity.domain.passwords import phc_strings

PASSWORD = "pässwörd 🔑"
SALT = bytes(range(16))


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def pbkdf2(digest: str, size: int, iterations: int = 50) -> str:
    return b64(hashlib.pbkdf2_hmac(digest, PASSWORD.encode(), SALT, iterations, size))


def argon2_string(kind: argon2.low_level.Type, memory: int = 64, passes: int = 2, lanes: int = 1) -> str:
    return str(argon2.PasswordHasher(passes, memory, lanes, 32, 16, type=kind).hash(PASSWORD))


_SCRYPT = b64(hashlib.scrypt(PASSWORD.encode(), salt=SALT, n=16, r=8, p=2, dklen=32))

STRINGS = [
    argon2_string(argon2.low_level.Type.ID),
    argon2_string(argon2.low_level.Type.I),
    argon2_string(argon2.low_level.Type.D, lanes=2),
    f"$scrypt$ln=4,r=8,p=2${b64(SALT)}${_SCRYPT}",
    f"$pbkdf2$50${b64(SALT)}${pbkdf2('sha1', 20)}",
    f"$pbkdf2-sha1$i=50,l=64${b64(SALT)}${pbkdf2('sha1', 64)}",
    f"$pbkdf2-sha256$i=50${b64(SALT)}${pbkdf2('sha256', 32).replace('+', '.')}",
    f"$pbkdf2-sha256$i=50,l=64${b64(SALT)}${pbkdf2('sha256', 64)}",
    f"$pbkdf2-sha512$i=50,l=64${b64(SALT)}${pbkdf2('sha512', 64)}",
]


def matches(text: str, password: str) -> bool:
    return phc_strings.parse(text).matches(password.encode())


@pytest.mark.requirement("migrate-1")
@pytest.mark.parametrize("text", STRINGS, ids=lambda text: text.split("$")[1])
def test_every_algorithm_verifies_its_password_only(text) -> None:
    assert matches(text, PASSWORD)
    for other in ("", PASSWORD + "x", PASSWORD[:-1]):
        assert not matches(text, other)
    assert phc_strings.parse(text).hash.hex() not in repr(phc_strings.parse(text))


@pytest.mark.requirement("migrate-1")
def test_published_vectors() -> None:
    # The reference implementation of argon2 (README), RFC 7914 section 12, and RFC 6070.
    assert matches("$argon2i$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b+dWRWJTmaaJObG", "password")
    derived = bytes.fromhex(
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    assert matches(f"$scrypt$ln=14,r=8,p=1${b64(b'SodiumChloride')}${b64(derived)}", "pleaseletmein")
    sha1 = bytes.fromhex("4b007901b765489abead49d926f721d065a429c1")
    assert matches(f"$pbkdf2$4096${b64(b'salt')}${b64(sha1)}", "password")


@pytest.mark.requirement("migrate-1")
@pytest.mark.parametrize("prefix", ["2a", "2b", "2y"])
def test_bcrypt_is_the_scheme_of_its_own(prefix) -> None:
    text = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode().replace("$2b$", f"${prefix}$")
    parsed = phc_strings.parse(text)
    assert (parsed.scheme, parsed.factor) == ("bcrypt", 4)
    assert text.endswith((parsed.salt + parsed.hash).decode())


@pytest.mark.requirement("migrate-1")
def test_parameters_of_keycloak_cost_two_passes_of_this_service() -> None:
    parsed = phc_strings.parse(f"$argon2id$v=19$m=7168,t=5,p=1${b64(SALT)}${b64(bytes(32))}")
    assert (parsed.scheme, parsed.factor) == ("argon2id", 2)


@pytest.mark.requirement("migrate-1")
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("$argon2id$v=19$m=262144,t=1,p=1", "costs more"),
        ("$argon2id$v=19$m=65536,t=5,p=1", "costs more"),
        ("$argon2id$v=20$m=64,t=1,p=1", "does not support"),
        ("$argon2id$v=19$m=64,t=0,p=1", "does not support"),
        ("$argon2id$v=19$m=64,t=1,p=99", "does not support"),
        ("$argon2id$v=19$m=8,t=1,p=2", "less memory"),
        ("$argon2id$v=19$m=64,t=1", "must have the parameters"),
        ("$argon2id$v=19$m=64,t=1,p=1,keyid=1", "must have the parameters"),
        ("$scrypt$ln=18,r=8,p=1", "costs more"),
        ("$scrypt$ln=1,r=1,p=1000000", "costs more"),
        ("$scrypt$ln=14,r=8,p=9999999999", "costs more"),
        ("$scrypt$ln=99,r=8,p=1", "does not support"),
        ("$pbkdf2-sha256$2000001", "iterations"),
        ("$pbkdf2-sha256$i=0", "iterations"),
        ("$pbkdf2-sha256$i=1,l=16", "other than"),
        ("$pbkdf2-sha256$x", "malformed"),
        ("$pbkdf2-md5$i=1", "not supported"),
        ("$sha512-crypt$i=1", "not supported"),
    ],
)
def test_costly_and_unknown_strings_are_refused(head, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        phc_strings.parse(f"{head}${b64(SALT)}${b64(bytes(32))}")


@pytest.mark.requirement("migrate-1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "$$$$",
        "$2x$04$" + "a" * 53,
        "$2b$17$" + "a" * 53,
        "$2b$04$" + "a" * 52,
        f"$pbkdf2$1${b64(SALT)}$AAAA",
        f"$pbkdf2$1$${b64(bytes(32))}",
        f"$pbkdf2$1$A${b64(bytes(32))}",
        f"$pbkdf2$1$A%${b64(bytes(32))}",
        f"$argon2id$v=19$m=64,t=1,p=1$AAAA${b64(bytes(32))}",
        "$pbkdf2$1$AAAA$" + "A" * 1024,
        "{0}$pbkdf2$1$AAAA$AAAA",
    ],
)
def test_malformed_strings_are_refused(text) -> None:
    with pytest.raises(ValueError, match=r"^[a-z]"):
        phc_strings.parse(text)
