"""/api/system/login-record and /api/user/recent-login: who logged in when, from where and to what."""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain import search as searches
from identity.operations import csv_exports, login_records
from identity.web.api.logs import zipped
from identity.web.crud import search_of
from identity.web.endpoint import Access, ApiHandler, Endpoint, Query, Reply, Route, Tenancy, endpoint

_ANSWER = "api/login-record.response.json"


class SearchedFamily(ApiHandler):
    """What is asked with the criteria of a search."""

    def query_of(self, declared: Endpoint) -> Query:
        """The criteria, beside what a method declares."""
        return {**searches.parameters(login_records.SEARCH), **super().query_of(declared)}


class SearchHandler(SearchedFamily):
    """Search the login records."""

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
        return await self.found(call, search_of(body), "search.", with_total=body.get("retrieveTotal") is True)

    async def found(self, call: Call, criteria: Mapping[str, object], prefix: str, *, with_total: bool) -> Reply:
        """The answer to both forms."""
        return Reply(await login_records.search(self.services, call, criteria, prefix, with_total=with_total))


class ExportHandler(SearchedFamily):
    """The login records as a file."""

    @endpoint(
        access=Access.API_KEY,
        query={"dateTimeSecondsFormat": "text", "zoneId": "text"},
        tenancy=Tenancy.AS_NAMED,
        answer="application/zip",
    )
    async def get(self, call: Call) -> Reply:
        """Export by query parameters."""
        return await self.exported(call, self.query(), self.query(), "")

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        tenancy=Tenancy.AS_NAMED,
        takes="api/login-record-export.request.json",
        answer="application/zip",
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Export by a JSON body, with `criteria`."""
        return await self.exported(call, body, search_of(body, "criteria"), "criteria.")

    async def exported(
        self, call: Call, request: Mapping[str, object], criteria: Mapping[str, object], prefix: str
    ) -> Reply:
        """Send the zip, piece by piece."""
        zone = self.services.system.settings.report_timezone
        wanted = csv_exports.read(login_records.EXPORT, request, criteria, prefix, zone)
        return zipped(wanted.kind, await login_records.export(self.services, call, wanted))


class RecentLoginsHandler(ApiHandler):
    """The newest login records."""

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.AS_NAMED,
        query={"limit": "integer", "offset": "integer", "userId": "uuid"},
        answer=f"{_ANSWER}#logins",
    )
    async def get(self, call: Call) -> Reply:
        """Those of a user, or of all."""
        query = self.query()
        found = await login_records.recent(
            self.services, call, query.get("userId"), query.get("offset"), query.get("limit")
        )
        return Reply({"logins": found})


ROUTES = [
    Route("/api/system/login-record/search", SearchHandler),
    Route("/api/system/login-record/export", ExportHandler),
    Route("/api/user/recent-login", RecentLoginsHandler),
]
