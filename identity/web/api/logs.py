"""/api/system/audit-log and /api/system/event-log."""

from __future__ import annotations

import re
from typing import ClassVar

from identity.call import Call, Document
from identity.errors import Invalid
from identity.operations.objects import audit_logs, event_logs
from identity.web.api import exports
from identity.web.base_handlers import Route
from identity.web.crud import ResourceHandler, SearchHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_AUDIT_LOG = "api/audit-log.json#auditLog"
_EVENT_LOG = "api/event-log.json#eventLog"


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


ROUTES = [
    Route("/api/system/audit-log", AuditLogsHandler),
    Route("/api/system/audit-log/search", AuditLogSearchHandler, {"resource": audit_logs.RESOURCE}),
    # The published name of the criteria is `criteria`, elsewhere it is `search`.
    exports.route(
        "/api/system/audit-log/export",
        audit_logs.EXPORT,
        audit_logs.export,
        "api/audit-log-export.request.json",
        ("search", "criteria"),
    ),
    Route("/api/system/audit-log/{object_id}", AuditLogHandler),
    Route("/api/system/event-log/search", SearchHandler, {"resource": event_logs.RESOURCE}),
    Route("/api/system/event-log/{object_id}", EventLogHandler),
]
