"""The audit log: who changed what, written by callers, and by the service itself where `audit.api_writes` is on.

Secrets are masked before a row is stored. Old and new value may be any JSON; they are stored as its text, in which
they can be searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import orjson

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.domain.objects.secret_masking import masked
from identity.errors import FieldError, Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId
from identity.operations.objects import csv_exports
from identity.operations.objects.csv_exports import Export
from identity.services import Services
from identity.store.mongo import Session

_VALUES = ("newValue", "oldValue")


async def create(services: Services, call: Call, body: Document) -> Document:
    """Add a row, and announce it. Raises Invalid."""
    given, errors = services.schemas[RESOURCE.schema].examine(body)
    wanted = given.get("auditLog")
    tenant_id, more = await _tenant(services, call, wanted if isinstance(wanted, dict) else {}, errors)
    if errors or more:
        raise Invalid([*errors, *more])
    return await add(services, call, wanted, tenant_id)


async def add(services: Services, call: Call, wanted: Document, tenant_id: TenantId | None) -> Document:
    """Write a row of a tenant, or of the instance, and answer it as it is shown."""
    row: Document = {
        **masked(wanted),
        "id": await services.audit_logs.next_id(),
        "insertInstant": call.now,
    }
    if tenant_id is not None:
        row["tenantId"] = tenant_id
    texts = {name: as_text(row[name]) for name in _VALUES if name in row}

    async def write(session: Session | None) -> None:
        await services.audit_logs.insert(tenant_id, {**row, **texts}, session)

    event = Event("audit-log.create", {"auditLog": row}, tenant_id=tenant_id)
    await services.bus.perform(call, write, announced=[event])
    return row


async def retrieve(services: Services, call: Call, row_id: int) -> Document:
    """One row that the caller's tenant may see. Raises NotFound."""
    row = await services.audit_logs.find(call.tenant_id, row_id)
    if row is None:
        raise NotFound
    return opened(row)


async def search(services: Services, call: Call, request: Mapping[str, Any], prefix: str) -> tuple[int, list[Document]]:
    """How many rows match, and one page of them. Raises Invalid."""
    total, rows = await services.audit_logs.search(
        call.tenant_id, searches.read(RESOURCE.search_rules, request, prefix)
    )
    return total, [opened(row) for row in rows]


RESOURCE = Resource(
    "auditLog",
    "/api/system/audit-log",
    "api/audit-log.json",
    "audit_logs",
    "auditLogs",
    "Audit log",
    verbs=frozenset({"create", "retrieve", "search"}),
    search_rules=SearchRules(
        {
            "start": "from",
            "end": "until",
            "message": "text",
            "user": "text",
            "newValue": "text",
            "oldValue": "text",
            "reason": "text",
            "tenantId": "exact",
        },
        {"insertInstant": "insertInstant", "insertUser": "insertUser", "message": "message", "tenant": "tenantId"},
        default="insertInstant DESC",
        members={"start": "insertInstant", "end": "insertInstant", "user": "insertUser"},
        long=frozenset({"message", "newValue", "oldValue", "reason"}),
    ),
    search=search,
)
"""What the API can ask of the audit log."""


EXPORT = csv_exports.Kind(
    "audit-log",
    ("id", "insertInstant", "insertUser", "message", "reason", "oldValue", "newValue", "data", "tenantId"),
    frozenset({"insertInstant"}),
    RESOURCE.search_rules,
)
"""The audit log as a file."""


async def export(services: Services, call: Call, wanted: Export) -> IO[bytes]:
    """The zip of every row that matches and that the caller's tenant may see. Whoever takes it closes it."""
    return await csv_exports.export(wanted, services.audit_logs.iterate(call.tenant_id, wanted.query))


def as_text(value: Any) -> str:
    """A value as JSON text."""
    return orjson.dumps(value).decode()


def opened(row: Document) -> Document:
    """A stored row with its values as JSON."""
    return {**row, **{name: orjson.loads(row[name]) for name in _VALUES if name in row}}


async def _tenant(
    services: Services, call: Call, wanted: Mapping[str, Any], errors: list[FieldError]
) -> tuple[TenantId | None, list[FieldError]]:
    """The tenant of a new row: the one the row names, which must be the caller's own if that is in one."""
    path = "auditLog.tenantId"
    named = wanted.get("tenantId")
    if named is None or any(error.path == path for error in errors):
        return call.tenant_id, []
    is_foreign = call.tenant_id is not None and named != call.tenant_id
    if is_foreign or await services.tenants.find_cached(None, named) is None:
        return None, [FieldError.of("invalid", path, f"The [{path}] must be the id of a tenant that you may use.")]
    return TenantId(named), []
