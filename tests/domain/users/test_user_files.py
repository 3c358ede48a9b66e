"""Files of users: what is read, and what is refused with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from identity.domain.users import user_files
from identity.schemas import load

MEMBERS = load("api/imported-user.json")["properties"]["user"]["properties"]


def read(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(row.place, row.user) for row in user_files.read(text, MEMBERS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("email\r\na@example.com\r\n", [("Line 2", {"email": "a@example.com"})]),
        ("email;active;expiry\na@b.c;No;12", [("Line 2", {"email": "a@b.c", "active": False, "expiry": 12})]),
        ('username,data.a,data.b\nx,"1, 2",\n', [("Line 2", {"username": "x", "data": {"a": "1, 2"}})]),
        ('username,data\nx,"{""a"": 1}"', [("Line 2", {"username": "x", "data": {"a": 1}})]),
        ('username,fullName\nx,"two\nlines"\n\ny,z', [
            ("Line 3", {"username": "x", "fullName": "two\nlines"}), ("Line 5", {"username": "y", "fullName": "z"})]),
        ("username,preferredLanguages\nx,de en", [("Line 2", {"username": "x", "preferredLanguages": ["de", "en"]})]),
        ("username,active\nx,maybe", [("Line 2", {"username": "x", "active": "maybe"})]),
        ('[{"email": "a"}]', [("User 1", {"email": "a"})]),
        (' {"users": [{"email": "a"}, {}]}', [("User 1", {"email": "a"}), ("User 2", {})]),
        ("", []),
        ("email\n", []),
        ("{{}", "not valid JSON"),
        ("[1]", "User 1 is not an object"),
        ('{"people": []}', "no list of users"),
        ("[" * 100_000, "not valid JSON"),
        ("email,shoeSize\na,b", "no shoeSize"),
        ("email,twoFactor.methods\na,b", "Only values of data"),
        ("email,email\na,b", "twice"),
        ("email\na,b", "Line 2 has more values"),
        ('email\n"a', "Line 2 is not CSV"),
        ("email,data\na,[1]", "Line 2: data must be a JSON object"),
        ("email,data\na,{", "Line 2: data is not valid JSON"),
    ],
)  # fmt: skip
def test_file_is_read(text: str, expected: Any) -> None:
    if isinstance(expected, list):
        assert read(text) == expected
        return
    with pytest.raises(user_files.UnreadableFileError, match=expected):
        read(text)


def test_exported_row_can_be_imported() -> None:
    user = {"email": "a@example.com", "active": False, "data": {"a": 1}, "preferredLanguages": ["de", "en"]}
    cells = ["" if value is None else str(value) for value in user_files.cells(user)]
    found = dict(zip(user_files.COLUMNS, cells, strict=True))
    assert json.loads(found["data"]) == {"a": 1}
    assert found["active"] == "false"
    assert found["preferredLanguages"] == "de en"
    assert {*user_files.COLUMNS} <= {*MEMBERS}
