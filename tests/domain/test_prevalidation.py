"""What native code accepts is valid for jsonschema, and valid documents are accepted without it."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

from identity.prevalidation import Prevalidator
from identity.schema_formats import FORMATS
from identity.schemas import FOLDER, Shape, load

ANNOTATIONS = {"$schema", "default", "description", "examples", "title"}
NAMES = sorted(f"{file.parent.name}/{file.name}" for file in FOLDER.glob("*/*.json"))
TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "x" * 40,
        "x" * 300,
        "é" * 191,
        "\U0001f600",
        "\ud800",
        "a\n",
        "\na",
        "a b",
        "a\x00b",
        "\x1f",
        "\x85",
    ),
    *(
        "\ufeff",
        "\u2028",
        "ß",
        "\u017f",
        "K",
        "٣",
        "3.1.0",
        "3.1.٣",
        "3.1.0\n",
        "ABCD",
        "ABCD\n",
        "\uff21BCD",
        "[Blank]",
        "AbC_-=",
        "~",
    ),
    *(
        "true",
        "0",
        "2",
        "2024-02-29",
        "2023-02-29",
        "20240229",
        "2024-W01-1",
        "\uff12\uff10\uff12\uff14-02-29",
        "de",
        "de_DE",
        "de-de\n",
        "d",
    ),
    *("Europe/Berlin", "europe/berlin", "a@b", "a@b\n", "@b", "a@b@c", "A@B.example", "example.com", "EXAMPLE.com"),
    *(
        "9f3b6d4e-2f6c-4a0b-8a3f-0b1a5c9d7e11",
        "9F3B6D4E-2F6C-4A0B-8A3F-0B1A5C9D7E11",
        "9f3b6d4e2f6c4a0b8a3f0b1a5c9d7e11",
        "1-1-1-1-1",
    ),
)
NUMBERS = (
    0,
    1,
    -1,
    1.5,
    5,
    100,
    65536,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
    1e300,
    -1e300,
    math.inf,
)
OTHERS = (
    None,
    True,
    False,
    [],
    [1],
    ["a"],
    ["a", "a"],
    [None],
    [[]],
    {},
    {"a": 1},
    {"a": {"b": None}},
    {"é": "x"},
    ["x"] * 3000,
)
VALUES = (*TEXTS, *NUMBERS, *OTHERS)


def subschemas(node: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas inside it."""
    if isinstance(node, dict):
        yield node
        for inner in (
            *node.get("properties", {}).values(),
            *(node.get(key) for key in ("items", "additionalProperties")),
        ):
            yield from subschemas(inner)


def plain(node: Any) -> Any:
    """Return a schema without annotations, so that equal ones are tested once."""
    if isinstance(node, dict):
        return {
            name: plain(value) for name, value in node.items() if name not in ANNOTATIONS or isinstance(value, dict)
        }
    return [plain(item) for item in node] if isinstance(node, list) else node


@functools.cache
def leaves() -> list[dict[str, Any]]:
    """The different schemas of values that are not objects."""
    found = itertools.chain.from_iterable(subschemas(load(name)) for name in NAMES)
    texts = {json.dumps(plain(node), sort_keys=True) for node in found if "properties" not in node}
    return [json.loads(text) for text in sorted(texts)]


@functools.cache
def leaf_example(text: str) -> Any:
    """Return a valid value of a leaf, whose schema is given as JSON, or None."""
    shape = Shape(node := json.loads(text))
    candidates = (*node.get("enum", ()), *VALUES)
    return next((value for value in candidates if value is not None and not list(shape.errors(value))), None)


def example(node: dict[str, Any]) -> Any:
    """Return a valid value of a schema if simple values are, or else None."""
    if node.get("type") == "object":
        members = {name: example(member) for name, member in node.get("properties", {}).items()}
        return {name: value for name, value in members.items() if value is not None}
    if node.get("type") == "array":
        item = example(node.get("items", {}))
        return [] if item is None else [item]
    return leaf_example(json.dumps(plain(node), sort_keys=True))


def test_every_accepted_value_is_valid() -> None:
    # Whole numbers are integers already when documents are validated, hence no -0.0 or 5.0 among the values.
    accepted = 0
    for node in leaves():
        shape, prevalidator = Shape(node), Prevalidator(node, FORMATS)
        for value in VALUES:
            if prevalidator.accepts(value):
                accepted += 1
                assert list(shape.errors(value)) == [], (node, value)
    assert accepted > len(leaves())


def test_valid_documents_are_accepted_and_others_are_not() -> None:
    valid = []
    for name in NAMES:
        shape = Shape(load(name))
        tidy, errors = shape.examine(example(shape.schema))
        is_accepted = Prevalidator(shape.schema, FORMATS).accepts(tidy)
        assert is_accepted is (not errors) or "patternProperties" in shape.schema, name
        valid += [name] if is_accepted else []
    assert len(valid) > len(NAMES) / 2
