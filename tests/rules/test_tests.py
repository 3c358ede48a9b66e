"""The tests themselves: each process that runs a part of them must collect the same ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

RANDOM = {"new_id", "new_secret", "new_text", "uuid4", "token_hex", "token_urlsafe", "random"}


def is_random(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) in RANDOM


def random_names(module: ast.Module) -> set[str]:
    """The constants of a module that are made of something random."""
    return {
        name.id
        for statement in module.body
        if isinstance(statement, ast.Assign) and any(map(is_random, ast.walk(statement.value)))
        for target in statement.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }


def random_parameters(module: ast.Module) -> Iterator[int]:
    """The lines where a decorator holds something random."""
    names = random_names(module)
    for function in module.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in function.decorator_list:
                for node in ast.walk(decorator):
                    if is_random(node) or (isinstance(node, ast.Name) and node.id in names):
                        yield node.lineno


def test_no_parameter_is_random() -> None:
    """It would give a test another name in each process, and none of them would start."""
    found = {
        f"{file.relative_to(TESTS)}:{line}"
        for file in TESTS.rglob("test_*.py")
        for line in random_parameters(ast.parse(file.read_text()))
    }
    assert found == set()


def reaches(module: ast.Module) -> int:
    """How often a module reads the attribute `services`."""
    return sum(isinstance(node, ast.Attribute) and node.attr == "services" for node in ast.walk(module))


def test_stores_are_reached_through_doors() -> None:
    """A test that knows where the services keep a store breaks when that place changes: see tests/doors.py."""
    found = {file.name: reaches(ast.parse(file.read_text())) for file in TESTS.rglob("*.py")}
    assert sum(found.values()) < 60


def test_patched_modules_are_imported() -> None:
    """A path in a string is not checked by anything, and hides what a test depends on."""
    found = {
        f"{file.relative_to(TESTS)}:{node.lineno}"
        for file in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr"
        if isinstance(node.args[0], ast.Constant) and str(node.args[0].value).startswith("identity.")
    }
    assert found == set()
