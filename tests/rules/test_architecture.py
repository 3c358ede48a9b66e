"""docs/architecture.md and CONTRIBUTING.md match the code: packages in their order, files that exist, no circles."""

from __future__ import annotations

import ast
import dataclasses
import graphlib
import re
import tomllib
import typing
from pathlib import Path

import pytest

from identity import services

ROOT = Path(__file__).resolve().parent.parent.parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = {
    contract["containers"][0]: contract["layers"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers"
}


def ordered(container: str) -> list[str]:
    """The packages of a contract, from top to bottom."""
    return [name for layer in CONTRACTS[container] for name in layer.split(" | ")]


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of identity/ that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules.keys() or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules.keys()
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {module_name(file): file for file in (ROOT / "identity").rglob("*.py")}
    graph = {name: imports(file, modules) - {name} for name, file in modules.items()}
    assert sum(map(len, graph.values())) > 1000
    graphlib.TopologicalSorter(graph).prepare()


def test_features_of_operations_are_listed_in_their_order() -> None:
    table = ARCHITECTURE.partition("**operations**")[2].partition("**domain**")[0]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    assert re.findall(r"\w+", " ".join(rows)) == ordered("identity.operations")


def test_features_of_domain_are_listed_in_their_order() -> None:
    listed = ARCHITECTURE.partition("**domain**")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", listed) == ordered("identity.domain")


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_that_are_named_exist(document: str) -> None:
    text = (ROOT / document).read_text().replace("build/requirements.md", "")
    named = set(re.findall(r"(?<![\w./*-])((?:[\w-]+/)+[\w.-]+\.(?:py|json|yaml|md)|\w+\.py)\b", text))
    assert len(named) > 5
    folders = [ROOT, ROOT / "identity", ROOT / document.rpartition("/")[0]]
    assert [name for name in sorted(named) if not any((folder / name).exists() for folder in folders)] == []


@pytest.mark.parametrize("kind", [services.Services, *typing.get_type_hints(services.Services).values()])
def test_services_and_its_facets_have_at_most_twelve_members(kind: type) -> None:
    if kind.__module__ == services.__name__:
        assert len(dataclasses.fields(kind)) <= 12  # type: ignore[arg-type]
