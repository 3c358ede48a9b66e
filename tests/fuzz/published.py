"""An OpenAPI document made from the facts of the published one, of what we serve: what other people's clients send."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests import openapi

Document = dict[str, Any]

FACTS = json.loads((Path(__file__).parent.parent / "rules" / "published-facts.json").read_text())


def document() -> Document:
    """The published operations that we serve too, with the published objects in their requests."""
    served = {(bare(path), method) for path, method, _ in openapi.operations()}
    paths: Document = {}
    for path, methods in FACTS["paths"].items():
        for method, facts in methods.items():
            if (bare(path), method) in served:
                paths.setdefault(path, {})[method] = _operation(path, facts)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Published", "version": "1"},
        "paths": paths,
        # Named as the requests of our own document are, so that its large objects are thinned out too.
        "components": {"schemas": {_component(name): _object(members) for name, members in FACTS["objects"].items()}},
    }


def bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _operation(path: str, facts: Document) -> Document:
    inside = [_parameter(name, "path", {"type": "string", "format": "uuid"}) for name in re.findall(r"\{(\w+)\}", path)]
    query = [_parameter(name, "query", {"type": "string"}) for name in facts["query"]]
    operation: Document = {"parameters": [*inside, *query], "responses": {"200": {"description": "Done."}}}
    if facts["takes"] is not None:
        content = {"application/json": {"schema": _schema(facts["takes"])}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameter(name: str, place: str, schema: Document) -> Document:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _component(name: str) -> str:
    return f"{name}Input"


def _object(members: Document) -> Document:
    return {"type": "object", "properties": {name: _schema(kind) for name, kind in members.items()}}


def _schema(kind: Any) -> Document:
    if isinstance(kind, list):
        return {"type": "array", "items": _schema(kind[0])}
    if isinstance(kind, dict):
        return {"type": "object", "additionalProperties": _schema(kind["*"])}
    if kind in FACTS["objects"]:
        return {"$ref": f"#/components/schemas/{_component(kind)}"}
    return {"uuid": {"type": "string", "format": "uuid"}, "instant": {"type": "integer"}, "any": {}}.get(
        kind, {"type": kind}
    )
