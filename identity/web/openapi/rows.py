"""OpenAPI operations of declared resources, whose handlers are shared by all of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from identity.call import Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource
from identity.web.base_handlers import BaseHandler
from identity.web.crud import ResourceHandler
from identity.web.openapi import parameters
from identity.web.openapi.components import Components, Use

_KINDS: Final = {
    "text": {"type": "string"},
    "uuid": {"type": "string", "format": "uuid"},
    "integer": {"type": "integer"},
    "instant": {"type": "integer"},
}


@dataclasses.dataclass(frozen=True, slots=True)
class RowMethod:
    """One method of a row; `takes` and `answer` are schemas for what its handler does not declare."""

    label: str
    operation_id: str
    takes: Document | None = None
    answer: Document | None = None
    has_id: bool = False


def of(handler: BaseHandler, template: str, method: str, components: Components) -> RowMethod | None:
    """Return the row of a method; None for other handlers, and for further paths of a resource."""
    if not isinstance(handler, ResourceHandler) or not handler.is_row:
        return None
    resource: Resource = handler.resource
    rest = template.removeprefix(resource.path)
    if rest == "/search":
        return _search(resource, method, components)
    if rest == "":
        return _collection(resource, method, components)
    if rest.count("/") == 1 and rest.startswith("/{"):
        return _object(resource, method)
    return None


def _collection(resource: Resource, method: str, components: Components) -> RowMethod | None:
    if method == "POST":
        return RowMethod(resource.label, f"create{_title(resource.name)}")
    if method == "GET":
        return RowMethod(resource.label, f"retrieve{_title(resource.plural)}", answer=_list(resource, components))
    return None


def _object(resource: Resource, method: str) -> RowMethod:
    verb, suffix = {
        "POST": ("create", "WithId"),
        "GET": ("retrieve", ""),
        "PUT": ("update", ""),
        "PATCH": ("patch", ""),
        "DELETE": ("delete", ""),
    }[method]
    return RowMethod(resource.label, f"{verb}{_title(resource.name)}{suffix}", has_id=True)


def _search(resource: Resource, method: str, components: Components) -> RowMethod:
    name = _title(resource.plural)
    found = _list(resource, components, has_total=True)
    if method == "GET":
        return RowMethod(resource.label, f"search{name}ByQuery", None, found)
    return RowMethod(resource.label, f"search{name}", _criteria(resource, components), found)


def _criteria(resource: Resource, components: Components) -> Document:
    properties = {
        name: {**_KINDS[kind], "description": described(name)}
        for name, kind in searches.parameters(resource.search_rules).items()
    }
    search = {"type": "object", "description": "What is searched for.", "properties": properties}
    body = {"type": "object", "properties": {"search": search}}
    return components.built(f"{_title(resource.name)}SearchRequest", body)


def _list(resource: Resource, components: Components, *, has_total: bool = False) -> Document:
    items = components.member(resource.schema, resource.name, Use.ANSWER)
    properties: dict[str, Any] = {resource.plural: {"type": "array", "description": "The objects.", "items": items}}
    if has_total:
        properties["total"] = {"type": "integer", "minimum": 0, "description": "How many objects match."}
    schema = {"type": "object", "required": sorted(properties), "properties": properties, "additionalProperties": False}
    return components.built(f"{_title(resource.name)}{'Search' if has_total else 'List'}Response", schema)


_OF_SEARCHES: Final = frozenset({"numberOfResults", "orderBy", "startRow"})


def described(name: str) -> str:
    """Return the description of a search parameter."""
    if name in _OF_SEARCHES:
        return parameters.described(name)
    return f"What {name} has to be; in a text a * stands for anything."


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]
