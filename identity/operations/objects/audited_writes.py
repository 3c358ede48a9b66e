"""`audit.api_writes`: a row of the audit log for every management call that changed something.

Who (description or id of the API key), when, what was called and from where; never what was sent, which may hold
secrets and is nobody's business for as long as an audit log is kept.
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
"""A row of the audit log tells of itself; the other looks something up, though it is a POST."""


@dataclasses.dataclass(frozen=True, slots=True)
class ApiWrite:
    """A call that was answered; `flags` are its query parameters that are true or false."""

    method: str
    endpoint: str
    path: str
    flags: Mapping[str, str]
    status: int


async def record(services: Services, call: Call, caller: ApiKeyCaller, write: ApiWrite) -> None:
    """Write the row. Never raises: the change has been made, and its caller shall hear of that."""
    if write.endpoint in _NO_CHANGE or write.endpoint.endswith(_READING):
        return
    try:
        # What belongs to the instance is not for the eyes of the tenant that the caller happens to work in.
        tenant_id = None if permissions.is_global_only(write.endpoint, write.method) else call.tenant_id
        await audit_logs.add(services, call, _row(call, caller, write), tenant_id)
    except Exception as error:  # noqa: BLE001 (whatever it is: see above)
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
