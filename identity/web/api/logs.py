"""/api/system/audit-log, event-log and login-record: searches of the logs, and their exports as zipped CSV files."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import IO, ClassVar

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.errors import Invalid
from identity.operations.login import login_failures, login_records
from identity.operations.objects import audit_logs, csv_exports, event_logs
from identity.operations.users import data_export
from identity.services import Services
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import ResourceHandler, SearchHandler, criteria_of
from identity.web.endpoint import Access, Endpoint, Query, Reply, Tenancy, calls, endpoint

_AUDIT_LOG = "api/audit-log.json#auditLog"
_EVENT_LOG = "api/event-log.json#eventLog"
Make = Callable[[Services, Call, csv_exports.Export], Awaitable[IO[bytes]]]
_PIECE_BYTES = 65_536
_LOGIN_RECORDS = "api/login-record.response.json"


class ExportHandler(ApiHandler):
    """The export of one log."""

    kind: csv_exports.Kind
    make: Make
    schema: str
    criteria_names: Sequence[str]
    """The accepted names of the criteria in a body, the published one last."""

    def query_of(self, declared: Endpoint) -> Query:
        """Return the search parameters of the log and the query parameters of the method."""
        return {**searches.parameters(self.kind.search), **super().query_of(declared)}

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
        access=Access.API_KEY, raw_body=True, tenancy=Tenancy.AS_NAMED, takes="{schema}", answer="application/zip"
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Export by a JSON body."""
        name = next((name for name in self.criteria_names if name in body), self.criteria_names[-1])
        return await self.exported(call, body, criteria_of(body, name), f"{name}.")

    async def exported(
        self, call: Call, request: Mapping[str, object], criteria: Mapping[str, object], prefix: str
    ) -> Reply:
        """Stream the zip file."""
        wanted = csv_exports.read(self.services, self.kind, request, criteria, prefix)
        file = await self.make(self.services, call, wanted)
        disposition = f'attachment; filename="{self.kind.file_name}.zip"'
        headers = {"Content-Type": "application/zip", "Content-Disposition": disposition}
        return Reply(pieces=_pieces(file), headers=headers)


def export_route(
    path: str, kind: csv_exports.Kind, make: Make, schema: str, criteria_names: Sequence[str] = ("criteria",)
) -> Route:
    """Return the route of the export of one log; `schema` is that of its JSON bodies."""
    given = {"kind": kind, "make": make, "schema": schema, "criteria_names": criteria_names}
    return Route(path, ExportHandler, given)


async def _pieces(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


class LogHandler(ResourceHandler):
    """Shared by both logs: rows have numbers, and cannot be changed or deleted."""

    uuid_paths: ClassVar[bool] = False

    def number(self, text: str) -> int:
        """Return the number of a row in the path. Raises Invalid."""
        if not re.fullmatch(r"[0-9]{1,18}", text):
            name = self.resource.id_name
            raise Invalid.field("couldNotConvert", name, f"The [{name}] in the path must be a whole number.")
        return int(text)


class AuditLogsHandler(LogHandler):
    """Add a row."""

    resource = audit_logs.RESOURCE

    @endpoint(
        access=Access.API_KEY, raw_body=True, tenancy=Tenancy.AS_NAMED, takes="api/audit-log.json", answer=_AUDIT_LOG
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return await self.respond(await audit_logs.create(self.services, call, body))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, answer={})
    async def get(self, call: Call) -> Reply:
        """Refuse: the number is missing."""
        raise self.missing_id()


class AuditLogHandler(LogHandler):
    """One row."""

    resource = audit_logs.RESOURCE

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, answer=_AUDIT_LOG)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return await self.respond(await audit_logs.retrieve(self.services, call, self.number(object_id)))


class AuditLogSearchHandler(SearchHandler, tenancy=Tenancy.AS_NAMED):
    """Search the audit log."""


class EventLogHandler(LogHandler):
    """One row."""

    resource = event_logs.RESOURCE

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer=_EVENT_LOG)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return await self.respond(await event_logs.retrieve(self.services, self.number(object_id)))


class LoginRecordSearchHandler(ApiHandler):
    """Search the login records."""

    def query_of(self, declared: Endpoint) -> Query:
        """Return the search parameters and the query parameters of the method."""
        return {**searches.parameters(login_records.SEARCH), **super().query_of(declared)}

    @endpoint(
        access=Access.API_KEY, tenancy=Tenancy.AS_NAMED, query={"retrieveTotal": "boolean"}, answer=_LOGIN_RECORDS
    )
    async def get(self, call: Call) -> Reply:
        """Search by query parameters."""
        return await self.found(call, self.query(), "", with_total=self.flag("retrieveTotal"))

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        tenancy=Tenancy.AS_NAMED,
        takes="api/login-record-search.request.json",
        answer=_LOGIN_RECORDS,
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
        answer=f"{_LOGIN_RECORDS}#logins",
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

    get = calls(
        login_failures.find,
        "Retrieve up to 25 failed logins of the last 30 days.",
        answer="api/failed-login.response.json",
    )


class UserDataHandler(ApiHandler):
    """What is stored about a user."""

    get = calls(
        data_export.export,
        "Export what is stored about a user, without credentials.",
        answer="api/user-data.response.json",
    )


ROUTES = [
    Route("/api/system/audit-log", AuditLogsHandler),
    Route("/api/system/audit-log/search", AuditLogSearchHandler, {"resource": audit_logs.RESOURCE}),
    # The published name of the criteria is `criteria`, elsewhere it is `search`.
    export_route(
        "/api/system/audit-log/export",
        audit_logs.EXPORT,
        audit_logs.export,
        "api/audit-log-export.request.json",
        ("search", "criteria"),
    ),
    Route("/api/system/audit-log/{object_id}", AuditLogHandler),
    Route("/api/system/event-log/search", SearchHandler, {"resource": event_logs.RESOURCE}),
    Route("/api/system/event-log/{object_id}", EventLogHandler),
    Route("/api/system/login-record/search", LoginRecordSearchHandler),
    export_route(
        "/api/system/login-record/export",
        login_records.EXPORT,
        login_records.export,
        "api/login-record-export.request.json",
    ),
    Route("/api/user/recent-login", RecentLoginsHandler),
    Route("/api/user/failed-login/{user_id}", FailedLoginsHandler),
    Route("/api/user/data-export/{user_id}", UserDataHandler),
]
