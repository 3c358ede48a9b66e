"""Removing users and registrations that nobody verified in the days that tenant or application give them.

Only who waits to be verified is removed: not who was verified before and changed the address since, and nobody made
while nothing was verified. So go children whom no parent took in, where the tenant wants that. Each goes by the same
operation as over the API, unless a verification is faster; who is kept by a webhook's veto is tried again at the next
turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import structlog

from identity.call import Call, Document, Nobody, Origin
from identity.errors import NotFound, Unavailable, WebhookTransactionFailed
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.operations.users import registrations, users
from identity.services import Services
from identity.store.users import CleanupFilter

_log = structlog.get_logger(__name__)

_TURN_SECONDS: Final = 3600
_DAY_SECONDS: Final = 86_400
_BATCH: Final = 200


async def _no(_services: Services, _user: Document) -> bool:
    return False


async def _is_in_a_family(services: Services, user: Document) -> bool:
    return bool(await services.families.find_of_user(TenantId(user["tenantId"]), user["id"]))


async def sweep_hourly(services: Services) -> None:
    """Remove what is due, in one process an hour."""
    now = services.clock.now()
    hour = str(now // (_TURN_SECONDS * 1000))
    if await services.one_time_ids.mark_used(services.default_tenant_id, "sweep", "unverified", hour, _TURN_SECONDS):
        await sweep(services)


async def sweep(services: Services) -> None:
    """Remove what is due. Safe to run in several processes at once, and to be interrupted."""
    living = {"state": {"$ne": "PendingDelete"}}
    wanted = {**living, "userDeletePolicy.unverified.enabled": True, "emailConfiguration.verifyEmail": True}
    for tenant in await services.tenants.find_all(None, wanted):
        days = tenant["userDeletePolicy"]["unverified"]["numberOfDaysToRetain"]
        await _remove_users(services, tenant, CleanupFilter.of_users(_before(services, days)))
    wanted = {**living, "familyConfiguration.enabled": True, "familyConfiguration.deleteOrphanedAccounts": True}
    for tenant in await services.tenants.find_all(None, wanted):
        days = tenant["familyConfiguration"]["deleteOrphanedAccountsDays"]
        await _remove_users(services, tenant, CleanupFilter.of_children(_before(services, days)), but=_is_in_a_family)
    wanted = {"registrationDeletePolicy.unverified.enabled": True, "verifyRegistration": True}
    for application in await services.applications.find_all_across_tenants(wanted):
        await _remove_registrations(services, application)


async def _remove_users(
    services: Services,
    tenant: Document,
    wanted: CleanupFilter,
    *,
    but: Callable[[Services, Document], Awaitable[bool]] = _no,
) -> None:
    tenant_id = TenantId(tenant["id"])
    async for user in _each(services, tenant_id, wanted):
        if await but(services, user):
            continue

        async def remove(call: Call, user: Document = user) -> None:
            await users.delete(services, call, user["id"], expected=user)

        await _tried(services, tenant_id, user, remove)


async def _remove_registrations(services: Services, application: Document) -> None:
    before = _before(services, application["registrationDeletePolicy"]["unverified"]["numberOfDaysToRetain"])
    tenant_id, application_id = TenantId(application["tenantId"]), application["id"]
    async for user in _each(services, tenant_id, CleanupFilter.of_registrations(application_id, before)):

        async def remove(call: Call, user: Document = user) -> None:
            await registrations.delete(services, call, user["id"], application_id, only_unverified=True)

        await _tried(services, tenant_id, user, remove)


async def _each(services: Services, tenant_id: TenantId, wanted: CleanupFilter) -> AsyncIterator[Document]:
    """Who is due, each once: those that stay must not be met again and again."""
    after = ""
    while found := await services.users.find_for_cleanup(tenant_id, wanted, after, _BATCH):
        for user in found:
            yield user
        after = found[-1]["id"]


async def _tried(
    services: Services, tenant_id: TenantId, user: Document, remove: Callable[[Call], Awaitable[None]]
) -> None:
    call = Call(tenant_id, Nobody(), services.clock.now(), Origin("127.0.0.1", "", new_id(), ""))
    try:
        await remove(call)
    except NotFound:
        return  # verified, changed or removed meanwhile
    except (WebhookTransactionFailed, Unavailable) as error:
        _log.warning("an unverified user or registration stays", user_id=user["id"], reason=type(error).__name__)


def _before(services: Services, days: int) -> Instant:
    return later(services.clock.now(), seconds=-days * _DAY_SECONDS)
