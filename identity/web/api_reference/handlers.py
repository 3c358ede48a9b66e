"""Handlers of the API reference: an index, a page per tag, a page per schema, and the style sheet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
import orjson
from markupsafe import Markup

from identity.call import Call
from identity.errors import NotFound
from identity.web import page_templates
from identity.web.api_reference import reference
from identity.web.api_reference.reference import Reference
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
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


class _ReferenceHandler(PageHandler):
    document: PreparedDocument

    async def reference(self) -> Reference:
        """Return the reference, which is read once."""
        return _parsed((await self.document.get()).body)


class IndexHandler(_ReferenceHandler):
    """The index: all operations and schemas."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show all operations."""
        return _page("index.html", reference=await self.reference())


class TagHandler(_ReferenceHandler):
    """The operations of one tag."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, tag: str) -> Reply:
        """Show the operations. Raises NotFound."""
        found = await self.reference()
        if tag not in found.tags:
            raise NotFound
        return _page("tag.html", reference=found, tag=tag, operations=found.tags[tag])


class SchemaHandler(_ReferenceHandler):
    """One schema."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, name: str) -> Reply:
        """Show the members of the schema. Raises NotFound."""
        found = await self.reference()
        if name not in found.schemas:
            raise NotFound
        schema = found.schemas[name]
        return _page(
            "schema.html", reference=found, name=name, schema=schema,
            members=reference.members(schema), type=reference.type_of(schema), links=reference.references(schema),
        )  # fmt: skip


class StyleHandler(PageHandler):
    """The style sheet."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer="text/css")
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
    environment = page_templates.environment(_HERE / "templates")
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
