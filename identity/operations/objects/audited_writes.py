"""Rows of the audit log for management calls that changed something.

Calls of administrators on the console are always recorded, those of API keys and SCIM clients with `audit.api_writes`.
The row has the caller (name of the administrator or entity, description or id of the API key), the time, the endpoint
and the address; never the request body, which may hold secrets and personal data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import structlog

from identity import permissions
from identity.call import AdministratorCaller, ApiKeyCaller, Call, Caller, Document, EntityCaller
from identity.operations.objects import audit_logs
from identity.services import Services

_log = structlog.get_logger(__name__)

_READING = ("/export", "/preview", "/search", "/.search")
_ID_MEMBERS = {AdministratorCaller: "userId", EntityCaller: "entityId"}
"""The member with the id of a caller."""
_REASONS = {AdministratorCaller: "A change on the console", EntityCaller: "A call of a SCIM client"}
_NO_CHANGE = frozenset({"/api/system/audit-log", "/api/two-factor/status"})
"""Endpoints that are not audited: the audit log itself, and a POST that changes nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class ApiWrite:
    """A handled call; `flags` are its boolean query parameters."""

    method: str
    endpoint: str
    path: str
    flags: Mapping[str, str]
    status: int


def is_recorded(services: Services, caller: Caller, method: str) -> bool:
    """Return whether calls of this caller and method are recorded."""
    if method == "GET" or not isinstance(caller, ApiKeyCaller):
        return False
    return services.config.audit.api_writes or isinstance(caller, AdministratorCaller)


async def record(services: Services, call: Call, caller: ApiKeyCaller, write: ApiWrite) -> None:
    """Write the row. Never raises, because the change was committed already."""
    if write.endpoint in _NO_CHANGE or write.endpoint.endswith(_READING):
        return
    try:
        # A change of an instance-wide object is not shown to the tenant of the call.
        tenant_id = None if permissions.is_global_only(write.endpoint, write.method) else call.tenant_id
        await audit_logs.add(services, call, _row(call, caller, write), tenant_id)
    except Exception as error:  # noqa: BLE001 (the change was committed already)
        _log.error("a change is missing from the audit log", error=type(error).__name__, method=write.method,
                   path=write.path, caller_id=caller.api_key["id"])  # fmt: skip


def _row(call: Call, caller: ApiKeyCaller, write: ApiWrite) -> Document:
    data: Document = {
        _ID_MEMBERS.get(type(caller), "apiKeyId"): caller.api_key["id"],
        "ipAddress": call.origin.ip_address,
        "method": write.method,
        "path": write.path,
        "requestId": call.origin.request_id,
        "status": write.status,
    }
    if write.flags:
        data["parameters"] = dict(write.flags)
    return {
        "data": data,
        "insertUser": caller.name[:255],
        "message": f"{write.method} {write.path}",
        "reason": _REASONS.get(type(caller), "A call of the management API"),
    }
