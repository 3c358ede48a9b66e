"""Checks responses of the service against its OpenAPI document."""

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
"""Possible statuses of methods that are not operations of the document."""


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
    """Assert that the document describes this response: status, media type and body."""
    request = answer.request
    path = path_of(request.url.raw_path.partition(b"?")[0].decode())
    if path is None or request.method == "OPTIONS":  # CORS preflight requests are not operations
        return
    problem = problem_of(path, request.method.lower(), answer)
    assert problem is None, f"{request.method} {path} {answer.status_code}: {problem}"


def problem_of(path: str, method: str, answer: httpx.Response) -> str | None:
    """Return the difference between a response and the document, or None."""
    is_head = method == "head"
    operation = served()["paths"][path].get("get" if is_head else method)
    if operation is None:
        return None if answer.status_code in REFUSALS else "no such operation is described"
    described = operation["responses"].get(str(answer.status_code))
    if described is None:
        return None if answer.status_code in {405, 501} else "no such status is described"
    content = described.get("content", {})
    if is_head:
        return "a body was sent" if answer.content else None
    if not answer.content:
        # Without an API key, where it is optional, the response may have fewer members.
        has_key = {} not in operation.get("security", []) or "Authorization" in answer.request.headers
        is_required = content and has_key and not described.get("x-may-be-empty")
        return "a body is missing" if is_required and answer.status_code < 400 else None
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if kind not in content:
        return f"the media type {kind} is not described"
    if not kind.endswith("json"):
        return None
    validator = _validator(path, "get" if is_head else method, str(answer.status_code), kind)
    errors = [f"{error.instance_path}: {error.message}"[:500] for error in validator.iter_errors(answer.json())]
    return "; ".join(errors[:5]) or None


def path_of(path: str) -> str | None:
    """Return the path template of the document for a request path."""
    candidates = _patterns().get(path.rstrip("/").count("/"), ())
    return next((template for template, pattern in candidates if pattern.fullmatch(path)), None)


@functools.cache
def _patterns() -> dict[int, list[tuple[str, re.Pattern[str]]]]:
    """The path templates by number of segments; those without parameters first, because they take precedence."""
    found: dict[int, list[tuple[str, re.Pattern[str]]]] = {}
    for path in sorted(served()["paths"], key=lambda path: (path.count("{"), path)):
        pattern = re.compile(re.sub(r"\\?\{\w+\\?\}", "[^/]+", re.escape(path)) + "/?")
        found.setdefault(path.rstrip("/").count("/"), []).append((path, pattern))
    return found


@functools.cache
def _validator(path: str, method: str, status: str, kind: str) -> jsonschema_rs.Draft202012Validator:
    schema = served()["paths"][path][method]["responses"][status]["content"][kind]["schema"]
    wanted: set[str] = set()
    _collect(schema, wanted)
    components = {name: served()["components"]["schemas"][name] for name in wanted}
    whole = {**schema, "components": {"schemas": components}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _collect(node: Any, found: set[str]) -> None:
    """Collect the components that a schema refers to."""
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
    """Return the path of a route in the document."""
    handler = route.handler.__new__(route.handler)
    vars(handler).update(route.arguments)
    return path_of_route(handler, route)
