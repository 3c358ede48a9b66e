"""docs/coverage.md names only what exists, and docs/coverage-tables.md is what the code says now."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COVERAGE = (ROOT / "docs" / "coverage.md").read_text()

_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
_PATH = re.compile(r"`((?:identity|schemas|tests|docs|config|examples|bench|\.ci)/[^`:]*)(?:::\w+)?`")


@functools.cache
def functions(file: str) -> frozenset[str]:
    """The names of the functions in a file."""
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


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


def test_every_row_has_its_cells():
    """A row names what is asked for, where it is, and its test; what has none says so."""
    for block in re.split(r"\n\n+", COVERAGE):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        for line in lines:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            assert len(cells) == len(re.split(r"(?<!\\)\|", lines[0])) - 2, line
            assert all(cell.strip() for cell in cells), line


def test_the_tables_are_up_to_date(monkeypatch):
    spec = importlib.util.spec_from_file_location("coverage_tables", ROOT / "docs" / "coverage_tables.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "coverage-tables.md").read_text() == module.tables(), "run: make docs"
