"""One operation of the document: a method of a route, with its parameters, body, answers and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from identity.call import Document
from identity.domain.objects import patch as patches
from identity.web.base_handlers import ApiHandler, BaseHandler, Route
from identity.web.endpoint import Access, Endpoint, Tenancy
from identity.web.openapi import parameters, refusals, rows
from identity.web.openapi.components import Components, Use
from identity.web.openapi.refusals import JSON
from identity.web.openapi.rows import RowMethod

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
    Access.RECOGNIZED_KEY: [{}, {"apiKey": []}],
    Access.PUBLIC: [],
}
_TENANTED = frozenset(
    {
        Access.API_KEY,
        Access.KEY_MANAGER,
        Access.KEY_OR_BEARER,
        Access.OPTIONAL_KEY,
        Access.RECOGNIZED_KEY,
        Access.PUBLIC,
    }
)
"""Where a request may name its tenant by the header."""

_QUERY: Final[dict[str, Document]] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "uuid": {"type": "string", "format": "uuid"},
    "uuids": {"type": "array", "items": {"type": "string", "format": "uuid"}},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "instant": {"type": "integer", "description": "Milliseconds since 1970."},
}


def of_route(route: Route, components: Components) -> Iterator[tuple[str, str, Document]]:
    """(path, method, operation) of every method of a route that may answer with more than a refusal."""
    handler = route.handler.__new__(route.handler)
    vars(handler).update(route.arguments)
    for method in handler.allowed().split(", "):
        declared: Endpoint | None = getattr(getattr(handler, method.lower()), "endpoint", None)
        if declared is not None and declared.answer != {}:
            yield (
                path_of(handler, route),
                method.lower(),
                _Operation(handler, route, method, declared, components).shown(),
            )


def path_of(handler: BaseHandler, route: Route) -> str:
    """The template of a route, with its ids under the names that the API gives them."""
    return handler.named(route.template)


class _Operation:
    def __init__(
        self, handler: BaseHandler, route: Route, method: str, declared: Endpoint, components: Components
    ) -> None:
        self._handler, self._route, self._method, self._declared = handler, route, method, declared
        self._components = components
        self._row: RowMethod | None = rows.of(handler, route.template, method, components)
        self._is_api = isinstance(handler, ApiHandler)

    def shown(self) -> Document:
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
        answers = {**self._refusals(has_body=bool(body)), **self._answers()}
        operation["responses"] = {str(status): answers[status] for status in sorted(answers)}
        return operation

    def _operation_id(self) -> str:
        if self._row is not None:
            return self._row.operation_id
        steps = [step for step in path_of(self._handler, self._route).split("/") if step not in {"", "api"}]
        named = "".join(_title(step) for step in steps if not step.startswith("{"))
        ids = "".join(f"By{_title(step.strip('{}'))}" for step in steps if step.startswith("{"))
        return f"{self._method.lower()}{named}{ids}"

    def _summary(self) -> str:
        text = (getattr(self._handler, self._method.lower()).__doc__ or "").strip().split("\n", 1)[0]
        return f"{text.split('. ')[0].rstrip('.')}: {self._subject()}"

    def _description(self) -> Document:
        """What the handler and its method say of themselves; operations on the rows of a collection need no more."""
        if self._row is not None:
            return {}
        texts = (type(self._handler).__doc__, getattr(self._handler, self._method.lower()).__doc__)
        sentences = re.split(r"(?<=\.)\s+", " ".join(" ".join(text.split()) for text in texts if text))
        return {"description": " ".join(text for text in sentences if not text.startswith("Raises "))}

    def _subject(self) -> str:
        if self._row is not None:
            return self._row.label
        steps = [step for step in self._route.template.split("/") if step and not step.startswith("{")]
        return " ".join(step for step in steps if step != "api")

    def _tag(self) -> str:
        steps = [step for step in self._route.template.split("/") if step and not step.startswith("{")]
        return steps[1] if steps[0] == "api" else steps[0].removeprefix(".")

    def _path_parameters(self) -> Iterator[Document]:
        kind = _QUERY["uuid" if self._handler.uuid_paths else "text"]
        for name in re.findall(r"\{(\w+)\}", self._route.template):
            shown = self._handler.path_name(name)
            yield {"name": shown, "in": "path", "required": True, "description": _of_id(shown), "schema": kind}

    def _query_parameters(self) -> Iterator[Document]:
        if isinstance(self._declared.query, str):
            for name, schema in self._components.parameters(self._declared.query).items():
                yield _parameter(name, schema.pop("description", f"The {name}."), schema)
            return
        describe = parameters.described if self._row is None else rows.described
        for name, kind in sorted(self._handler.query_of(self._declared).items()):
            is_plain = name in self._declared.query
            yield _parameter(name, parameters.described(name) if is_plain else describe(name), _QUERY[kind])

    def _headers(self) -> Iterator[Document]:
        takes_key = self._declared.access in _TENANTED
        if self._is_api and takes_key and self._declared.tenancy is not Tenancy.BY_OPERATION:
            yield {"$ref": "#/components/parameters/tenant"}
        if self._handler.accepts_dpop_proof:
            yield {"$ref": "#/components/parameters/proof"}

    def _body(self) -> Document:
        if self._declared.form is not None:
            return {FORM: {"schema": self._components.body(self._declared.form, Use.REQUEST)}}
        takes = self._declared.body or self._declared.takes or (self._row.takes if self._row is not None else None)
        if takes is None:
            return {}
        if not isinstance(takes, str):
            return {JSON: {"schema": takes}}
        takes = takes.format(**self._route.arguments)
        if takes.startswith("oauth2/"):
            return {FORM: {"schema": self._components.body(takes, Use.REQUEST)}}
        if self._method == "PATCH":
            return self._patches(takes)
        return {JSON: {"schema": self._components.body(takes, Use.REQUEST)}}

    def _patches(self, takes: str) -> Document:
        merged = self._components.body(takes, Use.PATCH)
        operations = self._components.built("JsonPatch", _JSON_PATCH)
        return {
            kind: {"schema": operations if kind == "application/json-patch+json" else merged}
            for kind in sorted(patches.CONTENT_TYPES)
        }

    def _is_body_required(self) -> bool:
        return self._method in {"POST", "PUT", "PATCH"} and "reactivate" not in self._declared.query

    def _answers(self) -> dict[int, Document]:
        answer: Any = self._declared.answer
        if answer is None and self._row is not None:
            answer = self._row.answer
        by_status = (
            answer if isinstance(answer, dict) and all(isinstance(key, int) for key in answer) else {200: answer}
        )
        return {status: self._answer(status, about) for status, about in by_status.items()}

    def _answer(self, status: int, answer: str | Document | None) -> Document:
        if answer is None:
            return {"description": refusals.EMPTY.get(status, "Done. The body is empty.")}
        if isinstance(answer, str) and answer.endswith("?"):
            return {**self._answer(status, answer[:-1]), "x-may-be-empty": True}
        if isinstance(answer, str):
            answer = answer.format(**self._route.arguments)
            if ".json" not in answer:
                return {"description": "Done.", "content": {answer: {"schema": {"type": "string"}}}}
            answer = self._components.body(answer, Use.ANSWER)
        return {"description": "Done.", "content": {JSON: {"schema": answer}}}

    def _refusals(self, *, has_body: bool) -> dict[int, Document]:
        return refusals.of_method(
            self._handler,
            self._declared,
            self._method,
            self._components,
            has_body=has_body,
            may_miss=self._may_miss(has_body=has_body),
        )

    def _may_miss(self, *, has_body: bool) -> bool:
        if self._row is not None:
            return self._row.has_id
        return "{" in self._route.template or has_body or bool(self._declared.query)


_JSON_PATCH: Final = {
    "type": "array",
    "description": "Operations on the object in its wrapper (RFC 6902).",
    "items": {
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "from": {"type": "string", "description": "Where the value is taken from."},
            "op": {
                "type": "string",
                "description": "What is done.",
                "enum": ["add", "remove", "replace", "move", "copy", "test"],
            },
            "path": {"type": "string", "description": "Where it is done (RFC 6901)."},
            "value": {"description": "What is put there, or has to be there."},
        },
    },
}


def _parameter(name: str, description: str, schema: Document) -> Document:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _of_id(name: str) -> str:
    words = re.sub(r"([A-Z])", lambda match: f" {match[1].lower()}", name.removesuffix("Id")).strip()
    return f"The id of the {words}."


def _title(step: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[-._]", step))
