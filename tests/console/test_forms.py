"""A help text that only repeats its label is not shown."""

from __future__ import annotations

import pytest

from identity.web.console.forms import help_text


@pytest.mark.parametrize(
    ("description", "label", "singular"),
    [
        ("The first name of the user.", "First name", "user"),
        ("The email address of the user.", "Email", "user"),
        ("The name of the object.", "Name", "API key"),
        ("The username of the user.", "User name", "user"),
        ("The time zone of the user.", "Timezone", "user"),
        ("The roles of the application.", "Roles", "application"),
        ("A description of the webhook.", "Description", "webhook"),
        ("Its port.", "Port", "tenant"),
        ("", "Port", "tenant"),
    ],
)
def test_repetition_is_left_out(description: str, label: str, singular: str) -> None:
    assert help_text(description, label, singular, "text") == ""


@pytest.mark.parametrize(
    ("description", "label", "singular"),
    [
        ("The unique name.", "Name", "form"),
        ("The name of the application, unique within its tenant.", "Name", "application"),
        ("The instant from which the user cannot log in.", "Expiry", "user"),
        ("Whether users may register themselves.", "Self-service registration", "application"),
        ("The list of addresses that the pages may be reached from.", "IP access list", "tenant"),
        ("Apple: the team id.", "Team id", "identity provider"),
        ("The key that signs access tokens.", "Access token key", "tenant"),
        ("The password. No response contains it.", "Password", "user"),
    ],
)
def test_text_that_says_more_is_kept(description: str, label: str, singular: str) -> None:
    assert help_text(description, label, singular, "text") == description


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("lines", "One per line."), ("pairs", "One “name: value” per line."), ("instant", "In UTC."), ("text", "")],
)
def test_hint_of_the_kind_stays(kind: str, expected: str) -> None:
    assert help_text("The scopes of the application.", "Scopes", "application", kind) == expected
