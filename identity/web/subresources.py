"""Serves the parts of a document, such as the roles of an application, over HTTP."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.subresources import Subresource
from identity.errors import Invalid
from identity.operations.objects import subresources as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Endpoint, Reply, endpoint

_SCHEMA = "{subresource.schema}"
_ANSWER = f"{_SCHEMA}#{{subresource.name}}"


class SubresourceCollectionHandler(ApiHandler):
    """The list of parts: create one; remove one by name."""

    subresource: Subresource

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, owner_id: str, body: Document) -> Reply:
        """Create with a random id."""
        return self.shown(await operations.add(self.services, call, self.subresource, owner_id, body, None))

    @endpoint(access=Access.API_KEY, query={"name": "text"})
    async def delete(self, call: Call, owner_id: str) -> Reply:
        """Remove by `?name=`."""
        name, called = self.query().get("name"), self.subresource.id_name
        if not name:
            raise Invalid.field("missing", called, f"You must specify the [{called}] in the path.")
        await operations.remove(self.services, call, self.subresource, owner_id, "name", name)
        return Reply()

    def shown(self, entry: Document) -> Reply:
        """A part as the API shows it."""
        return Reply(self.services.schemas[self.subresource.schema].show({self.subresource.name: entry}))

    def feature(self, declared: Endpoint) -> str | None:
        """That of the method, the part or its owner."""
        return declared.feature or self.subresource.feature or self.subresource.owner.feature

    def path_name(self, name: str) -> str:
        """Ids by the names the API gives them."""
        return self.subresource.owner.id_name if name == "owner_id" else self.subresource.id_name


class SubresourceHandler(SubresourceCollectionHandler):
    """One part."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, owner_id: str, subresource_id: str, body: Document) -> Reply:
        """Create with that id."""
        return self.shown(await operations.add(self.services, call, self.subresource, owner_id, body, subresource_id))

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, owner_id: str, subresource_id: str, body: Document) -> Reply:
        """Replace."""
        return self.shown(
            await operations.replace(self.services, call, self.subresource, owner_id, body, subresource_id)
        )

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Change members."""
        kind, patch = self.patch_body()
        return self.shown(
            await operations.patch(self.services, call, self.subresource, owner_id, kind, patch, subresource_id)
        )

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Remove."""
        await operations.remove(self.services, call, self.subresource, owner_id, "id", subresource_id)
        return Reply()


class ReadableSubresourceHandler(SubresourceHandler):
    """One part of a kind that can be retrieved by itself."""

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Retrieve."""
        return self.shown(await operations.retrieve(self.services, call, self.subresource, owner_id, subresource_id))


def routes(subresource: Subresource, handler: type[SubresourceHandler] = SubresourceHandler) -> list[Route]:
    """The routes of a kind of part."""
    path = f"{subresource.owner.path}/{{owner_id}}/{subresource.name}"
    return [
        Route(path, SubresourceCollectionHandler, {"subresource": subresource}),
        Route(f"{path}/{{subresource_id}}", handler, {"subresource": subresource}),
    ]
