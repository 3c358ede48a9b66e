"""Ids and codes are made as the tenant's generators say."""

from __future__ import annotations

import re

import pytest

from identity.domain.objects import generated_ids


@pytest.mark.parametrize(
    ("kind", "length", "pattern"),
    [
        ("randomDigits", 6, r"[0-9]{6}"),
        ("randomAlpha", 8, r"[BCDFGHJKLMNPQRSTVWXZ]{8}"),
        ("randomAlphaNumeric", 12, r"[BCDFGHJKLMNPQRSTVWXZ2-9]{12}"),
        ("randomBytes", 32, r"[A-Za-z0-9_-]{43}"),
    ],
)
def test_id_has_the_characters_and_the_length_of_its_generator(kind, length, pattern):
    made = {generated_ids.generate({"type": kind, "length": length}) for _ in range(20)}
    assert all(re.fullmatch(pattern, one) for one in made)
    assert len(made) > 1
