"""Serves every row of resources.py: the five verbs and search, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid, MethodNotAllowed
from identity.operations.objects import crud
from identity.web import streaming_lists
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Endpoint, Query, Reply, endpoint


class ResourceHandler(ApiHandler):
    """Shared by the three paths of a resource."""

    resource: Resource
    verbs: Mapping[str, str] = {}
    """Method -> the verb that the resource must have for it."""

    def allowed(self) -> str:
        """The methods of this path that the resource has a verb for."""
        every = super().allowed().split(", ")
        return ", ".join(name for name in every if self.verbs.get(name, "search") in {*self.resource.verbs, "search"})

    def feature(self, declared: Endpoint) -> str | None:
        """The feature of the method or, mostly, of the whole resource."""
        return declared.feature or self.resource.feature

    def request_schema(self) -> str | None:
        """The schema of the resource, unless the method declares another; a DELETE has none of its own."""
        return super().request_schema() or (None if self.request.method == "DELETE" else self.resource.schema)

    def shown(self, document: Document) -> Reply:
        """One object in its wrapper."""
        return Reply({self.resource.name: self.visible(document)})

    def listed(self, documents: Iterable[Document]) -> list[Document]:
        """Many objects, each as the caller may see it."""
        return [self.visible(document) for document in documents]

    def visible(self, document: Document) -> Document:
        """The object as the caller may see it."""
        return crud.to_caller_response(self.services, self.caller, self.resource, document)

    async def all(self, documents: AsyncIterator[Document]) -> Reply:
        """Everything there is, however much that may be."""
        return await streaming_lists.reply(self.resource.plural, documents, self.visible)

    def path_name(self, name: str) -> str:
        """The id of the object goes by the name of its resource."""
        return self.resource.id_name if name == "object_id" else super().path_name(name)

    def require(self, verb: str) -> None:
        """Raise MethodNotAllowed for a verb that this resource does not have."""
        if verb not in self.resource.verbs:
            raise MethodNotAllowed


class CollectionHandler(ResourceHandler):
    """`/api/x`: create with a random id, retrieve all; PUT, PATCH and DELETE miss their id."""

    verbs = {"POST": "create", "GET": "retrieve_all", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        self.require("create")
        return self.shown(await crud.create(self.services, call, self.resource, body, None))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Retrieve all."""
        self.require("retrieve_all")
        return await self.all(crud.retrieve_each(self.services, call, self.resource))

    @endpoint(access=Access.API_KEY, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise self.missing_id("update")

    @endpoint(access=Access.API_KEY, answer={})
    async def patch(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise self.missing_id("patch")

    @endpoint(access=Access.API_KEY, answer={})
    async def delete(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise self.missing_id("delete")

    def missing_id(self, verb: str) -> Invalid:
        """The error of a verb that needs an id in the path."""
        self.require(verb)
        name = self.resource.id_name
        return Invalid.field("missing", name, f"You must specify the [{name}] in the path.")


class ObjectHandler(ResourceHandler):
    """`/api/x/{id}`: create with that id, retrieve, update, patch, delete."""

    verbs = {"POST": "create", "GET": "retrieve", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        self.require("create")
        return self.shown(await crud.create(self.services, call, self.resource, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        self.require("retrieve")
        return self.shown(await crud.retrieve(self.services, call, self.resource, object_id))

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        self.require("update")
        return self.shown(await crud.update(self.services, call, self.resource, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        self.require("patch")
        kind, patch = self.patch_body()
        return self.shown(await crud.patch(self.services, call, self.resource, kind, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Remove."""
        self.require("delete")
        await crud.delete(self.services, call, self.resource, object_id)
        return Reply()


class SearchHandler(ResourceHandler):
    """`/api/x/search`: by query or by body, with the same names."""

    def query_of(self, declared: Endpoint) -> Query:
        """What the row says can be searched for."""
        return {**searches.parameters(self.resource.search), **super().query_of(declared)}

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return await self.found(call, self.query(), "")

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        return await self.found(call, search_of(body), "search.")

    def request_schema(self) -> str | None:
        """None: criteria are declared by the row, not by a schema."""
        return None

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """The answer to both forms."""
        total, documents = await crud.search(self.services, call, self.resource, criteria, prefix)
        return Reply({"total": total, self.resource.plural: self.listed(documents)})


def search_of(body: Document, name: str = "search") -> Document:
    """The criteria in the body of a search. Raises Invalid."""
    criteria = body.get(name)
    if criteria is not None and not isinstance(criteria, dict):
        raise Invalid.field("invalidJSON", name, f"The [{name}] property must be an object.")
    return criteria or {}


def routes(resources: Iterable[Resource]) -> list[Route]:
    """The routes of declared resources."""
    found = []
    for resource in resources:
        arguments = {"resource": resource}
        if "search" in resource.verbs:
            found.append(Route(f"{resource.path}/search", SearchHandler, arguments))
        found.append(Route(resource.path, CollectionHandler, arguments))
        found.append(Route(f"{resource.path}/{{object_id}}", ObjectHandler, arguments))
    return found
