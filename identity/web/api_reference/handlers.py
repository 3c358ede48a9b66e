"""Handlers of the API reference: an index, a page per tag, a page per schema, and the style sheet."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
import orjson
from markupsafe import Markup

from identity.call import Call, Document
from identity.errors import NotFound
from identity.web import page_files
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import PageHandler
from identity.web.openapi.document import PreparedDocument

PATH: Final = "/api/docs"
_STYLE: Final = "reference.css"
_HERE: Final = Path(__file__).resolve().parent
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "Cache-Control": "public, max-age=300",
}


_PREFIX: Final = "#/components/schemas/"
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "pattern", "default", "minItems", "maxItems")


class _ReferenceHandler(PageHandler):
    document: PreparedDocument

    async def reference(self) -> Reference:
        """Return the reference, which is read once."""
        return _parsed((await self.document.get()).body)


class IndexHandler(_ReferenceHandler):
    """The index: all operations and schemas."""

    @oauth_endpoint(access=Access.PUBLIC, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show all operations."""
        return _page("index.html", reference=await self.reference())


class TagHandler(_ReferenceHandler):
    """The operations of one tag."""

    @oauth_endpoint(access=Access.PUBLIC, answer="text/html")
    async def get(self, call: Call, tag: str) -> Reply:
        """Show the operations. Raises NotFound."""
        found = await self.reference()
        if tag not in found.tags:
            raise NotFound
        return _page("tag.html", reference=found, tag=tag, operations=found.tags[tag])


class SchemaHandler(_ReferenceHandler):
    """One schema."""

    @oauth_endpoint(access=Access.PUBLIC, answer="text/html")
    async def get(self, call: Call, name: str) -> Reply:
        """Show the members of the schema. Raises NotFound."""
        found = await self.reference()
        if name not in found.schemas:
            raise NotFound
        schema = found.schemas[name]
        return _page(
            "schema.html", reference=found, name=name, schema=schema,
            members=members(schema), type=type_of(schema), links=references(schema),
        )  # fmt: skip


class StyleHandler(PageHandler):
    """The style sheet."""

    @oauth_endpoint(access=Access.PUBLIC, answer="text/css")
    async def get(self, call: Call) -> Reply:
        """Serve the style sheet."""
        headers = {"Content-Type": "text/css; charset=utf-8", "Cache-Control": _HEADERS["Cache-Control"]}
        return Reply((_HERE / "static" / _STYLE).read_bytes(), headers=headers)


@functools.lru_cache(1)
def _parsed(document: bytes) -> Reference:
    return Reference(orjson.loads(document))


def _page(template: str, **values: Any) -> Reply:
    return Reply(_templates().get_template(template).render(root=PATH, style=_STYLE, **values).encode(), 200, _HEADERS)


def _with_code(text: str) -> Markup:
    """Mark the parts between backticks as code; everything is escaped."""
    parts = enumerate(text.split("`"))
    return Markup().join(Markup("<code>{}</code>").format(part) if index % 2 else part for index, part in parts)


@functools.cache
def _templates() -> jinja2.Environment:
    environment = page_files.environment(_HERE / "templates")
    environment.filters["with_code"] = _with_code
    return environment


def routes(every: Callable[[], Sequence[Route]]) -> list[Route]:
    """Return the routes of the reference of `every` route."""
    given = {"document": PreparedDocument(every)}
    return [
        Route(PATH, IndexHandler, given),
        Route(f"{PATH}/{_STYLE}", StyleHandler),
        Route(PATH + "/schemas/{name}", SchemaHandler, given),
        Route(PATH + "/{tag}", TagHandler, given),
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One method of a path."""

    method: str
    path: str
    document: Document

    @property
    def anchor(self) -> str:
        """The fragment of its section."""
        return str(self.document["operationId"])


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A row of a schema: `type` and `links` describe the value, `notes` its bounds."""

    name: str
    type: str
    links: tuple[str, ...]
    is_required: bool
    description: str
    notes: tuple[str, ...]


class Reference:
    """An OpenAPI document, for the templates."""

    def __init__(self, document: Document) -> None:
        self.title = f"{document['info']['title']} {document['info']['version']}"
        self.description = document["info"]["description"]
        self._parameters: Mapping[str, Document] = document["components"]["parameters"]
        self._shared_examples: Mapping[str, Document] = document["components"]["examples"]
        self.schemas: Mapping[str, Document] = document["components"]["schemas"]
        self.tags: dict[str, list[Operation]] = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                self.tags.setdefault(operation["tags"][0], []).append(Operation(method.upper(), path, operation))

    def parameters(self, operation: Operation) -> list[Document]:
        """Return the parameters of an operation."""
        given = operation.document.get("parameters", [])
        return [self._parameters[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in given]

    def bodies(self, holder: Document) -> Iterator[tuple[str, str, list[Member], list[str]]]:
        """Yield (content type, name of the schema or an empty text, members, examples) of a body."""
        for content_type, media in holder.get("content", {}).items():
            schema = media.get("schema", {})
            names = references(schema)
            described = [] if "$ref" in schema else members(schema)
            yield content_type, names[0] if "$ref" in schema else "", described, self._examples(media)

    def _examples(self, media: Document) -> list[str]:
        """Return the examples of a body as indented JSON."""
        names = [one["$ref"].rpartition("/")[2] for one in media.get("examples", {}).values()]
        values = [media["example"]] if "example" in media else [self._shared_examples[name]["value"] for name in names]
        return [orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() for value in values]


def members(schema: Document) -> list[Member]:
    """Return the members of an object, also of those that it is composed of."""
    required = set(schema.get("required", ()))
    found = [_member(name, one, is_required=name in required) for name, one in schema.get("properties", {}).items()]
    for part in _parts(schema):
        found += members(part)
    return found


def type_of(schema: Document) -> str:
    """Return the type of a schema as text."""
    if "const" in schema:
        return f"the value {schema['const']!r}"
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    kind = schema.get("type", "")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in schema:
        text = f"array of {type_of(schema['items']) or 'values'}"
    if "format" in schema:
        text += f" ({schema['format']})"
    if not text and _parts(schema):
        text = " or ".join(dict.fromkeys(filter(None, map(type_of, _parts(schema)))))
    return text or ("object" if references(schema) else "any value")


def references(schema: object) -> tuple[str, ...]:
    """Return the names of the schemas that a schema refers to, down to its own members."""
    if not isinstance(schema, Mapping):
        return ()
    if "$ref" in schema:
        return (str(schema["$ref"]).removeprefix(_PREFIX),)
    nested = [schema.get("items"), schema.get("additionalProperties"), *_parts(schema)]
    return tuple(dict.fromkeys(name for one in nested for name in references(one)))


def _member(name: str, schema: Document, *, is_required: bool) -> Member:
    notes = tuple(f"{bound}: {schema[bound]}" for bound in _BOUNDS if bound in schema)
    flags = tuple(text for flag, text in (("readOnly", "read only"), ("writeOnly", "write only")) if schema.get(flag))
    description = str(schema.get("description", ""))
    return Member(name, type_of(schema), references(schema), is_required, description, flags + notes)


def _parts(schema: Mapping[str, Any]) -> Sequence[Document]:
    return [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
