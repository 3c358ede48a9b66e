"""Files of users: what is read, and what is refused with its line."""

from __future__ import annotations

import io
import json
import tempfile
import tracemalloc
from typing import Any

import pytest

from identity.domain.users import user_files
from identity.schemas import load

MEMBERS = load("api/imported-user.json")["properties"]["user"]["properties"]


def read(text: str | bytes) -> list[tuple[str, dict[str, Any]]]:
    content = text.encode() if isinstance(text, str) else text
    return [(row.place, row.user) for row in user_files.read(io.BytesIO(content), MEMBERS)]


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
        ('\ufeff[{"email": "a", "data": {"b": 1.5}}]', [("User 1", {"email": "a", "data": {"b": 1.5}})]),
        ("\ufeffemail\na", [("Line 2", {"email": "a"})]),
        ("", []),
        ("email\n", []),
        ("{{}", "not a JSON list"),
        ('[{"email": "a"} {}]', "not a JSON list"),
        ('[{"email": "a"}] x', "not a JSON list"),
        ('{"users": [], "total": 0', "not a JSON list"),
        ('{"total": 1, "users": [{"email": "a"}], "next": {}} ', [("User 1", {"email": "a"})]),
        ('[{"email": "' + "a" * 1_200_000 + '"}]', "more than 1048576"),
        (b"[\xff]", "not a JSON list"),
        ("[1]", "User 1 is not an object"),
        ('{"people": []}', "not a JSON list"),
        ("[" * 100_000, "not a JSON list"),
        ("email,shoeSize\na,b", "no shoeSize"),
        ("email,twoFactor.methods\na,b", "Only values of data"),
        ("email,email\na,b", "twice"),
        ("email\na,b", "Line 2 has more values"),
        ('email\n"a', "Line 2 is not CSV"),
        ("email,data\na,[1]", "Line 2: data must be a JSON object"),
        ("email,data\na,{", "Line 2: data is not valid JSON"),
        ("email\n" + "a" * 1_100_000, "a line of more than"),
    ],
)  # fmt: skip
def test_file_is_read(text: str | bytes, expected: Any) -> None:
    if isinstance(expected, list):
        assert read(text) == expected
        return
    with pytest.raises(user_files.UnreadableFileError, match=expected):
        read(text)


@pytest.mark.parametrize(
    ("start", "row", "end"),
    [(b"username,fullName\n", b"x,%s\n", b"y,z"), (b"[", b'{"fullName": "%s"},', b"{}]")],
    ids=["CSV", "JSON"],
)
def test_memory_does_not_grow_with_the_file(start: bytes, row: bytes, end: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(start + row % (b"x" * 10_000) * 1_000 + end)
        tracemalloc.start()
        try:
            assert sum(1 for _ in user_files.read(file, MEMBERS)) == 1_001
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()


def test_exported_row_can_be_imported() -> None:
    user = {"email": "a@example.com", "active": False, "data": {"a": 1}, "preferredLanguages": ["de", "en"]}
    cells = ["" if value is None else str(value) for value in user_files.cells(user)]
    found = dict(zip(user_files.COLUMNS, cells, strict=True))
    assert json.loads(found["data"]) == {"a": 1}
    assert found["active"] == "false"
    assert found["preferredLanguages"] == "de en"
    assert {*user_files.COLUMNS} <= {*MEMBERS}
