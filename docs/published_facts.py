"""Writes tests/rules/published-facts.json: what the published description of the API names, and nothing of its text.

    npm pack @fusionauth/typescript-client@1.69.0 && tar xzf fusionauth-typescript-client-1.69.0.tgz
    python docs/published_facts.py path/to/openapi.yaml package/build/src > tests/rules/published-facts.json

Paths with their methods, query parameters, the object that each takes and answers with, and the members of these
objects with their types. The description may leave paths out; these are read from the official TypeScript client of the
same release. tests/rules/test_published.py compares our own document with it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

_METHODS = ("delete", "get", "patch", "post", "put")


def facts(published: Document) -> Document:
    """The release, its paths, and the objects that they lead to."""
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
    return {"release": published["info"]["version"], "paths": paths, "objects": dict(sorted(objects.items()))}


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


_CALL = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*\w+\([^)]*\) \{(.*?)\n    \}", re.DOTALL)
"""A method of the client, with its comment."""
_INTERFACE = re.compile(
    r"^export interface (\w+)(?:<[^{]*>)?(?: extends ([^{]+))? \{\n(.*?)^\}", re.DOTALL | re.MULTILINE
)
_MEMBER = re.compile(r"^    (\w+)\??: (.+);$", re.MULTILINE)
_SCALARS = {"UUID": "uuid", "number": "integer", "string": "string", "boolean": "boolean", "any": "any"}


class Client:
    """The interfaces and methods of the TypeScript client; types are those of its comments."""

    def __init__(self, folder: Path) -> None:
        self._calls = (folder / "FusionAuthClient.js").read_text()
        found = _INTERFACE.findall((folder / "FusionAuthClient.d.ts").read_text())
        self._members = {name: dict(_MEMBER.findall(body)) for name, _, body in found}
        self._bases = {name: re.findall(r"\b([A-Z]\w+)\b", extends.partition("<")[0]) for name, extends, _ in found}
        self._maps = {name: extends for name, extends, _ in found if extends.startswith("Record<")}

    def complete(self, known: Document) -> Document:
        """Add the paths that the facts lack, with their objects."""
        listed = {_bare(path) for path in known["paths"]}
        paths: Document = dict(known["paths"])
        for path, method, operation in self._operations():
            if _bare(path) not in listed:
                merged = paths.setdefault(path, {}).setdefault(method, operation)
                merged["query"] = sorted({*merged["query"], *operation["query"]})
        objects: Document = dict(known["objects"])
        wanted = [about[key] for item in paths.values() for about in item.values() for key in ("takes", "answers")]
        while wanted:
            name = wanted.pop()
            if name in self._members and name not in objects:
                members = {**self._inherited(name), **self._derived(name)}
                objects[name] = {member: self._type(kind) for member, kind in sorted(members.items())}
                wanted += re.findall(r'"([A-Z]\w+)"', json.dumps(objects[name]))
        return {**known, "paths": dict(sorted(paths.items())), "objects": dict(sorted(objects.items()))}

    def _operations(self) -> Iterator[tuple[str, str, Document]]:
        """Yield path, method and operation of every method; an optional id at the end of a path may be absent."""
        for comment, body in _CALL.findall(self._calls):
            start = re.search(r"withUri\('([^']+)'\)", body)
            if start is None:
                continue
            paths, path = [], start[1]
            segments = re.findall(r"withUriSegment\(([^)]+)\)", body)
            for segment in segments:
                if re.search(rf"@param \{{\w+\}} {segment} \(Optional\)", comment) and segment == segments[-1]:
                    paths.append(path)
                path += "/" + (segment.strip('"') if segment.startswith('"') else f"{{{segment}}}")
            body_name = _first(r"withJSONBody\((\w+)\)", body)
            operation = {
                "query": sorted(re.findall(r"withParameter\('([^']+)'", body)),
                "takes": _first(rf"@param \{{(\w+)\}} {body_name} ", comment),
                "answers": _first(r"@returns \{Promise<ClientResponse<(\w+)>>\}", comment, unless="void"),
            }
            method = str(_first(r'withMethod\("(\w+)"\)', body)).lower()
            yield from ((each, method, dict(operation)) for each in (*paths, path))

    def _inherited(self, name: str) -> dict[str, str]:
        found = {member: kind for base in self._bases.get(name, ()) for member, kind in self._inherited(base).items()}
        return {**found, **self._members.get(name, {})}

    def _derived(self, name: str) -> dict[str, str]:
        """Return the members of the kinds of an object with a `type`, of which the client names the base alone."""
        kinds = [kind for kind, bases in self._bases.items() if name in bases and "type" in self._members[name]]
        return {member: about for kind in kinds for member, about in self._inherited(kind).items()}

    def _type(self, kind: str) -> Any:
        kind = self._maps.get(kind, kind)
        if (inner := _first(r"^Array<(.+)>$", kind)) is not None:
            return [self._type(inner)]
        if (inner := _first(r"^Record<\w+, (.+)>$", kind)) is not None:
            return {"*": "object" if inner == "any" else self._type(inner)}
        name = kind.partition("<")[0]
        return name if name in self._members else _SCALARS.get(name, "string")


def _bare(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _first(pattern: str, text: str, unless: str | None = None) -> str | None:
    found = re.search(pattern, text)
    return None if found is None or found[1] == unless else found[1]


if __name__ == "__main__":
    made = facts(yaml.safe_load(Path(sys.argv[1]).read_text()))
    if len(sys.argv) > 2:
        made = Client(Path(sys.argv[2])).complete(made)
    print(json.dumps(made, indent=None, sort_keys=True, separators=(",", ":")).replace('},"', '},\n"'))
