"""The handlers of subresources, such as the roles of an application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Subresource
from identity.errors import Invalid
from identity.operations.objects import subresources as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Endpoint, Reply, endpoint

_SCHEMA = "{subresource.schema}"
_ANSWER = f"{_SCHEMA}#{{subresource.name}}"


class SubresourceCollectionHandler(ApiHandler):
    """The subresources of an object: create one; delete one by name."""

    subresource: Subresource

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, owner_id: str, body: Document) -> Reply:
        """Create with a random id."""
        return await self.run_operation(operations.create, call, owner_id, body, None)

    @endpoint(access=Access.API_KEY, query={"name": "text"})
    async def delete(self, call: Call, owner_id: str) -> Reply:
        """Delete by `?name=`."""
        name, id_name = self.query().get("name"), self.subresource.id_name
        if not name:
            raise Invalid.field("missing", id_name, f"You must specify the [{id_name}] in the path.")
        await operations.delete(self.services, call, self.subresource, owner_id, "name", name)
        return Reply()

    async def run_operation(
        self, operation: Callable[..., Awaitable[Document]], call: Call, owner_id: str, *arguments: object
    ) -> Reply:
        """Return the result of an operation, one subresource, in its wrapper."""
        entry = await operation(self.services, call, self.subresource, owner_id, *arguments)
        return Reply(self.services.schemas[self.subresource.schema].show({self.subresource.name: entry}))

    def feature(self, declared: Endpoint) -> str | None:
        """Return the feature of the method, or else that of the subresource or of its owner."""
        return declared.feature or self.subresource.feature or self.subresource.owner.feature

    def path_name(self, name: str) -> str:
        """Return the published name of an id."""
        return self.subresource.owner.id_name if name == "owner_id" else self.subresource.id_name


class SubresourceHandler(SubresourceCollectionHandler):
    """One subresource."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def post(self, call: Call, owner_id: str, subresource_id: str, body: Document) -> Reply:
        """Create with that id."""
        return await self.run_operation(operations.create, call, owner_id, body, subresource_id)

    @endpoint(access=Access.API_KEY, raw_body=True, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, owner_id: str, subresource_id: str, body: Document) -> Reply:
        """Replace."""
        return await self.run_operation(operations.update, call, owner_id, body, subresource_id)

    @endpoint(access=Access.API_KEY, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Change members."""
        content_type, patch = self.patch_body()
        return await self.run_operation(operations.patch, call, owner_id, content_type, patch, subresource_id)

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Delete."""
        await operations.delete(self.services, call, self.subresource, owner_id, "id", subresource_id)
        return Reply()


class ReadableSubresourceHandler(SubresourceHandler):
    """One subresource of a kind that can be retrieved by itself."""

    @endpoint(access=Access.API_KEY, answer=_ANSWER)
    async def get(self, call: Call, owner_id: str, subresource_id: str) -> Reply:
        """Retrieve."""
        return await self.run_operation(operations.retrieve, call, owner_id, subresource_id)


def routes(subresource: Subresource, handler: type[SubresourceHandler] = SubresourceHandler) -> list[Route]:
    """Return the routes of a kind of subresource."""
    path = f"{subresource.owner.path}/{{owner_id}}/{subresource.name}"
    return [
        Route(path, SubresourceCollectionHandler, {"subresource": subresource}),
        Route(f"{path}/{{subresource_id}}", handler, {"subresource": subresource}),
    ]
