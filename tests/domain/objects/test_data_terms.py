"""Terms of custom data."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.objects import data_terms


def test_every_value_has_a_term_with_its_path() -> None:
    data = {"Company": "PiedPiper", "home": {"town": ["Ulm", "Köln"]}, "age": 7, "is": {"new": True}, "none": None}
    assert data_terms.of(data) == ["Company=piedpiper", "age=7", "home.town=köln", "home.town=ulm", "is.new=true"]


@pytest.mark.parametrize(("one", "other"), [(7, 7.0), (7, "7"), ("7.0", 7), (True, "TRUE"), (2.5, "2.50"), ("a", "A")])
def test_equal_values_share_a_term(one: Any, other: Any) -> None:
    assert data_terms.of_value("x", one) & data_terms.of_value("x", other)


def test_long_values_are_cut() -> None:
    (term,) = data_terms.of({"x": "a" * 10_000})
    assert term == data_terms.start("x", "a" * 10_000)
    assert len(term) == 100


def test_data_with_very_many_values_are_not_listed() -> None:
    assert len(data_terms.of({"x": list(range(64))})) == 64
    assert data_terms.of({"x": list(range(65))}) == [data_terms.UNLISTED]


def test_unusual_names_and_values_have_terms() -> None:
    data: dict[str, Any] = {"$where": "1", "a.b": {"": "\ud800"}, "n": 10**30, "e": 1e300}
    assert len(data_terms.of(data)) >= 4
