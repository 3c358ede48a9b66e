"""Breached password lookups: prefixes and matches."""

from __future__ import annotations

import pytest

from identity.domain.login import breach_detection
from identity.domain.passwords import password_policy
from identity.domain.users import users
from tests.builders import make_user


def test_digest_matches_that_of_breach_collections() -> None:
    assert breach_detection.digest("password") == "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8"


def test_pairs_cover_login_ids_and_the_address_without_sub_address() -> None:
    user = users.with_unique_username(make_user(email="ada+shop@example.com", username="Ada"))
    assert list(breach_detection.credential_pairs(user, "Secret:1")) == [
        ("ExactMatch", "ada+shop@example.com:Secret:1"),
        ("ExactMatch", "ada:Secret:1"),
        ("SubAddressMatch", "ada@example.com:Secret:1"),
    ]


@pytest.mark.parametrize("login_id", ["ada@example.com", "+15555550123"])
def test_without_a_sub_address_there_is_one_pair(login_id: str) -> None:
    name = "email" if "@" in login_id else "phoneNumber"
    user = make_user(**{"email": None, name: login_id})
    user = {key: value for key, value in user.items() if value is not None}
    assert list(breach_detection.credential_pairs(user, "x")) == [("ExactMatch", f"{login_id}:x")]


def test_modes_report_the_worst_match() -> None:
    assert breach_detection.STATUSES_BY_MATCH_MODE == {
        "High": ("ExactMatch", "SubAddressMatch", "CommonPassword", "PasswordOnly"),
        "Medium": ("ExactMatch", "SubAddressMatch", "CommonPassword"),
        "Low": ("ExactMatch", "CommonPassword"),
    }
    assert set(breach_detection.ERROR_CODES) == set(breach_detection.STATUSES_BY_MATCH_MODE["High"])


def test_common_passwords_are_loaded_in_lower_case() -> None:
    words = password_policy.common_passwords()
    assert len(words) > 500
    assert {word for word in words if word != word.casefold()} == set()
    assert {"password", "123456", "qwerty", "letmein", "p@ssw0rd"} <= words
