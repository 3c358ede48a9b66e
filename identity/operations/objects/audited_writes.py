"""`audit.api_writes`: a row of the audit log for every management call that changed something.

The row has the caller (description or id of the API key), the time, the endpoint and the address; never the request
body, which may hold secrets and personal data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import structlog

from identity import permissions
from identity.call import ApiKeyCaller, Call, Document
from identity.operations.objects import audit_logs
from identity.services import Services

_log = structlog.get_logger(__name__)

_READING = ("/export", "/preview", "/search")
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
                   path=write.path, api_key_id=caller.api_key["id"])  # fmt: skip


def _row(call: Call, caller: ApiKeyCaller, write: ApiWrite) -> Document:
    data: Document = {
        "apiKeyId": caller.api_key["id"],
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
        "reason": "A call of the management API",
    }
