"""/api/application, with its roles, scopes and OAuth configuration."""

from __future__ import annotations

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.applications import Part
from identity.domain.resource import Resource
from identity.errors import Invalid
from identity.operations import applications as operations
from identity.web.crud import CollectionHandler, ObjectHandler, SearchHandler
from identity.web.endpoint import Access, ApiHandler, Reply, Route, endpoint


class ApplicationsHandler(CollectionHandler):
    """Create with a random id, retrieve all."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return self.shown(await operations.create(self.services, call, body, None))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call) -> Reply:
        """Retrieve the active applications, or with `inactive` the others."""
        found = await operations.retrieve_all(self.services, call, inactive=self.flag("inactive"))
        return Reply({"applications": self.listed(found)})


class ApplicationHandler(ObjectHandler):
    """One application."""

    resource: Resource = operations.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return self.shown(await operations.create(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def put(self, call: Call, object_id: str) -> Reply:
        """Replace, or with `reactivate` switch on again."""
        if self.flag("reactivate"):
            return self.shown(await operations.reactivate(self.services, call, object_id))
        return self.shown(await operations.update(self.services, call, self.json_object(), object_id))

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return self.shown(await operations.patch(self.services, call, kind, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Deactivate, or with `hardDelete` remove."""
        body = self.json_object() if self.request.body else {}
        if self.flag("hardDelete") or body.get("hardDelete") is True:
            await operations.delete(self.services, call, object_id)
        else:
            await operations.deactivate(self.services, call, object_id)
        return Reply()


class ApplicationSearchHandler(SearchHandler):
    """Search."""

    resource: Resource = operations.RESOURCE


class OAuthConfigurationHandler(ApiHandler):
    """What a client library asks before a login."""

    def path_name(self, name: str) -> str:
        """The id by the name the API gives it."""
        return "applicationId"

    @endpoint(access=Access.OPTIONAL_KEY)
    async def get(self, call: Call, object_id: str) -> Reply:
        """The OAuth configuration; with the client secret for callers with an API key."""
        with_secret = isinstance(call.caller, ApiKeyCaller)
        return Reply(await operations.oauth_configuration(self.services, call, object_id, with_secret=with_secret))


class PartsHandler(ApiHandler):
    """Roles or scopes of an application: create one; a role may be deleted by name."""

    part: Part

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, application_id: str, body: Document) -> Reply:
        """Create with a random id."""
        return await self.added(call, application_id, body, None)

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, application_id: str) -> Reply:
        """Remove by `?name=`."""
        name = self.query().get("name")
        if not name:
            raise Invalid.field("missing", f"{self.part}Id", f"You must specify the [{self.part}Id] in the path.")
        await operations.remove_part(self.services, call, self.part, application_id, "name", name)
        return Reply()

    async def added(self, call: Call, application_id: str, body: Document, part_id: str | None) -> Reply:
        """A new role or scope."""
        entry = await operations.add_part(self.services, call, self.part, application_id, body, part_id)
        return Reply({self.part: self.shown(entry)})

    def shown(self, entry: Document) -> Document:
        """A role or scope as the API shows it."""
        shown: Document = self.services.schemas[f"api/application-{self.part}.json"].show({self.part: entry})[self.part]
        return shown

    def path_name(self, name: str) -> str:
        """Ids by the names the API gives them."""
        return "applicationId" if name == "application_id" else f"{self.part}Id"


class PartHandler(PartsHandler):
    """One role or scope of an application."""

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, application_id: str, part_id: str, body: Document) -> Reply:
        """Create with that id."""
        return await self.added(call, application_id, body, part_id)

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def put(self, call: Call, application_id: str, part_id: str, body: Document) -> Reply:
        """Replace."""
        entry = await operations.replace_part(self.services, call, self.part, application_id, body, part_id)
        return Reply({self.part: self.shown(entry)})

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, application_id: str, part_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        entry = await operations.patch_part(self.services, call, self.part, application_id, kind, patch, part_id)
        return Reply({self.part: self.shown(entry)})

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, application_id: str, part_id: str) -> Reply:
        """Remove."""
        await operations.remove_part(self.services, call, self.part, application_id, "id", part_id)
        return Reply()


class ScopeHandler(PartHandler):
    """One scope: unlike a role it can be retrieved."""

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call, application_id: str, part_id: str) -> Reply:
        """Retrieve."""
        entry = await operations.retrieve_part(self.services, call, "scope", application_id, part_id)
        return Reply({"scope": self.shown(entry)})


ROUTES = [
    Route("/api/application/search", ApplicationSearchHandler),
    Route("/api/application", ApplicationsHandler),
    Route("/api/application/{object_id}", ApplicationHandler),
    Route("/api/application/{object_id}/oauth-configuration", OAuthConfigurationHandler),
    Route("/api/application/{application_id}/role", PartsHandler, {"part": "role"}),
    Route("/api/application/{application_id}/role/{part_id}", PartHandler, {"part": "role"}),
    Route("/api/application/{application_id}/scope", PartsHandler, {"part": "scope"}),
    Route("/api/application/{application_id}/scope/{part_id}", ScopeHandler, {"part": "scope"}),
]
