"""The recent failed logins of a user, for administrators, and their number for charts."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects import event_info
from identity.ids import TenantId
from identity.instants import as_datetime
from identity.operations.objects import application_lookup, user_lookup
from identity.services import Services

ACTIVITY = "login.failed"
_LONGEST = 255


async def record(
    services: Services, call: Call, user: Document, application_id: str | None, authentication_type: str, reason: str
) -> None:
    """Record a failed login at `call.now`."""
    info, tenant_id = event_info.build(call, services.runtime.geoip.find), TenantId(user["tenantId"])
    entry: Document = {
        "applicationId": application_id,
        "authenticationType": authentication_type,
        "instant": call.now,
        "ipAddress": info.get("ipAddress", "")[:_LONGEST] or None,
        "location": info.get("location"),
        "reason": reason,
        "userAgent": info.get("userAgent", "")[:_LONGEST] or None,
    }
    kept = {name: value for name, value in entry.items() if value is not None}
    await services.logs.failed_logins.add(tenant_id, user["id"], kept)
    await services.logs.activity_counts.add(tenant_id, as_datetime(call.now).date().isoformat(), ACTIVITY)


async def find(services: Services, call: Call, user_id: str) -> Document:
    """Return the recent failed logins of a user, newest first. Raises NotFound."""
    tenant_id = TenantId((await user_lookup.retrieve(services, call, user_id))["tenantId"])
    found = await services.logs.failed_logins.find(tenant_id, user_id)
    return {"failedLogins": [await _named(services, tenant_id, entry) for entry in found]}


async def _named(services: Services, tenant_id: TenantId, entry: Document) -> Document:
    """Return an entry with the current name of its application."""
    application = await application_lookup.find(services, tenant_id, entry.get("applicationId"))
    return entry if application is None else {**entry, "applicationName": application["name"]}
