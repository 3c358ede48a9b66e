"""Random calls of the operations of the OpenAPI document, with bodies that are often attacks."""

from __future__ import annotations

import copy
import dataclasses
import functools
import random
import re
from typing import Any, Final

import httpx
import orjson

from identity.ids import new_id
from tests import openapi
from tests.boundary.callers import Caller
from tests.boundary.world import DEFAULT_TENANT, REDIRECT_URI
from tests.fuzz.known_values import KnownValues

Document = dict[str, Any]

FORM: Final = "application/x-www-form-urlencoded"
_MERGE_PATCH: Final = "application/merge-patch+json"
_SPECIAL: Final = ("/api/health", "/api/openapi.json", "/api/system/reindex", "/api/prometheus")
"""Operations without a subject of the boundary, or that take long."""
_KNOWN_SHARE: Final = 0.75
_PROTOCOL_SHARE: Final = 0.05
"""Pages and endpoints of the protocols: their forms need a token of the page, which `flows.page` has."""
_MAXIMUM_DEPTH: Final = 4
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFUSED: Final = frozenset({"eventInfo", "ipAddress", "nextResults", "orderBy", "query", "sortFields"})
"""Members whose random values are refused, and yield nothing."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of the document."""

    path: str
    method: str
    declared: Document

    @property
    def label(self) -> str:
        """The method and the path."""
        return f"{self.method} {self.path}"

    @property
    def creates_by_id(self) -> bool:
        """Whether the last parameter of the path is the id of a new object."""
        has_updates = {"put", "patch"} & openapi.served()["paths"][self.path].keys()
        return (
            self.method == "POST" and self.path.endswith("}") and bool(has_updates) and "registration" not in self.path
        )


@dataclasses.dataclass(frozen=True)
class Request:
    """A call, ready to be sent."""

    label: str
    method: str
    path: str
    query: Document = dataclasses.field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"

    async def send(self, http: httpx.AsyncClient) -> httpx.Response:
        """Send the call."""
        headers = {} if self.body is None else {"Content-Type": self.content_type}
        if self.body is not None and self.content_type == FORM:
            return await http.request(self.method, self.path, params=self.query, data=self.body)
        content = None if self.body is None else orjson.dumps(self.body)
        return await http.request(self.method, self.path, params=self.query, content=content, headers=headers)

    def __str__(self) -> str:
        shown = "" if self.body is None else f" {orjson.dumps(self.body).decode()[:1500]}"
        return f"{self.method} {self.path} {self.query or ''}{shown}"


@functools.cache
def operations() -> list[Operation]:
    """Return the operations of the document."""
    found = [Operation(path, method.upper(), declared) for path, method, declared in openapi.operations()]
    return [operation for operation in found if not operation.path.startswith(_SPECIAL)]


def choose(caller: Caller, rng: random.Random) -> Operation | None:
    """Return a random operation that the caller may call: mostly one of the API that changes something."""
    found = [operation for operation in operations() if caller.may_call(operation.path, operation.method)]
    api = [operation for operation in found if operation.path.startswith("/api/")]
    if not api or rng.random() < _PROTOCOL_SHARE:
        return rng.choice(found) if found else None
    changing = [operation for operation in api if operation.method != "GET"]
    return rng.choice(changing if changing and rng.random() < 0.7 else api)


def make(operation: Operation, caller: Caller, known: KnownValues, rng: random.Random) -> Request:
    """Return a random call of an operation."""
    path = re.sub(r"\{(\w+)\}", lambda match: str(_value_of(match[1], known, rng)), operation.path)
    if operation.creates_by_id:
        path = path.rpartition("/")[0] + f"/{new_id()}"
    content_type, body = _body(operation, caller, known, rng)
    query = _query(operation, known, rng, is_alone=body is None)
    return Request(operation.label, operation.method, path, query, body, content_type)


def _query(operation: Operation, known: KnownValues, rng: random.Random, *, is_alone: bool) -> Document:
    """Return the parameters that are required, and some whose names have known values."""
    query = {}
    for declared in operation.declared.get("parameters", ()):
        parameter = _resolved(declared)
        name, values = parameter["name"], known.of(parameter["name"])
        if parameter["in"] != "query":
            continue
        if values and rng.random() < (0.7 if is_alone else 0.2):
            query[name] = rng.choice(values)
        elif parameter.get("required"):
            query[name] = _sample(parameter.get("schema", {}), name, known, rng, 0)
    return query


def _value_of(name: str, known: KnownValues, rng: random.Random) -> Any:
    found = known.of(name)
    return rng.choice(found) if found else "00000000-0000-4000-8000-00000000dead"


def _body(operation: Operation, caller: Caller, known: KnownValues, rng: random.Random) -> tuple[str, Any]:
    """Return a media type and a body: the example of the document with known values, and some members more."""
    contents = operation.declared.get("requestBody", {}).get("content", {})
    if not contents:
        return "application/json", None
    kind = _MERGE_PATCH if _MERGE_PATCH in contents else rng.choice(sorted(contents))
    media = contents[kind]
    schema = _resolved(media["schema"])
    if kind == _MERGE_PATCH or ("example" not in media and "examples" not in media):
        body = _sample(schema, "", known, rng, 0)
    else:
        body = copy.deepcopy(_example(media, rng))
        _refer_to_known(body, "", known, rng)
        known.fill(body, rng, _KNOWN_SHARE)
        if isinstance(body, dict):
            _extend(body, schema, known, rng)
    if kind == FORM and isinstance(body, dict):
        body = {**_form_defaults(caller), **body, **dict(caller.credentials)}
        body = {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in body.items()}
    return kind, body


def _form_defaults(caller: Caller) -> Document:
    return {"redirect_uri": REDIRECT_URI, "tenantId": DEFAULT_TENANT} if caller.credentials else {}


def _example(media: Document, rng: random.Random) -> Any:
    if "example" in media:
        return media["example"]
    found = _resolved(rng.choice(list(media["examples"].values())))
    return found.get("value", found)


def _refer_to_known(node: Any, parent: str, known: KnownValues, rng: random.Random) -> None:
    """Give an example new names, and replace the ids in it, which do not exist."""
    if isinstance(node, list):
        for item in node:
            _refer_to_known(item, parent, known, rng)
    if not isinstance(node, dict):
        return
    for name, value in list(node.items()):
        if _ID.fullmatch(name):
            found = known.of("groupId" if parent == "members" else "applicationId")
            node[rng.choice(found)] = node.pop(name)
            _refer_to_known(value, "", known, rng)
        elif name == "clientId":
            node[name] = new_id()
        elif name in {"name", "text", "code"} and isinstance(value, str):
            node[name] = f"boundary {rng.randrange(2**32)}"
        elif name.endswith("Id") or (name == "id" and parent == "type"):
            values = known.of("entityTypeId" if name == "id" else name)
            if values:
                node[name] = rng.choice(values)
            else:
                del node[name]
        else:
            _refer_to_known(value, name, known, rng)


def _extend(body: Document, schema: Document, known: KnownValues, rng: random.Random) -> None:
    """Add a random member of the object that a body wraps."""
    for name, declared in _properties(schema).items():
        inner = body.get(name)
        members = _properties(_resolved(declared))
        if isinstance(inner, dict) and members and rng.random() < 0.7:
            added = rng.choice(sorted(members))
            inner[added] = _sample(members[added], added, known, rng, 1)


def _sample(schema: Document, name: str, known: KnownValues, rng: random.Random, depth: int) -> Any:
    """Return a value of a schema: a known one of the name if there is any, and few optional members of objects."""
    schema = _resolved(schema)
    if name in {"name", "text"} and schema.get("type") == "string":
        return f"boundary {rng.randrange(2**32)}"
    values = known.of(name)
    of_objects = "properties" in schema or "properties" in _resolved(schema.get("items", {}))
    if values and rng.random() < _KNOWN_SHARE and not of_objects:
        return [rng.choice(values)] if schema.get("type") == "array" else rng.choice(values)
    for member in ("const", "default"):
        if member in schema and rng.random() < 0.5:
            return schema[member]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "oneOf" in schema or "anyOf" in schema:
        return _sample(rng.choice(schema.get("oneOf") or schema["anyOf"]), name, known, rng, depth)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    if kind == "object":
        return _sample_object(schema, known, rng, depth)
    if kind == "array":
        return [_sample(schema.get("items", {}), name.removesuffix("s"), known, rng, depth + 1)]
    return _scalar(kind, schema, known, rng)


def _sample_object(schema: Document, known: KnownValues, rng: random.Random, depth: int) -> Document:
    members = _properties(schema)
    if not members:
        return {}
    required = set(schema.get("required", ()))
    optional = sorted(members.keys() - required)
    chosen = rng.sample(optional, min(len(optional), rng.randint(1, 2))) if depth < _MAXIMUM_DEPTH else []
    return {name: _sample(members[name], name, known, rng, depth + 1) for name in sorted({*required, *chosen})}


def _scalar(kind: str, schema: Document, known: KnownValues, rng: random.Random) -> Any:
    if kind == "boolean":
        return rng.random() < 0.7
    if kind in {"integer", "number"}:
        lowest = schema.get("minimum", 1)
        return rng.choice([lowest, min(lowest + 10, schema.get("maximum", lowest + 10))])
    if schema.get("format") == "uuid":
        return _value_of("userId", known, rng)
    if schema.get("format") in {"uri", "url"}:
        return str(known.of("url")[0])
    if schema.get("format") == "email":
        return _value_of("email", known, rng)
    if schema.get("examples"):
        return rng.choice(schema["examples"])
    return f"boundary {rng.randrange(2**32)}"[: schema.get("maxLength", 100)]


def _properties(schema: Document) -> Document:
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        found |= _properties(_resolved(part))
    known = {name: declared for name, declared in found.items() if name not in _REFUSED}
    return {name: declared for name, declared in known.items() if not _resolved(declared).get("readOnly")}


def _resolved(node: Document) -> Document:
    while "$ref" in node:
        found: Any = openapi.served()
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node
