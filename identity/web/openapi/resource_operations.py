"""OpenAPI operations of declared resources, whose handlers are shared by all of them."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource
from identity.web.base_handlers import BaseHandler
from identity.web.crud import ResourceHandler
from identity.web.openapi import texts
from identity.web.openapi.components import Components, Use, capitalize

_VERBS: Final = {"POST": "create", "GET": "retrieve", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PAGING: Final = frozenset({"numberOfResults", "orderBy", "startRow"})


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceOperation:
    """One method of a resource; `request` and `response` are schemas that its handler does not declare."""

    label: str
    operation_id: str
    request: Document | None = None
    response: Document | None = None
    has_id: bool = False


def find(handler: BaseHandler, template: str, method: str, components: Components) -> ResourceOperation | None:
    """Return the operation of a resource; None for other handlers, and for further paths of a resource."""
    if not isinstance(handler, ResourceHandler) or not handler.is_row:
        return None
    resource = handler.resource
    name, plural = capitalize(resource.name), capitalize(resource.plural)
    match template.removeprefix(resource.path), method:
        case "/search", "GET":
            results = _list(resource, components, has_total=True)
            return ResourceOperation(resource.label, f"search{plural}ByQuery", None, results)
        case "/search", _:
            results = _list(resource, components, has_total=True)
            return ResourceOperation(resource.label, f"search{plural}", _criteria(resource, components), results)
        case "", "POST":
            return ResourceOperation(resource.label, f"create{name}")
        case "", "GET":
            return ResourceOperation(resource.label, f"retrieve{plural}", response=_list(resource, components))
        case path, _ if path.startswith("/{") and path.count("/") == 1:
            suffix = "WithId" if method == "POST" else ""
            return ResourceOperation(resource.label, f"{_VERBS[method]}{name}{suffix}", has_id=True)
    return None


def _criteria(resource: Resource, components: Components) -> Document:
    properties = {
        name: {"type": texts.QUERY_TYPES[kind]["type"], "description": describe_criterion(name)}
        | ({"format": "uuid"} if kind == "uuid" else {})
        for name, kind in searches.parameters(resource.search_rules).items()
    }
    search = {"type": "object", "description": "The search criteria.", "properties": properties}
    body = {"type": "object", "properties": {"search": search}}
    return components.add(f"{capitalize(resource.name)}SearchRequest", body)


def _list(resource: Resource, components: Components, *, has_total: bool = False) -> Document:
    items = components.member(resource.schema, resource.name, Use.RESPONSE)
    properties: Document = {resource.plural: {"type": "array", "description": "The objects.", "items": items}}
    if has_total:
        properties["total"] = {"type": "integer", "minimum": 0, "description": "The number of matching objects."}
    schema = {"type": "object", "required": sorted(properties), "properties": properties, "additionalProperties": False}
    return components.add(f"{capitalize(resource.name)}{'Search' if has_total else 'List'}Response", schema)


def describe_criterion(name: str) -> str:
    """Return the description of a search parameter."""
    if name in _PAGING:
        return texts.describe_query_parameter(name)
    return f"The value of {name}; in a text, a * matches any characters."
