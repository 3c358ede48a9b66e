"""One OpenAPI operation: a method of a route, or a verb of a declared resource, with its body and responses."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from identity.call import Document
from identity.domain.objects import patch as patches
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource
from identity.web.base_handlers import ApiHandler, BaseHandler, Route
from identity.web.crud import ResourceHandler
from identity.web.endpoint import Access, Endpoint, Tenancy
from identity.web.openapi import error_responses, texts
from identity.web.openapi.components import Components, Use, capitalize

FORM: Final = "application/x-www-form-urlencoded"

_SECURITY: Final[dict[Access, list[Document]]] = {
    Access.API_KEY: [{"apiKey": []}],
    Access.KEY_MANAGER: [{"apiKey": []}],
    Access.OPTIONAL_KEY: [{"apiKey": []}, {}],
    Access.CLIENT: [{"client": []}, {}],
    Access.CLIENT_OR_KEY: [{"client": []}, {"apiKey": []}, {}],
    Access.BEARER: [{"bearer": []}, {}],
    Access.KEY_OR_BEARER: [{"apiKey": []}, {"bearer": []}, {}],
    Access.BROWSER: [],
    Access.ENTITY: [{"bearer": []}],
    Access.RECOGNIZED_KEY: [{}, {"apiKey": []}],
    Access.PUBLIC: [],
}
_NAME_OF_THE_BODY: Final = "body"
"""Generators name the argument of the request body so, also where there is none."""
_WITHOUT_TENANT_HEADER = frozenset({Access.CLIENT, Access.CLIENT_OR_KEY, Access.BEARER, Access.BROWSER, Access.ENTITY})
_VERBS: Final = {"POST": "create", "GET": "retrieve", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PAGING: Final = frozenset({"numberOfResults", "orderBy", "startRow"})


def of_route(route: Route, components: Components) -> Iterator[tuple[str, str, Document]]:
    """Yield (path, method, operation) of the methods of a route, except those that always refuse."""
    handler = route.handler.__new__(route.handler)
    vars(handler).update(route.arguments)
    for method in handler.allowed().split(", "):
        declared: Endpoint | None = getattr(getattr(handler, method.lower()), "endpoint", None)
        if declared is not None and declared.answer != {}:
            operation = _Operation(handler, route, method, declared, components)
            yield path_of(handler, route), method.lower(), operation.to_document()


def path_of(handler: BaseHandler, route: Route) -> str:
    """Return the template of a route, with the published names of its ids."""
    return handler.named(route.template)


class _Operation:
    def __init__(
        self, handler: BaseHandler, route: Route, method: str, declared: Endpoint, components: Components
    ) -> None:
        self._handler, self._route, self._method, self._declared = handler, route, method, declared
        self._components = components
        self._resource = find_resource_operation(handler, route.template, method, components)

    def to_document(self) -> Document:
        body = self._body()
        operation: Document = {
            "operationId": self._operation_id(),
            "summary": self._summary(),
            **self._description(),
            "tags": [self._tag()],
            "security": _SECURITY[self._declared.access],
        }
        if parameters := [*self._path_parameters(), *self._query_parameters(), *self._headers()]:
            operation["parameters"] = parameters
        if body:
            operation["requestBody"] = {"required": self._is_body_required(), "content": body}
        errors = error_responses.of_method(
            self._handler, self._declared, self._method, self._components,
            has_body=bool(body), has_404=self._has_404(has_body=bool(body)),
        )  # fmt: skip
        responses = {**errors, **self._responses()}
        operation["responses"] = {str(status): responses[status] for status in sorted(responses)}
        return operation

    def _operation_id(self) -> str:
        if self._resource is not None:
            return self._resource.operation_id
        steps = [step for step in path_of(self._handler, self._route).split("/") if step not in {"", "api"}]
        nouns = "".join(_title(step) for step in steps if not step.startswith("{"))
        ids = "".join(f"By{_title(step.strip('{}'))}" for step in steps if step.startswith("{"))
        return f"{self._method.lower()}{nouns}{ids}"

    def _method_docstring(self) -> str:
        return getattr(self._handler, self._method.lower()).__doc__ or ""

    def _summary(self) -> str:
        text = self._method_docstring().strip().split("\n", 1)[0]
        return f"{text.split('. ')[0].rstrip('.')}: {self._subject()}"

    def _description(self) -> Document:
        """Return the docstrings of the handler and its method; operations of resources need no description."""
        if self._resource is not None:
            return {}
        text = " ".join(f"{type(self._handler).__doc__ or ''} {self._method_docstring()}".split())
        sentences = re.split(r"(?<=\.)\s+", text)
        return {"description": " ".join(sentence for sentence in sentences if not sentence.startswith("Raises "))}

    def _nouns(self) -> list[str]:
        """Return the parts of the path that are not ids."""
        return [step for step in self._route.template.split("/") if step and not step.startswith("{")]

    def _subject(self) -> str:
        if self._resource is not None:
            return self._resource.label
        return " ".join(step for step in self._nouns() if step != "api")

    def _tag(self) -> str:
        nouns = self._nouns()
        return nouns[1] if nouns[0] == "api" else nouns[0].removeprefix(".")

    def _path_parameters(self) -> Iterator[Document]:
        schema = texts.QUERY_TYPES["uuid" if self._handler.uuid_paths else "text"]
        for template_name in re.findall(r"\{(\w+)\}", self._route.template):
            name = self._handler.path_name(template_name)
            words = re.sub(r"([A-Z])", lambda match: f" {match[1].lower()}", name.removesuffix("Id")).strip()
            description = f"The id of the {words}."
            yield {"name": name, "in": "path", "required": True, "description": description, "schema": schema}

    def _query_parameters(self) -> Iterator[Document]:
        if isinstance(self._declared.query, str):
            for name, schema in self._components.parameters(self._declared.query).items():
                yield _query_parameter(name, schema.pop("description", f"The {name}."), schema)
            return
        for name, kind in sorted(self._handler.query_of(self._declared).items()):
            is_criterion = self._resource is not None and name not in self._declared.query
            describe = describe_criterion if is_criterion else texts.describe_query_parameter
            yield _query_parameter(name, describe(name), texts.QUERY_TYPES[kind])

    def _headers(self) -> Iterator[Document]:
        has_tenant = self._declared.tenancy is not Tenancy.BY_OPERATION
        if isinstance(self._handler, ApiHandler) and has_tenant and self._declared.access not in _WITHOUT_TENANT_HEADER:
            yield {"$ref": "#/components/parameters/tenant"}
        if self._handler.accepts_dpop_proof:
            yield {"$ref": "#/components/parameters/proof"}

    def _body(self) -> Document:
        if self._declared.form is not None:
            return {FORM: {"schema": self._components.body(self._declared.form, Use.REQUEST)}}
        file = self._declared.body or self._declared.takes
        if file is None:
            search = None if self._resource is None else self._resource.request
            return {} if search is None else {error_responses.JSON: {"schema": search}}
        file = file.format(**self._route.arguments)
        if self._method == "PATCH" and isinstance(self._handler, ApiHandler):
            return self._patch_bodies(file)
        is_form = file.startswith("oauth2/") and not self._declared.raw_body
        kind = FORM if is_form else self._handler.media_type
        return {kind: {"schema": self._components.body(file, Use.REQUEST)}}

    def _patch_bodies(self, file: str) -> Document:
        merge_patch = self._components.body(file, Use.PATCH)
        json_patch = self._components.add("JsonPatch", texts.JSON_PATCH)
        return {
            kind: {"schema": json_patch if kind == "application/json-patch+json" else merge_patch}
            for kind in sorted(patches.CONTENT_TYPES)
        }

    def _is_body_required(self) -> bool:
        is_required = self._declared.body_required and "reactivate" not in self._declared.query
        return is_required and self._method in {"POST", "PUT", "PATCH"}

    def _responses(self) -> dict[int, Document]:
        declared: Any = self._declared.answer
        if declared is None and self._resource is not None:
            return {200: self._response(200, self._resource.response)}
        by_status = declared if isinstance(declared, dict) else {200: declared}
        return {status: self._response(status, response) for status, response in by_status.items()}

    def _response(self, status: int, response: str | Document | None) -> Document:
        if response is None:
            return {"description": texts.EMPTY_RESPONSES.get(status, "Success. The body is empty.")}
        if isinstance(response, str) and response.endswith("?"):
            return {**self._response(status, response[:-1]), "x-may-be-empty": True}
        if isinstance(response, str):
            response = response.format(**self._route.arguments)
            if ".json" not in response:
                schema = {"type": "string"} if response.startswith("text/") else texts.BINARY
                return {"description": "Success.", "content": {response: {"schema": schema}}}
            response = self._components.body(response, Use.RESPONSE)
        return {"description": "Success.", "content": {self._handler.media_type: {"schema": response}}}

    def _has_404(self, *, has_body: bool) -> bool:
        if self._resource is not None:
            return self._resource.has_id
        return "{" in self._route.template or has_body or bool(self._declared.query)


def _query_parameter(name: str, description: str, schema: Document) -> Document:
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    if name != _NAME_OF_THE_BODY:
        return parameter
    # The name of an exploded object is never sent: its members are the parameters.
    members = {"type": "object", "properties": {name: {**schema, "description": description}}}
    return {**parameter, "name": f"{name}Criterion", "style": "form", "explode": True, "schema": members}


def _title(step: str) -> str:
    return "".join(capitalize(word) for word in re.split(r"[-._]", step))


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceOperation:
    """One method of a resource; `request` and `response` are schemas that its handler does not declare."""

    label: str
    operation_id: str
    request: Document | None = None
    response: Document | None = None
    has_id: bool = False


def find_resource_operation(
    handler: BaseHandler, template: str, method: str, components: Components
) -> ResourceOperation | None:
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
