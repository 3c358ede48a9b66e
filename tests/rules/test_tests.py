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
