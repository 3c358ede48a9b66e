"""Writes build/requirements.md, the requirements with the tests of each: `make docs`.

The requirements are listed in docs/requirements.yaml. Tests name the ones that they verify in a
`@pytest.mark.requirement(...)` decorator, which is read from the source, so that nothing has to be imported.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import prometheus_client
import yaml

from identity.permissions import endpoint_of
from identity.web import application

ROOT = Path(__file__).resolve().parent.parent
MARK = "pytest.mark.requirement"

Function = ast.FunctionDef | ast.AsyncFunctionDef

_HEAD = """\
# Requirements

Generated from `docs/requirements.yaml`, the marks of the tests and the routes by `make docs`; do not edit.
"""


@dataclasses.dataclass(frozen=True)
class Requirement:
    """One row of a specification; `reason` says why it has no test."""

    id: str
    text: str
    reason: str | None = None


@dataclasses.dataclass(frozen=True)
class Section:
    """Requirements that belong together."""

    title: str
    description: str | None
    requirements: tuple[Requirement, ...]


def sections() -> list[Section]:
    """Read docs/requirements.yaml."""
    # The parser of libyaml takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read = yaml.load((ROOT / "docs" / "requirements.yaml").read_text(), Loader=loader)  # noqa: S506 (safe)
    return [
        Section(
            section["title"],
            section.get("description"),
            tuple(Requirement(**requirement) for requirement in section["requirements"]),
        )
        for section in read
    ]


def marked_tests() -> dict[str, list[str]]:
    """Map the id of each requirement to the tests that are marked with it, as `file::function`."""
    tests: dict[str, list[str]] = collections.defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for function in functions(file):
            for requirement in marks(function):
                tests[requirement].append(f"{file.relative_to(ROOT)}::{function.name}")
    return dict(tests)


@functools.cache
def module(file: Path) -> ast.Module:
    """Return the syntax tree of a file; parsing all tests takes seconds."""
    return ast.parse(file.read_text())


def functions(file: Path) -> Iterator[Function]:
    """Yield the test functions of a file."""
    for node in module(file).body:
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


def marks(function: Function) -> list[str]:
    """Return the ids that the requirement marks of a test name."""
    return [
        str(ast.literal_eval(argument))
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK
        for argument in decorator.args
    ]


def page() -> str:
    """Return the whole page as Markdown."""
    tests = marked_tests()
    parts = [_HEAD]
    for section in sections():
        parts.append(f"## {section.title}\n")
        if section.description:
            parts.append(section.description + "\n")
        parts.append(_table(("Id", "Requirement", "Tests"), _rows(section, tests)))
    parts += ["## Routes\n", _table(("Path", "Methods", "Access", "Permission"), _routes())]
    return "\n".join(parts)


def _rows(section: Section, tests: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    for requirement in section.requirements:
        named = "<br>".join(f"`{test}`" for test in tests.get(requirement.id, ()))
        reason = f"No test. {requirement.reason}" if requirement.reason else ""
        yield f"`{requirement.id}`", requirement.text, named or reason


def _routes() -> Iterator[tuple[str, ...]]:
    for route in application.routes(prometheus_client.CollectorRegistry()):
        by_access: dict[str, list[str]] = collections.defaultdict(list)
        for method in ("get", "post", "put", "patch", "delete"):
            endpoint = getattr(getattr(route.handler, method), "endpoint", None)
            if endpoint is not None:
                by_access[endpoint.access.value].append(method.upper())
        for access, methods in by_access.items():
            permission = f"`{endpoint_of(route.template)}`" if access in {"api-key", "optional-key"} else ""
            yield f"`{route.template}`", " ".join(methods), access, permission


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in escaped), ""])


if __name__ == "__main__":
    print(page(), end="")
