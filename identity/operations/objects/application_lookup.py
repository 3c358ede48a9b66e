"""Applications by id: those of a tenant, and those that a request names."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.ids import TenantId, parse_id
from identity.services import Services


async def find(services: Services, tenant_id: TenantId, application_id: str | None) -> Document | None:
    """Return the tenant's application with this id, if any."""
    if application_id is None:
        return None
    return await services.configuration.applications.find_cached(tenant_id, application_id)


async def get_named(services: Services, call: Call, application_id: str | None) -> Document | None:
    """Return the application of a request, of the call's tenant if there is one; None without an id.

    Raises Invalid for an unknown application.
    """
    if application_id is None:
        return None
    parsed = parse_id(application_id)
    found = None if parsed is None else await services.configuration.applications.find_cached_across_tenants(parsed)
    if found is None or call.tenant_id not in {None, found["tenantId"]}:
        raise Invalid.field("invalid", "applicationId", "The [applicationId] must name an existing application.")
    return found
