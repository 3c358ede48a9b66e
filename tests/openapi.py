"""The OpenAPI document as a judge: whether an answer of the service is one that the document promises."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import prometheus_client

from identity.web import application
from identity.web.base_handlers import Route
from identity.web.openapi import document
from identity.web.openapi.operations import path_of as path_of_route

Document = dict[str, Any]

REFUSALS = {400, 401, 403, 404, 405, 413, 501, 503}
"""What a method that is no operation may be answered with."""


@functools.cache
def routes() -> list[Route]:
    return application.routes(prometheus_client.CollectorRegistry())


@functools.cache
def served() -> Document:
    """The document that the service serves."""
    return document.build(routes())


def operations() -> Iterator[tuple[str, str, Document]]:
    """(path, method, operation) of the whole document."""
    for path, methods in served()["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def check(answer: httpx.Response) -> None:
    """Assert that the document knows this answer: its status, its media type and its body."""
    request = answer.request
    path = path_of(request.url.raw_path.partition(b"?")[0].decode())
    if path is None or request.method == "OPTIONS":  # what a browser asks before a request is no operation
        return
    problem = problem_of(path, request.method.lower(), answer)
    assert problem is None, f"{request.method} {path} {answer.status_code}: {problem}"


def problem_of(path: str, method: str, answer: httpx.Response) -> str | None:
    """What is wrong with an answer, if anything is."""
    is_head = method == "head"
    operation = served()["paths"][path].get("get" if is_head else method)
    if operation is None:
        return None if answer.status_code in REFUSALS else "no such operation is described"
    promised = operation["responses"].get(str(answer.status_code))
    if promised is None:
        return None if answer.status_code in {405, 501} else "no such status is described"
    content = promised.get("content", {})
    if is_head:
        return "a body was sent" if answer.content else None
    if not answer.content:
        # Who shows no key where one may be shown can be answered with less.
        has_key = {} not in operation.get("security", []) or "Authorization" in answer.request.headers
        is_owed = content and has_key and not promised.get("x-may-be-empty")
        return "a body was promised" if is_owed and answer.status_code < 400 else None
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if kind not in content:
        return f"the media type {kind} is not promised"
    if kind != "application/json":
        return None
    validator = _validator(path, "get" if is_head else method, str(answer.status_code))
    errors = [f"{error.instance_path}: {error.message}"[:500] for error in validator.iter_errors(answer.json())]
    return "; ".join(errors[:5]) or None


def path_of(path: str) -> str | None:
    """The path of the document that a request's path is one of."""
    candidates = _patterns().get(path.rstrip("/").count("/"), ())
    return next((template for template, pattern in candidates if pattern.fullmatch(path)), None)


@functools.cache
def _patterns() -> dict[int, list[tuple[str, re.Pattern[str]]]]:
    """The paths by their number of segments; of each number those without ids first, because they win."""
    found: dict[int, list[tuple[str, re.Pattern[str]]]] = {}
    for path in sorted(served()["paths"], key=lambda path: (path.count("{"), path)):
        pattern = re.compile(re.sub(r"\\?\{\w+\\?\}", "[^/]+", re.escape(path)) + "/?")
        found.setdefault(path.rstrip("/").count("/"), []).append((path, pattern))
    return found


@functools.cache
def _validator(path: str, method: str, status: str) -> jsonschema_rs.Draft202012Validator:
    schema = served()["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    wanted: set[str] = set()
    _collect(schema, wanted)
    components = {name: served()["components"]["schemas"][name] for name in wanted}
    whole = {**schema, "components": {"schemas": components}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _collect(node: Any, found: set[str]) -> None:
    """The components that a schema leads to."""
    if isinstance(node, list):
        for item in node:
            _collect(item, found)
    elif isinstance(node, dict):
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name and name not in found:
            found.add(name)
            _collect(served()["components"]["schemas"][name], found)
        for child in node.values():
            _collect(child, found)


def document_path(route: Route) -> str:
    """The path of the document that a route is."""
    handler = route.handler.__new__(route.handler)
    vars(handler).update(route.arguments)
    return path_of_route(handler, route)
