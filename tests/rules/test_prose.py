"""Docstrings of identity/ are written in plain technical English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
AVOIDED = {"told", "nobody", "whoever", "somebody", "beside", "hears", "heard"}
MAXIMUM_PER_THOUSAND = 1.0


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of modules, classes and functions, and the strings below constants and attributes, by place."""
    for file in sorted((ROOT / "identity").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            for text in (getattr(node, "body", None) or []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
                if (
                    isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                    and isinstance(text.value.value, str)
                ):
                    yield f"{file.relative_to(ROOT)}:{text.lineno}", text.value.value


def words(text: str) -> list[str]:
    """The words of a docstring in lower case; code in backquotes does not count."""
    return re.findall(r"[a-z]+(?:'[a-z]+)?", re.sub(r"`[^`]*`", " ", text).lower())


def test_docstrings_avoid_words_that_have_to_be_read_twice() -> None:
    texts = list(docstrings())
    count = sum(len(words(text)) for _, text in texts)
    found = [f"{place}: {word}" for place, text in texts for word in words(text) if word in AVOIDED]
    assert count > 10_000
    assert 1000 * len(found) / count < MAXIMUM_PER_THOUSAND, "\n".join(found)
