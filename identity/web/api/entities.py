"""/api/entity: entity types with their permissions, entities, and the grants on them."""

from __future__ import annotations

from identity.call import Call
from identity.domain.entities.entities import RECIPIENTS
from identity.operations.entities import entities, entity_grants, entity_types
from identity.web import crud, subresources
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint
from identity.web.index_search import IndexSearchHandler

_FEATURE = entity_types.FEATURE


class GrantsHandler(ApiHandler):
    """The grants on one entity."""

    post = calls(
        entity_grants.upsert, "Create a grant, or replace it.", takes=entity_grants.RESOURCE.schema, feature=_FEATURE
    )

    put = post

    @endpoint(
        access=Access.API_KEY,
        answer="api/entity-grants.response.json",
        query={"recipientEntityId": "uuid", "userId": "uuid"},
        feature=_FEATURE,
    )
    async def get(self, call: Call, entity_id: str) -> Reply:
        """Retrieve the grant of one recipient, or all of them."""
        if recipient := self.given_parameters(*RECIPIENTS):
            return Reply({"grant": await entity_grants.retrieve(self.services, call, entity_id, recipient)})
        return Reply({"grants": await entity_grants.retrieve_all(self.services, call, entity_id)})

    @endpoint(access=Access.API_KEY, query={"recipientEntityId": "uuid", "userId": "uuid"}, feature=_FEATURE)
    async def delete(self, call: Call, entity_id: str) -> Reply:
        """Delete the grant of one recipient."""
        await entity_grants.delete(self.services, call, entity_id, self.given_parameters(*RECIPIENTS))
        return Reply()


ROUTES = [
    *crud.routes(entity_types.RESOURCE),
    *subresources.routes(entity_types.PERMISSION),
    Route(
        "/api/entity/search",
        IndexSearchHandler,
        {"found": "api/entity-search.response.json", "operation": entities.search, "required_feature": _FEATURE},
    ),
    Route("/api/entity/grant/search", crud.SearchHandler, {"resource": entity_grants.RESOURCE}),
    *crud.routes(entities.RESOURCE),
    Route("/api/entity/{entity_id}/grant", GrantsHandler),
]
