"""/api/user/bulk: deactivation or deletion of many users at once."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.search import whole_number
from identity.operations.users import user_deletions
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, endpoint


class UserBulkHandler(ApiHandler):
    """`/api/user/bulk`."""

    @endpoint(
        access=Access.API_KEY,
        query={
            "dryRun": "boolean",
            "hardDelete": "boolean",
            "limit": "integer",
            "query": "text",
            "queryString": "text",
            "userId": "uuids",
            "userIds": "uuids",
        },
        takes=user_deletions.REQUEST,
        answer="api/user-delete.response.json",
    )
    async def delete(self, call: Call) -> Reply:
        """Deactivate, or with `hardDelete` delete; the body takes precedence over the query."""
        body = {name: value for name, value in self.optional_body().items() if value is not None}
        request = {**self._query_members(), **body}
        return Reply(await user_deletions.delete(self.services, call, request))

    def _query_members(self) -> Document:
        query = self.query()
        found: Document = {**self.given_parameters("query", "queryString")}
        found |= {name: self.flag(name) for name in ("dryRun", "hardDelete") if query.get(name)}
        if user_ids := [*self.texts("userId"), *self.texts("userIds")]:
            found["userIds"] = user_ids
        if limit := query.get("limit"):
            number = whole_number(limit)
            found["limit"] = limit if number is None else number
        return found


ROUTES = [Route("/api/user/bulk", UserBulkHandler)]
