"""The handlers of declared resources: create, retrieve, update, patch, delete and search over HTTP."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, ClassVar

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid, MethodNotAllowed
from identity.operations.objects import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Endpoint, Query, Reply, Tenancy, endpoint, redeclared
from identity.web.response import list_reply

_SCHEMA = "{resource.schema}"
_OBJECT = "{resource.schema}#{resource.name}"

_METHODS = ("get", "post", "put", "patch", "delete")


class ResourceHandler(ApiHandler):
    """The three paths of a resource.

    A subclass with `access=` or `tenancy=` declares its methods anew with these.
    """

    resource: Resource
    verbs: Mapping[str, str] = {}
    """The verb of each method; a resource without the verb does not serve the method."""
    is_row: ClassVar[bool] = True
    """Whether the OpenAPI document describes the path by the resource, and not by the docstrings of its handler."""

    def __init_subclass__(cls, access: Access | None = None, tenancy: Tenancy | None = None) -> None:
        super().__init_subclass__()
        changes = {name: value for name, value in (("access", access), ("tenancy", tenancy)) if value is not None}
        for name in _METHODS if changes else ():
            if hasattr(method := getattr(cls, name), "endpoint"):
                setattr(cls, name, redeclared(method, **changes))

    def allowed(self) -> str:
        """Return the methods of this path whose verbs the resource has."""
        every = super().allowed().split(", ")
        return ", ".join(name for name in every if self.verbs.get(name, "search") in {*self.resource.verbs, "search"})

    def feature(self, declared: Endpoint) -> str | None:
        """Return the feature of the method, or else that of the resource."""
        return declared.feature or self.resource.feature

    def operation(self, verb: str, call: Call) -> Callable[..., Any]:
        """Return the operation that serves a verb: the resource's own, or the generic one.

        Raises MethodNotAllowed for a verb that the resource does not have.
        """
        if verb not in {*self.resource.verbs, "search"}:
            raise MethodNotAllowed
        if (own := getattr(self.resource, verb)) is not None:
            return functools.partial(own, self.services, call)
        return functools.partial(getattr(crud, verb), self.services, call, self.resource)

    async def respond(self, document: Document) -> Reply:
        """Return one object in its wrapper."""
        return Reply({self.resource.name: await self.to_response(document)})

    async def respond_all(self, documents: AsyncIterator[Document]) -> Reply:
        """Return a list of any length."""
        return await list_reply(self.resource.plural, documents, self.to_response)

    async def to_response(self, document: Document) -> Document:
        """Return the object as the caller may see it."""
        if self.resource.to_response is not None:
            return await self.resource.to_response(self.services, self.caller, document)
        return crud.to_caller_response(self.services, self.caller, self.resource, document)

    def path_name(self, name: str) -> str:
        """Return the name of the id in the path: that of the resource."""
        return self.resource.id_name if name == "object_id" else super().path_name(name)

    def missing_id(self) -> Invalid:
        """Return the error of a method that needs an id in the path."""
        name = self.resource.id_name
        return Invalid.field("missing", name, f"You must specify the [{name}] in the path.")


class CollectionHandler(ResourceHandler):
    """`/api/x`: create with a random id, retrieve all; PUT, PATCH and DELETE lack their id."""

    verbs = {"POST": "create", "GET": "retrieve_all", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_OBJECT)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return await self.respond(await self.operation("create", call)(body, None))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Retrieve all."""
        return await self.respond_all(self.operation("retrieve_all", call)())

    @endpoint(access=Access.API_KEY, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        self.operation(self.verbs[self.method], call)
        raise self.missing_id()

    patch = delete = put


class ObjectHandler(ResourceHandler):
    """`/api/x/{id}`: create with that id, retrieve, update, patch, delete."""

    verbs = {"POST": "create", "GET": "retrieve", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_OBJECT)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return await self.respond(await self.operation("create", call)(body, object_id))

    @endpoint(access=Access.API_KEY, answer=_OBJECT)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return await self.respond(await self.operation("retrieve", call)(object_id))

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_OBJECT)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        return await self.respond(await self.operation("update", call)(body, object_id))

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_OBJECT)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        content_type, patch = self.patch_body()
        return await self.respond(await self.operation("patch", call)(content_type, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Delete."""
        await self.operation("delete", call)(object_id)
        return Reply()


class SearchHandler(ResourceHandler):
    """`/api/x/search`: by query or by body, with the same names."""

    def query_of(self, declared: Endpoint) -> Query:
        """Return the search parameters of the resource and the query parameters of the method."""
        return {**searches.parameters(self.resource.search_rules), **super().query_of(declared)}

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return await self.search(call, self.query(), "")

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        return await self.search(call, criteria_of(body), "search.")

    async def search(self, call: Call, criteria: Mapping[str, Any], prefix: str) -> Reply:
        """Search by criteria that the request has under `prefix`."""
        total, documents = await self.operation("search", call)(criteria, prefix)
        objects = [await self.to_response(document) for document in documents]
        return Reply({"total": total, self.resource.plural: objects})


def criteria_of(body: Document, name: str = "search") -> Document:
    """Return the criteria in the body of a search. Raises Invalid."""
    criteria = body.get(name)
    if criteria is not None and not isinstance(criteria, dict):
        raise Invalid.field("invalidJSON", name, f"The [{name}] property must be an object.")
    return criteria or {}


def routes(
    *resources: Resource,
    collection: type[ResourceHandler] = CollectionHandler,
    item: type[ResourceHandler] = ObjectHandler,
    search: type[ResourceHandler] = SearchHandler,
) -> Iterable[Route]:
    """Yield the routes of resources, with the handlers of their collections, their objects and their searches."""
    for resource in resources:
        arguments = {"resource": resource}
        if "search" in resource.verbs:
            yield Route(f"{resource.path}/search", search, arguments)
        yield Route(resource.path, collection, arguments)
        yield Route(f"{resource.path}/{{object_id}}", item, arguments)
