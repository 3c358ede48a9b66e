"""The audit log: rows of callers, and of the service itself if `audit.api_writes` is on.

Secrets are masked before a row is stored. Old and new values may be any JSON; they are stored as JSON text, which can
be searched.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import IO, Any

import orjson

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.domain.objects.secret_masking import masked
from identity.errors import FieldError, Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.operations.objects import csv_exports
from identity.operations.objects.csv_exports import Export
from identity.services import Services

_VALUES = ("newValue", "oldValue")


async def create(services: Services, call: Call, body: Document) -> Document:
    """Create a row and notify webhooks. Raises Invalid."""
    given, errors = services.schemas[RESOURCE.schema].examine(body)
    wanted = given.get("auditLog")
    tenant_id, more = await _tenant_of_row(services, call, wanted if isinstance(wanted, dict) else {}, errors)
    if errors or more:
        raise Invalid([*errors, *more])
    return await add(services, call, wanted, tenant_id)


async def add(services: Services, call: Call, wanted: Document, tenant_id: TenantId | None) -> Document:
    """Store a row of a tenant, or of the instance, and return it as the API shows it."""
    row: Document = {
        **masked(wanted),
        "id": await services.logs.audit_logs.next_id(),
        "insertInstant": call.now,
    }
    if tenant_id is not None:
        row["tenantId"] = tenant_id
    texts = {name: as_text(row[name]) for name in _VALUES if name in row}

    write = functools.partial(services.logs.audit_logs.insert, tenant_id, {**row, **texts})
    event = Event("audit-log.create", {"auditLog": row}, tenant_id=tenant_id)
    await services.bus.commit(call, Change([write], after_commit=[event]))
    return row


async def retrieve(services: Services, call: Call, row_id: int) -> Document:
    """Return a row that the caller's tenant may see. Raises NotFound."""
    row = await services.logs.audit_logs.find(call.tenant_id, row_id)
    if row is None:
        raise NotFound
    return with_json_values(row)


async def search(services: Services, call: Call, request: Mapping[str, Any], prefix: str) -> tuple[int, list[Document]]:
    """Return how many rows match, and one page of them. Raises Invalid."""
    total, rows = await services.logs.audit_logs.search(
        call.tenant_id, searches.read(RESOURCE.search_rules, request, prefix)
    )
    return total, [with_json_values(row) for row in rows]


RESOURCE = Resource(
    "auditLog",
    path="/api/system/audit-log",
    label="Audit log",
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
"""The audit log in the API."""


EXPORT = csv_exports.Kind(
    "audit-log",
    ("id", "insertInstant", "insertUser", "message", "reason", "oldValue", "newValue", "data", "tenantId"),
    frozenset({"insertInstant"}),
    RESOURCE.search_rules,
)
"""The export of the audit log."""


async def export(services: Services, call: Call, wanted: Export) -> IO[bytes]:
    """Return a zip file with every matching row that the caller's tenant may see. The caller closes it."""
    return await csv_exports.export(wanted, services.logs.audit_logs.iterate(call.tenant_id, wanted.query))


def as_text(value: Any) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(value).decode()


def with_json_values(row: Document) -> Document:
    """Return a stored row with its values as JSON."""
    return {**row, **{name: orjson.loads(row[name]) for name in _VALUES if name in row}}


async def _tenant_of_row(
    services: Services, call: Call, wanted: Mapping[str, Any], errors: list[FieldError]
) -> tuple[TenantId | None, list[FieldError]]:
    """Return the tenant of a new row: the one that it names, which must be the caller's own if the caller has one."""
    path = "auditLog.tenantId"
    named = wanted.get("tenantId")
    if named is None or any(error.path == path for error in errors):
        return call.tenant_id, []
    is_foreign = call.tenant_id is not None and named != call.tenant_id
    if is_foreign or await services.configuration.tenants.find_cached(None, named) is None:
        return None, [FieldError.invalid(path, "must be the id of a tenant that you may use")]
    return TenantId(named), []
