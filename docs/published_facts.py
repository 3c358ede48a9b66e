"""Writes tests/rules/published-facts.json: what the published description of the API names, and nothing of its text.

    python docs/published_facts.py path/to/openapi.yaml > tests/rules/published-facts.json

Paths with their methods, query parameters, the object that each takes and answers with, and the members of these
objects with their types. tests/rules/test_published.py compares our own document with it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

_METHODS = ("delete", "get", "patch", "post", "put")


def facts(published: Document) -> Document:
    """Paths, and the objects that they lead to."""
    schemas = published["components"]["schemas"]
    paths = {
        path: {method: _operation(item[method]) for method in _METHODS if method in item}
        for path, item in sorted(published["paths"].items())
    }
    wanted = [about[key] for item in paths.values() for about in item.values() for key in ("takes", "answers")]
    objects: Document = {}
    while wanted:
        name = wanted.pop()
        if name and name not in objects and "properties" in schemas.get(name, {}):
            members = schemas[name]["properties"]
            objects[name] = {member: _type(about, schemas) for member, about in sorted(members.items())}
            wanted += re.findall(r'"([A-Z]\w+)"', json.dumps(objects[name]))
    return {"paths": paths, "objects": dict(sorted(objects.items()))}


def _operation(operation: Document) -> Document:
    parameters = operation.get("parameters", ())
    return {
        "query": sorted(parameter["name"] for parameter in parameters if parameter["in"] == "query"),
        "takes": _object(operation.get("requestBody", {})),
        "answers": _object(operation["responses"].get("200", {})),
    }


def _object(carrier: Document) -> str | None:
    for about in carrier.get("content", {}).values():
        if "$ref" in about["schema"]:
            return _name(about["schema"])
    return None


def _name(schema: Document) -> str:
    return str(schema["$ref"].rpartition("/")[2])


def _type(schema: Document, schemas: Document) -> Any:
    """The name of a type or of an object; a list of one for a list, an object with a star for a map."""
    if "$ref" in schema:
        name = _name(schema)
        target = schemas[name]
        return name if "properties" in target else "instant" if "Instant" in name else _type(target, schemas)
    if schema.get("type") == "array":
        return [_type(schema.get("items", {}), schemas)]
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return {"*": _type(schema["additionalProperties"], schemas)}
    return "uuid" if schema.get("format") == "uuid" else schema.get("type", "any")


if __name__ == "__main__":
    print(
        json.dumps(
            facts(yaml.safe_load(Path(sys.argv[1]).read_text())), indent=None, sort_keys=True, separators=(",", ":")
        ).replace('},"', '},\n"')
    )
