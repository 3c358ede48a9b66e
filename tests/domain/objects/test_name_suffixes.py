"""Indexed suffixes of names, and the longest indexed part of a search term."""

from __future__ import annotations

import re

import pytest

from identity.domain.objects import name_suffixes, search
from identity.domain.objects.resource_definition import SearchRules

RULES = SearchRules({"name": "text"}, {"name": "name"})


def test_suffixes_are_unique_and_truncated() -> None:
    assert name_suffixes.of("abab") == ["ab", "abab", "b", "bab"]
    assert name_suffixes.of("") == []
    long = "x" * 5 + "y" * name_suffixes.LENGTH
    assert max(map(len, name_suffixes.of(long))) == name_suffixes.LENGTH
    assert "x" + "y" * (name_suffixes.LENGTH - 1) in name_suffixes.of(long)


@pytest.mark.requirement("core-12-3")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("My Application", "appl"),
        ("My Application", "MY*TION"),
        ("My Application", "*"),
        ("100 % (a.b) [c]", "(a.b)"),
        ("5 * 3", "5 ** 3"),
        ("Straße", "STRASSE".casefold()[:4]),
        ("ΌΔΟΣ", "όδος"),
        ("x" * 191, "x" * 191),
        ("a long name that goes on and on and on", "that goes on and on and on"),
    ],
)
def test_name_containing_a_text_has_a_matching_suffix(name: str, text: str) -> None:
    (criterion,) = search.read(RULES, {"name": text}, "").criteria
    pattern = name_suffixes.pattern_of(criterion.piece)
    assert any(re.search(pattern, ending) for ending in name_suffixes.of(name))


@pytest.mark.parametrize(
    ("text", "piece"),
    [("a*bcd*ef", "bcd"), ("*", ""), ("x**y*z", "x*y"), (" Foo ", "foo"), ("***a", "*"), ("*ab", "ab")],
)
def test_longest_part_of_the_pattern_is_looked_up(text: str, piece: str) -> None:
    (criterion,) = search.read(RULES, {"name": text}, "").criteria
    assert criterion.piece == piece
