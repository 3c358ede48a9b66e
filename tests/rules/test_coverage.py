"""docs/coverage.md names only what exists, and docs/coverage-tables.md is what the code says now."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from identity import errors
from identity.events.catalogue import EVENTS

ROOT = Path(__file__).resolve().parent.parent.parent
COVERAGE = (ROOT / "docs" / "coverage.md").read_text()

_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
_PATH = re.compile(r"`((?:identity|schemas|tests|docs|config|examples|bench|\.ci)/[^`:]*)(?:::\w+)?`")


@functools.cache
def functions(file: str) -> frozenset[str]:
    """The names of the functions in a file."""
    return frozenset(re.findall(r"^(?:async )?def (\w+)\(", (ROOT / file).read_text(), re.MULTILINE))


def test_every_test_that_is_named_exists():
    named = set(_TEST.findall(COVERAGE))
    assert len(named) > 200
    missing = [f"{file}::{name}" for file, name in sorted(named) if not _has(file, name)]
    assert missing == []


def _has(file: str, name: str) -> bool:
    return (ROOT / file).exists() and name.startswith("test_") and name in functions(file)


def test_every_path_that_is_named_exists():
    named = set(_PATH.findall(COVERAGE))
    assert len(named) > 50
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("number", range(1, 72))
def test_every_attack_has_a_row(number):
    assert f"\n| {number}. " in COVERAGE


def test_every_event_has_a_row_with_its_test():
    section = COVERAGE.partition("### Users: events\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("| ")]
    told = {kind.strip() for kinds, _, tests in rows if "::test_" in tests for kind in kinds.split(",")}
    assert EVENTS.keys() - told == set()


def test_every_row_has_its_cells():
    """A row names what is asked for, where it is, and its test; what has none says so."""
    for block in re.split(r"\n\n+", COVERAGE):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        for line in lines:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            assert len(cells) == len(re.split(r"(?<!\\)\|", lines[0])) - 2, line
            assert all(cell.strip() for cell in cells), line


@pytest.fixture(scope="module")
def tables():
    """The module that writes coverage-tables.md, which reads all the code once."""
    spec = importlib.util.spec_from_file_location("coverage_tables", ROOT / "docs" / "coverage_tables.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


def test_the_tables_are_up_to_date(tables):
    assert (ROOT / "docs" / "coverage-tables.md").read_text() == tables.tables(), "run: make docs"


def _rows_of_errors() -> dict[str, dict[str, list[str]]]:
    """The two tables of the request that gives each: error and error_reason -> value -> the other cells."""
    section = COVERAGE.partition("### OAuth errors: the request that gives each\n")[2].partition("\n### ")[0]
    found: dict[str, dict[str, list[str]]] = {}
    for block in section.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines:
            cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
            values = [row[0].strip(" `|") for row in cells[2:]]
            assert len(values) == len(set(values))
            found[cells[0][0]] = dict(zip(values, (row[1:] for row in cells[2:]), strict=True))
    return found


def test_every_error_and_reason_has_its_request(tables):
    rows = _rows_of_errors()
    ours = {one.error for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.OAuth2Error)}
    assert set(rows["error"]) == {*tables.ERRORS, *ours}
    assert set(rows["error_reason"]) == {*tables.REASONS, *tables.LATER_REASONS}


def test_the_test_of_an_error_asserts_it_over_http(tables):
    geoip = {place.name.strip("`"): place for place in tables.test_index()}
    for value, cells in [pair for table in _rows_of_errors().values() for pair in table.items()]:
        named = re.findall(r"`(tests/[^`]+)`", cells[-1])
        if not named:
            assert cells[-1] == "—" and cells[-2].startswith("none"), value
        assert all(test.split("/")[1] in {"api", "federation", "hosted", "oauth2"} for test in named), value
        assert [test for test in named if not geoip[test].holds(value)] == [], value


def test_what_no_request_gives_is_raised_nowhere(tables):
    code = tables.code_index()
    rows = _rows_of_errors()
    # What is an error by its name is raised as one.
    never = [value for value, cells in rows["error_reason"].items() if cells[-1] == "—" and value not in rows["error"]]
    assert len(never) > 2
    assert [value for value in never if any(place.holds(value) for place in code)] == []
