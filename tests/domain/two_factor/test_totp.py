"""TOTP codes against the test vectors of the RFCs."""

from __future__ import annotations

import base64

import pytest

from identity.domain.two_factor import totp
from identity.instants import Instant

SEEDS = {
    "HmacSHA1": b"12345678901234567890",
    "HmacSHA256": b"12345678901234567890123456789012",
    "HmacSHA512": b"1234567890123456789012345678901234567890123456789012345678901234",
}
VECTORS = [  # RFC 6238 appendix B: seconds, then the codes of SHA-1, SHA-256 and SHA-512
    (59, "94287082", "46119246", "90693936"),
    (1111111109, "07081804", "68084774", "25091201"),
    (1111111111, "14050471", "67062674", "99943326"),
    (1234567890, "89005924", "91819424", "93441116"),
    (2000000000, "69279037", "90698825", "38618901"),
    (20000000000, "65353130", "77737706", "47863826"),
]


@pytest.mark.requirement("users-9-17")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector[0]))
def test_vectors_of_rfc_6238(vector) -> None:
    seconds, *codes = vector
    for (algorithm, seed), expected in zip(SEEDS.items(), codes, strict=True):
        assert totp.code(seed, seconds // 30, algorithm, 8) == expected
        settings = {"algorithm": algorithm, "codeLength": 8, "timeStep": 30}
        secret = base64.b64encode(seed).decode()
        assert totp.matching_step(secret, settings, expected, Instant(seconds * 1000)) == seconds // 30


def test_vectors_of_rfc_4226() -> None:
    found = [totp.code(SEEDS["HmacSHA1"], counter, "HmacSHA1", 6) for counter in range(10)]
    assert found == [
        "755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489",
    ]  # fmt: skip


def test_codes_of_adjacent_steps_are_accepted() -> None:
    secret, now = base64.b64encode(SEEDS["HmacSHA1"]).decode(), Instant(1_111_111_111_000)
    step = now // 30_000
    found = {
        aside: totp.matching_step(secret, {}, totp.code(SEEDS["HmacSHA1"], step + aside, "HmacSHA1", 6), now)
        for aside in range(-2, 3)
    }
    assert found == {-2: None, -1: step - 1, 0: step, 1: step + 1, 2: None}


def test_time_step_and_length_are_the_settings() -> None:
    secret, now = base64.b64encode(SEEDS["HmacSHA1"]).decode(), Instant(1_111_111_111_000)
    settings = {"timeStep": 60, "codeLength": 7}
    shown = totp.code(SEEDS["HmacSHA1"], now // 60_000, "HmacSHA1", 7)
    assert totp.matching_step(secret, settings, shown, now) == now // 60_000
    assert totp.matching_step(secret, {"timeStep": 60}, shown, now) is None
    assert (totp.lifetime_seconds(settings), totp.lifetime_seconds({})) == (180, 90)


@pytest.mark.parametrize("shown", ["", "12345", "1234567", "abcdef", "\u0661\u0662\u0663\u0664\u0665\u0666"])
def test_invalid_codes_match_nothing(shown: str) -> None:
    assert totp.matching_step(base64.b64encode(SEEDS["HmacSHA1"]).decode(), {}, shown, Instant(0)) is None


def test_base32_ignores_case_and_spaces() -> None:
    raw = SEEDS["HmacSHA1"]
    written = totp.to_base32(raw)
    assert written == "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    grouped = " ".join(written[at : at + 4] for at in range(0, len(written), 4)).lower()
    for text in (written, grouped, base64.b32encode(b"twenty-one bytes long").decode()):
        assert totp.from_base32(text) is not None
    assert base64.b64decode(totp.from_base32(grouped) or "") == raw
    assert (totp.from_base32("1!"), totp.from_base32("A")) == (None, None)
