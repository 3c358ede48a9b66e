"""The indefinite article of generated messages."""

from __future__ import annotations

import pytest

from identity.errors import with_article
from identity.resources import RESOURCES


@pytest.mark.requirement("audit-c1-grammar")
@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("Application", "An Application"),
        ("API key", "An API key"),
        ("Entity type", "An Entity type"),
        ("Identity Provider", "An Identity Provider"),
        ("IP access control list", "An IP access control list"),
        ("User Action", "A User Action"),
        ("Tenant", "A Tenant"),
        ("role", "A role"),
        ("unit", "A unit"),
        ("unverified user", "An unverified user"),
    ],
)
def test_article(noun: str, expected: str) -> None:
    assert with_article(noun) == expected


@pytest.mark.requirement("audit-c1-grammar")
def test_labels_of_resources_are_nouns() -> None:
    assert all(resource.label[:1].isupper() for resource in RESOURCES)
