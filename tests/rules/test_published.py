"""Compare our OpenAPI document with the published one: docs/published-differences.md explains every difference.

The facts of the published document are in published-facts.json, made by docs/published_facts.py. A difference reads

    path /api/a, method GET /api/a          published, not served here
    extra path /api/a, extra method ...     served here, not published
    query GET /api/a: name                  a query parameter that is published and not read here
    request Object.member                   a member that is published and not read here
    answer Object.member                    a member that is published and not answered here
    untyped request Object                  an object with no member named here, stored or ignored whole
    extra request ..., extra answer ...     the other way round

and a row of the table explains every difference that its pattern fits.
"""

from __future__ import annotations

import collections
import fnmatch
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from identity.operations import status
from tests import openapi

ROOT = Path(__file__).resolve().parent.parent.parent
FACTS = json.loads((Path(__file__).parent / "published-facts.json").read_text())
RELEASE = FACTS["release"]
Visits = dict[tuple[str, str], list[frozenset[str]]]
METHODS = ("delete", "get", "patch", "post", "put")

Document = dict[str, Any]


def bare(path: str) -> str:
    """A path without the names of its ids."""
    return re.sub(r"\{\w+\}", "{}", path)


@functools.cache
def ours() -> dict[str, Document]:
    """Our operations by path, without the names of ids; the tenant in the path of a protocol endpoint is a variant."""
    paths = openapi.served()["paths"].items()
    return {bare(path): methods for path, methods in paths if not path.startswith("/{")}


@functools.cache
def published() -> dict[str, Document]:
    found: dict[str, Document] = {}
    for path, methods in FACTS["paths"].items():
        found.setdefault(bare(path), {}).update(methods)
    return found


@functools.cache
def differences() -> frozenset[str]:
    return frozenset([*of_paths(), *of_operations()])


def of_paths() -> Iterator[str]:
    for path in sorted(published().keys() | ours().keys()):
        if path not in ours():
            yield f"path {path}"
        elif path not in published():
            yield f"extra path {path}"
        else:
            for method in METHODS:
                if method in published()[path] and method not in ours()[path]:
                    yield f"method {method.upper()} {path}"
                elif method in ours()[path] and method not in published()[path]:
                    yield f"extra method {method.upper()} {path}"


def of_operations() -> Iterator[str]:
    """A published object counts as read, or answered, whole when all the operations that use it make it whole."""
    visits: Visits = collections.defaultdict(list)
    for path, methods in published().items():
        for method, theirs in methods.items():
            mine = ours().get(path, {}).get(method)
            if mine is not None:
                read = {parameter.get("name") for parameter in mine.get("parameters", ())}
                yield from (f"query {method.upper()} {path}: {name}" for name in theirs["query"] if name not in read)
                visit(visits, "request", theirs["takes"], body_of(mine.get("requestBody", {})), frozenset())
                visit(visits, "answer", theirs["answers"], body_of(success_of(mine)), frozenset())
    typed = {(use, name) for (use, name), found in visits.items() if any(found)}
    yield from (f"untyped {use} {name}" for use, name in visits.keys() - typed if use == "request")
    for use, name in typed:
        found = visits[use, name]
        members, every = FACTS["objects"][name].keys(), frozenset().union(*found)
        yield from (f"{use} {name}.{member}" for member in members - every)
        yield from (f"extra {use} {name}.{member}" for member in every - members)


def success_of(operation: Document) -> Document:
    """The first answer of an operation that is no refusal."""
    return next((answer for status, answer in operation["responses"].items() if status < "300"), {})


def body_of(carrier: Document) -> Document | None:
    """The schema of a JSON body, or of a form."""
    content = carrier.get("content", {})
    kind = next((kind for kind in ("application/json", "application/x-www-form-urlencoded") if kind in content), None)
    return None if kind is None else content[kind]["schema"]


def visit(visits: Visits, use: str, name: Any, schema: Document | None, above: frozenset[str]) -> None:
    """Note the members that our schema has where the published document has an object, at whatever depth."""
    if name not in FACTS["objects"] or schema is None or name in above:
        return
    theirs, members = FACTS["objects"][name], members_of(schema) or {}
    if members or theirs:
        visits[use, name].append(frozenset(members))
    for member in theirs.keys() & members.keys():
        kind, inner = theirs[member], members[member]
        while isinstance(kind, list | dict):
            is_list = isinstance(kind, list)
            kind = kind[0] if is_list else kind["*"]
            inner = inside(inner, "items" if is_list else "additionalProperties")
        visit(visits, use, kind, inner, above | {name})


def members_of(schema: Document) -> dict[str, Document] | None:
    """The members of an object, those of its variants too; None for one that may hold anything."""
    schema = resolved(schema)
    members: dict[str, list[Document]] = collections.defaultdict(list)
    for name, member in schema.get("properties", {}).items():
        members[name].append(member)
    variants = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for variant in [*variants, *(schema[key] for key in ("then", "else") if key in schema)]:
        for name, member in (members_of(variant) or {}).items():
            members[name].append(member)
    return {name: found[0] if len(found) == 1 else {"anyOf": found} for name, found in members.items()} or None


def inside(schema: Document, key: str) -> Document:
    """The schema of what a list or a map holds."""
    schema = resolved(schema)
    every = [resolved(variant).get(key) for variant in (schema, *schema.get("anyOf", ()))]
    found = [inner for inner in every if isinstance(inner, dict)]
    return found[0] if len(found) == 1 else {"anyOf": found}


def resolved(schema: Document) -> Document:
    while "$ref" in schema:
        schema = openapi.served()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def rows() -> list[str]:
    """The patterns of the table of differences."""
    table = (ROOT / "docs" / "published-differences.md").read_text()
    return re.findall(
        r"^\| `((?:extra )?(?:path|method|query|request|answer|untyped request) [^`]+)` \|", table, re.MULTILINE
    )


def fits(difference: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(difference, pattern)


@pytest.mark.requirement("openapi-6")
def test_every_difference_is_explained() -> None:
    unexplained = sorted(found for found in differences() if not any(fits(found, row) for row in rows()))
    assert unexplained == []


@pytest.mark.requirement("openapi-6")
def test_every_explanation_is_of_a_difference() -> None:
    stale = [row for row in rows() if not any(fits(found, row) for found in differences())]
    assert stale == []
    assert len(set(rows())) == len(rows())


@pytest.mark.requirement("openapi-6")
def test_service_and_documents_name_the_release_that_is_compared() -> None:
    assert RELEASE == status.API_VERSION
    short = RELEASE.removesuffix(".0")
    for name in ("README.md", "docs/published-differences.md", "docs/compatibility.md"):
        named = set(re.findall(r"release (1\.\d+)", (ROOT / name).read_text()))
        assert short in named, name


@pytest.mark.requirement("openapi-6")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda facts: facts["paths"].update({"/api/nowhere": {"get": {}}}), "path /api/nowhere"),
        (lambda facts: facts["paths"]["/api/webhook"].pop("get"), "extra method GET /api/webhook"),
        (lambda facts: facts["objects"]["Webhook"].update({"new": "string"}), "answer Webhook.new"),
        (lambda facts: facts["objects"].update({"HTTPHeaders": {"new": "string"}}), "untyped request HTTPHeaders"),
        (lambda facts: facts["objects"]["Webhook"].pop("url"), "extra request Webhook.url"),
        (lambda facts: facts["objects"]["WebhookSignatureConfiguration"].pop("enabled"),
         "extra answer WebhookSignatureConfiguration.enabled"),
    ],
)  # fmt: skip
def test_comparison_finds_what_differs(monkeypatch, change, expected) -> None:
    facts = json.loads(json.dumps(FACTS))
    change(facts)
    monkeypatch.setitem(globals(), "FACTS", facts)
    published.cache_clear()
    try:
        assert expected in {*of_paths(), *of_operations()}
    finally:
        published.cache_clear()
