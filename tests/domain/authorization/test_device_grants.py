"""User codes: alphabet and normalization of input."""

from __future__ import annotations

import math
import re

import pytest

from identity.domain.authorization import device_grants

ALPHABETS = {
    "randomAlpha": "BCDFGHJKLMNPQRSTVWXZ",
    "randomAlphaNumeric": "BCDFGHJKLMNPQRSTVWXZ23456789",
    "randomDigits": "0123456789",
}


@pytest.mark.requirement("contract-device-2")
@pytest.mark.parametrize("kind", ALPHABETS)
@pytest.mark.parametrize("length", [4, 6, 12])
def test_code_follows_its_generator(kind, length):
    codes = [device_grants.generate_user_code({"type": kind, "length": length}) for _ in range(300)]
    assert {len(code) for code in codes} == {length}
    assert set("".join(codes)) == set(ALPHABETS[kind])


@pytest.mark.requirement("oauth-3-3")
@pytest.mark.parametrize("length", [16, 128])
def test_random_bytes_are_encoded_case_insensitively(length):
    code = device_grants.generate_user_code({"type": "randomBytes", "length": length})
    assert re.fullmatch(r"[0-9A-F]+", code)
    assert len(code) == 2 * length
    assert device_grants.normalize_user_code(code.lower()) == code


@pytest.mark.requirement("attack-49")
def test_attack_49_default_code_has_more_than_20_bits():
    assert 6 * math.log2(len(ALPHABETS["randomAlphaNumeric"])) > 20


@pytest.mark.requirement("oauth-3-3")
@pytest.mark.parametrize(
    "typed", ["BCDF-GH23", "bcdfgh23", " b c d f g h 2 3 ", "BCDF\u2013GH23", "BCDF\u00a0GH23", "bcdf--gh23\n"]
)
def test_case_spaces_and_hyphens_are_ignored(typed):
    assert device_grants.normalize_user_code(typed) == "BCDFGH23"


@pytest.mark.parametrize("typed", ["", " - ", "BC*DF", "BCD\x00F", "\uff22\uff23\uff24\uff26", "ßßßß", "B" * 301])
def test_invalid_codes_normalize_to_nothing(typed):
    assert device_grants.normalize_user_code(typed) == ""
