"""/api/system/login-record and /api/user/recent-login: records of logins."""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.operations.login import login_failures, login_records
from identity.web.api import exports
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import criteria_of
from identity.web.endpoint import Access, Endpoint, Query, Reply, Tenancy, endpoint

_ANSWER = "api/login-record.response.json"


class SearchHandler(ApiHandler):
    """Search the login records."""

    def query_of(self, declared: Endpoint) -> Query:
        """Return the search parameters and the query parameters of the method."""
        return {**searches.parameters(login_records.SEARCH), **super().query_of(declared)}

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, query={"retrieveTotal": "boolean"}, answer=_ANSWER)
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return await self.found(call, self.query(), "", with_total=self.flag("retrieveTotal"))

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        tenancy=Tenancy.AS_NAMED,
        takes="api/login-record-search.request.json",
        answer=_ANSWER,
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Search by a JSON body."""
        self.services.schemas["api/login-record-search.request.json"].read(body)
        return await self.found(call, criteria_of(body), "search.", with_total=body.get("retrieveTotal") is True)

    async def found(self, call: Call, criteria: Mapping[str, object], prefix: str, *, with_total: bool) -> Reply:
        """Search by criteria."""
        return Reply(await login_records.search(self.services, call, criteria, prefix, with_total=with_total))


class RecentLoginsHandler(ApiHandler):
    """The newest login records."""

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.AS_NAMED,
        query={"limit": "integer", "offset": "integer", "userId": "uuid"},
        answer=f"{_ANSWER}#logins",
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve those of a user, or of all users."""
        query = self.query()
        found = await login_records.find_recent(
            self.services, call, query.get("userId"), query.get("offset"), query.get("limit")
        )
        return Reply({"logins": found})


class FailedLoginsHandler(ApiHandler):
    """The recent failed logins of a user."""

    @endpoint(access=Access.API_KEY, answer="api/failed-login.response.json")
    async def get(self, call: Call, user_id: str) -> Reply:
        """Retrieve up to 25 failed logins of the last 30 days."""
        return Reply(await login_failures.find(self.services, call, user_id))


ROUTES = [
    Route("/api/system/login-record/search", SearchHandler),
    exports.route(
        "/api/system/login-record/export",
        login_records.EXPORT,
        login_records.export,
        "api/login-record-export.request.json",
    ),
    Route("/api/user/recent-login", RecentLoginsHandler),
    Route("/api/user/failed-login/{user_id}", FailedLoginsHandler),
]
