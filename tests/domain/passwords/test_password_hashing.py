"""Password schemes against published vectors and other implementations; password rules of a tenant."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys

import argon2
import bcrypt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from identity.domain.passwords import password_hashing, password_policy
from identity.domain.passwords.password_hashing import StoredPassword
from identity.domain.passwords.password_policy import PasswordRules
from tests.builders import make_tenant

PASSWORD = "pässwörd 🔑"
SALT = base64.b64encode(bytes(range(32))).decode()
CHEAP = {"bcrypt": 4, "argon2id": 1}


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def is_valid(scheme: str, factor: int, salt: str, derived: str, password: str = PASSWORD) -> bool:
    return password_hashing.verify(password, StoredPassword(scheme, factor, salt, derived))


@pytest.mark.requirement("design-state-9", "users-2-6")
@pytest.mark.parametrize("scheme", sorted(password_hashing.SCHEMES))
def test_every_scheme_verifies_its_password_only(scheme):
    factor = CHEAP.get(scheme, 10)
    stored = password_hashing.hash_password(PASSWORD, scheme, factor)
    assert (stored.scheme, stored.factor) == (scheme, factor)
    assert password_hashing.verify(PASSWORD, stored)
    for other in ("", PASSWORD + "x", PASSWORD[:-1], PASSWORD.upper()):
        assert not password_hashing.verify(other, stored)
    assert password_hashing.hash_password(PASSWORD, scheme, factor) != stored, "salts are random"
    assert stored.hash not in repr(stored)


@pytest.mark.requirement("users-2-6")
@pytest.mark.parametrize(
    ("scheme", "digest", "size"),
    [
        ("salted-pbkdf2-hmac-sha256", hashes.SHA256(), 32),
        ("salted-pbkdf2-hmac-sha256-512", hashes.SHA256(), 64),
        ("salted-pbkdf2-hmac-sha512-512", hashes.SHA512(), 64),
    ],
)
def test_pbkdf2_matches_another_implementation(scheme, digest, size):
    derived = PBKDF2HMAC(digest, size, base64.b64decode(SALT), 24_000).derive(PASSWORD.encode())
    assert is_valid(scheme, 24_000, SALT, b64(derived))
    assert not is_valid(scheme, 24_001, SALT, b64(derived))


def test_pbkdf2_vector_of_rfc_7914_section_11():
    derived = bytes.fromhex(
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
        "49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
    )
    assert is_valid("salted-pbkdf2-hmac-sha256-512", 1, b64(b"salt"), b64(derived), "passwd")


@pytest.mark.requirement("users-2-6")
def test_bcrypt_of_another_implementation_is_verified_by_its_parts():
    whole = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
    assert bcrypt.checkpw(b"U*U", whole.encode())
    assert is_valid("bcrypt", 5, whole[7:29], whole[29:], "U*U")
    assert not is_valid("bcrypt", 5, whole[7:29], whole[29:], "U*V")


def test_bcrypt_uses_72_bytes():
    stored = password_hashing.hash_password("x" * 100, "bcrypt", 4)
    assert password_hashing.verify("x" * 100, stored)
    assert password_hashing.maximum_length("bcrypt") == 50, "which is why rules allow fewer"


def test_argon2id_is_verified_by_the_reference_library():
    stored = password_hashing.hash_password(PASSWORD, "argon2id", 2)
    salt, derived = (text.rstrip("=") for text in (stored.salt, stored.hash))
    argon2.PasswordHasher().verify(f"$argon2id$v=19$m=19456,t=2,p=1${salt}${derived}", PASSWORD)


@pytest.mark.requirement("users-2-6")
@pytest.mark.parametrize(("scheme", "digest"), [("salted-md5", "md5"), ("salted-sha256", "sha256")])
def test_repeated_digests_start_with_password_and_salt(scheme, digest):
    derived = PASSWORD.encode() + base64.b64decode(SALT)
    for _ in range(20_000):
        derived = hashlib.new(digest, derived).digest()
    assert is_valid(scheme, 20_000, SALT, b64(derived))


def test_md5_without_salt_has_an_empty_one():
    assert is_valid("salted-md5", 1, "", b64(hashlib.md5(b"secret").digest()), "secret")


def test_hmac_scheme_has_no_factor():
    derived = b64(hmac.digest(base64.b64decode(SALT), PASSWORD.encode(), "sha256"))
    for factor in (0, 1, 9_999):
        assert is_valid("salted-hmac-sha256", factor, SALT, derived)


@pytest.mark.requirement("users-2-6")
def test_phpass_hash_of_its_reference_is_verified():
    """`$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0` is test12345: 2^11 rounds, salt IQRaTwmf, in an alphabet of its own."""
    alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    text, raw = "eRo7ud9Fh4E2PdI0S3r.L0", b""
    for at in range(0, len(text), 4):
        group = text[at : at + 4]
        value = sum(alphabet.index(character) << 6 * place for place, character in enumerate(group))
        raw += value.to_bytes(4, "little")[: len(group) * 6 // 8]
    assert is_valid("phpass-md5", 2048, "IQRaTwmf", b64(raw), "test12345")
    assert not is_valid("phpass-md5", 2048, "IQRaTwmf", b64(raw), "test12346")


def test_phpass_sha512_keeps_43_characters():
    stored = password_hashing.hash_password(PASSWORD, "phpass-sha512", 8)
    assert len(stored.hash) == 43
    derived = hashlib.sha512(stored.salt.encode() + PASSWORD.encode()).digest()
    for _ in range(8):
        derived = hashlib.sha512(derived + PASSWORD.encode()).digest()
    assert stored.hash == b64(derived)[:43]


LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from identity.domain.passwords import password_hashing
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22,) * 2)
try:
    password_hashing.verify("x", password_hashing.StoredPassword("argon2id", 1, sys.argv[1], ""))
except MemoryError:
    print("not compared")
"""


def test_lack_of_memory_is_no_wrong_password():
    ended = subprocess.run([sys.executable, "-c", LITTLE_MEMORY, SALT], capture_output=True, text=True, check=True)
    assert ended.stdout == "not compared\n"


@pytest.mark.parametrize(
    ("scheme", "factor", "salt"),
    [
        ("unknown", 1, SALT),
        ("salted-pbkdf2-hmac-sha256", 10, "not base64!"),
        ("salted-pbkdf2-hmac-sha256", 0, SALT),
        ("bcrypt", 3, "CCCCCCCCCCCCCCCCCCCCC."),
        ("bcrypt", 5, "short"),
        ("bcrypt", 5, "é" * 22),
        ("argon2id", 1, "AA=="),
    ],
)
def test_unusable_material_verifies_nothing(scheme, factor, salt):
    assert not is_valid(scheme, factor, salt, "")
    assert not is_valid(scheme, factor, salt, b64(b"x" * 32))


@pytest.mark.parametrize(
    ("scheme", "factor", "expected"),
    [
        ("argon2id", 2, True),
        ("argon2id", 0, False),
        ("argon2id", 11, False),
        ("bcrypt", 3, False),
        ("bcrypt", 14, True),
        ("bcrypt", 17, False),
        ("salted-pbkdf2-hmac-sha256", 24_000, True),
        ("salted-pbkdf2-hmac-sha256", 0, False),
        ("salted-pbkdf2-hmac-sha256", 1_000_001, False),
        ("salted-hmac-sha256", 0, True),
    ],
)
def test_factor_is_bounded_so_that_a_login_ends(scheme, factor, expected):
    assert password_hashing.is_acceptable_factor(scheme, factor) is expected


def codes(password: str, scheme: str = "argon2id", login_ids=(), **rules) -> list[str]:
    tenant_rules = PasswordRules.of({"passwordValidationRules": make_tenant()["passwordValidationRules"] | rules})
    found = password_policy.problems(password, tenant_rules, "user.password", scheme=scheme, login_ids=login_ids)
    return [error.code.removesuffix("user.password") for error in found]


@pytest.mark.requirement("core-2-6")
@pytest.mark.parametrize(
    ("password", "rules", "expected"),
    [
        ("password", {}, []),
        ("", {}, ["[blank]"]),
        ("        ", {}, ["[blank]"]),
        ("passwor", {}, ["[tooShort]"]),
        ("x" * 256, {}, []),
        ("x" * 257, {}, ["[tooLong]"]),
        ("password", {"requireMixedCase": True}, ["[singleCase]"]),
        ("PASSWORD", {"requireMixedCase": True}, ["[singleCase]"]),
        ("Password", {"requireMixedCase": True}, []),
        ("Password1", {"requireNonAlpha": True}, ["[onlyAlpha]"]),
        ("Password!", {"requireNonAlpha": True}, []),
        ("Password", {"requireNumber": True}, ["[requireNumber]"]),
        ("Password1", {"requireNumber": True}, []),
        (
            "short",
            {"requireMixedCase": True, "requireNonAlpha": True, "requireNumber": True},
            ["[tooShort]", "[singleCase]", "[onlyAlpha]", "[requireNumber]"],
        ),
    ],
)
def test_all_violated_rules_are_reported(password, rules, expected):
    assert codes(password, **rules) == expected


def test_bcrypt_passwords_are_limited_to_50_bytes():
    assert codes("x" * 50, "bcrypt") == []
    assert codes("x" * 51, "bcrypt") == ["[tooLong]"]
    assert codes("ä" * 26, "bcrypt") == ["[tooLong]"]


@pytest.mark.requirement("core-2-6")
def test_login_ids_in_the_password_are_rejected_if_configured():
    login_ids = ("user@example.com", "someone", "+15551234567")
    password = "xUSER@example.com someone +15551234567"
    assert codes(password, login_ids=login_ids) == []
    expected = ["[containsEmail]", "[containsUsername]", "[containsPhoneNumber]"]
    assert codes(password, login_ids=login_ids, disallowUserLoginId=True) == expected
