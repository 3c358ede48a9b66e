"""/api/entity: entity types with their permissions, entities, and the grants on them."""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.entities.entities import RECIPIENTS
from identity.domain.objects.resource_definition import Resource
from identity.operations.entities import entities, entity_grants, entity_types
from identity.web import crud, index_search, subresources
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import CollectionHandler, ObjectHandler
from identity.web.endpoint import Access, Reply, endpoint

_FEATURE = entity_types.FEATURE
_FOUND = "api/entity-search.response.json"


class TypesHandler(CollectionHandler):
    """Create with a random id, and list."""

    resource: Resource = entity_types.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return self.shown(await entity_types.create(self.services, call, body, None))


class TypeHandler(ObjectHandler):
    """One entity type."""

    resource: Resource = entity_types.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return self.shown(await entity_types.create(self.services, call, body, object_id))


class TypeSearchHandler(crud.SearchHandler):
    """Search."""

    resource: Resource = entity_types.RESOURCE


class EntitiesHandler(CollectionHandler):
    """Create with a random id."""

    resource: Resource = entities.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return self.shown(await entities.create(self.services, call, body, None))


class EntityHandler(ObjectHandler):
    """One entity."""

    resource: Resource = entities.RESOURCE

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return self.shown(await entities.create(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return self.shown(await entities.retrieve(self.services, call, object_id))

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        return self.shown(await entities.update(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return self.shown(await entities.patch(self.services, call, kind, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Remove."""
        await entities.delete(self.services, call, object_id)
        return Reply()


class EntitySearchHandler(index_search.IndexSearchHandler):
    """Search."""

    @endpoint(access=Access.API_KEY, answer=_FOUND, query=index_search.QUERY, feature=_FEATURE)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return Reply(await entities.search(self.services, call, self.criteria(), ""))

    @endpoint(access=Access.API_KEY, raw_body=True, takes=index_search.REQUEST, answer=_FOUND, feature=_FEATURE)
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        return Reply(await entities.search(self.services, call, crud.search_of(body), "search."))

    @endpoint(access=Access.API_KEY, feature=_FEATURE)
    async def put(self, call: Call) -> Reply:
        """Flush the index: the database that is searched here is always up to date."""
        return Reply()


class GrantsHandler(ApiHandler):
    """The grants on one entity."""

    def path_name(self, name: str) -> str:
        """The id by the name the API gives it."""
        return "entityId"

    @endpoint(access=Access.API_KEY, raw_body=True, takes=entity_grants.RESOURCE.schema, feature=_FEATURE)
    async def post(self, call: Call, entity_id: str, body: Document) -> Reply:
        """Make a grant, or replace it."""
        await entity_grants.upsert(self.services, call, entity_id, body)
        return Reply()

    @endpoint(access=Access.API_KEY, raw_body=True, takes=entity_grants.RESOURCE.schema, feature=_FEATURE)
    async def put(self, call: Call, entity_id: str, body: Document) -> Reply:
        """Make a grant, or replace it."""
        await entity_grants.upsert(self.services, call, entity_id, body)
        return Reply()

    @endpoint(
        access=Access.API_KEY,
        answer="api/entity-grants.response.json",
        query={"recipientEntityId": "uuid", "userId": "uuid"},
        feature=_FEATURE,
    )
    async def get(self, call: Call, entity_id: str) -> Reply:
        """Retrieve the grant of one recipient, or all of them."""
        wanted = self.recipient()
        if wanted:
            return Reply({"grant": await entity_grants.retrieve(self.services, call, entity_id, wanted)})
        return Reply({"grants": await entity_grants.retrieve_all(self.services, call, entity_id)})

    @endpoint(access=Access.API_KEY, query={"recipientEntityId": "uuid", "userId": "uuid"}, feature=_FEATURE)
    async def delete(self, call: Call, entity_id: str) -> Reply:
        """Take the grant of one recipient away."""
        await entity_grants.delete(self.services, call, entity_id, self.recipient())
        return Reply()

    def recipient(self) -> Mapping[str, str]:
        """Whose grant is meant, as the query names it."""
        query = self.query()
        return {name: query[name] for name in RECIPIENTS if query.get(name)}


class GrantSearchHandler(crud.SearchHandler):
    """Search."""

    resource: Resource = entity_grants.RESOURCE

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """The answer to both forms."""
        return Reply(await entity_grants.search(self.services, call, criteria, prefix))


ROUTES = [
    Route("/api/entity/type/search", TypeSearchHandler),
    Route("/api/entity/type", TypesHandler),
    Route("/api/entity/type/{object_id}", TypeHandler),
    *subresources.routes(entity_types.PERMISSION),
    Route("/api/entity/search", EntitySearchHandler),
    Route("/api/entity/grant/search", GrantSearchHandler),
    Route("/api/entity", EntitiesHandler),
    Route("/api/entity/{object_id}", EntityHandler),
    Route("/api/entity/{entity_id}/grant", GrantsHandler),
]
