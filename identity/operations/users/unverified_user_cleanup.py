"""Delete users and registrations that were not verified within the retention period of their tenant or application.

Only users and registrations with a pending verification are deleted: not users who changed a verified address, and not
users created while verification was off. Children without a family are deleted too if the tenant configures it.
Administrators stay: settings of the tenant do not decide about them. Each deletion is the operation of the API; one
that a webhook vetoes is retried in the next run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Final

import structlog

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.errors import NotFound, Unavailable, WebhookTransactionFailed
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.operations.groups import administrators
from identity.operations.users import registrations, users
from identity.services import Services
from identity.store.users import CleanupFilter

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS: Final = 3600
_DAY_SECONDS: Final = 86_400
_BATCH: Final = 200
_NOT_DELETED: Final = {"state": {"$ne": "PendingDelete"}}
_UNVERIFIED_USER_POLICY: Final = {
    **_NOT_DELETED,
    "userDeletePolicy.unverified.enabled": True,
    "emailConfiguration.verifyEmail": True,
}
_ORPHAN_POLICY: Final = {
    **_NOT_DELETED,
    "familyConfiguration.enabled": True,
    "familyConfiguration.deleteOrphanedAccounts": True,
}
_UNVERIFIED_REGISTRATION_POLICY: Final = {
    "registrationDeletePolicy.unverified.enabled": True,
    "verifyRegistration": True,
}


async def sweep_hourly(services: Services) -> None:
    """Delete what is due, in one process per hour."""
    now = services.clock.now()
    hour = str(now // (_INTERVAL_SECONDS * 1000))
    if await services.tokens.one_time_ids.mark_used(
        services.runtime.default_tenant_id, "sweep", "unverified", hour, _INTERVAL_SECONDS
    ):
        await sweep(services)


async def sweep(services: Services) -> None:
    """Delete what is due. Safe to run in several processes at once and to interrupt."""
    for tenant in await services.configuration.tenants.find_all(None, _UNVERIFIED_USER_POLICY):
        days = tenant["userDeletePolicy"]["unverified"]["numberOfDaysToRetain"]
        await _delete_users(services, tenant, CleanupFilter.of_users(_before(services, days)))
    for tenant in await services.configuration.tenants.find_all(None, _ORPHAN_POLICY):
        days = tenant["familyConfiguration"]["deleteOrphanedAccountsDays"]
        await _delete_users(
            services, tenant, CleanupFilter.of_children(_before(services, days)), only_without_family=True
        )
    for application in await services.configuration.applications.find_all_across_tenants(
        _UNVERIFIED_REGISTRATION_POLICY
    ):
        await _delete_registrations(services, application)


async def _delete_users(
    services: Services, tenant: Document, criteria: CleanupFilter, *, only_without_family: bool = False
) -> None:
    tenant_id = TenantId(tenant["id"])
    async for user in _find_each(services, tenant_id, criteria):
        if await administrators.is_administrator(services, user):
            continue
        if only_without_family and await services.directory.families.find_of_user(tenant_id, user["id"]):
            continue
        deletion = users.delete(services, _new_call(services, tenant_id), user["id"], expected=user)
        await _try(deletion, user)


async def _delete_registrations(services: Services, application: Document) -> None:
    before = _before(services, application["registrationDeletePolicy"]["unverified"]["numberOfDaysToRetain"])
    tenant_id, application_id = TenantId(application["tenantId"]), application["id"]
    async for user in _find_each(services, tenant_id, CleanupFilter.of_registrations(application_id, before)):
        call = _new_call(services, tenant_id)
        await _try(registrations.delete(services, call, user["id"], application_id, only_unverified=True), user)


async def _find_each(services: Services, tenant_id: TenantId, criteria: CleanupFilter) -> AsyncIterator[Document]:
    """Yield each matching user once, including users that cannot be deleted now."""
    after = ""
    while found := await services.directory.users.find_for_cleanup(tenant_id, criteria, after, _BATCH):
        for user in found:
            yield user
        after = found[-1]["id"]


async def _try(deletion: Awaitable[None], user: Document) -> None:
    """Await a deletion; one that is vetoed or overloaded is logged and left to the next run."""
    try:
        await deletion
    except NotFound:
        return  # verified, changed or deleted in the meantime
    except (WebhookTransactionFailed, Unavailable) as error:
        _log.warning("an unverified user or registration stays", user_id=user["id"], reason=type(error).__name__)


def _new_call(services: Services, tenant_id: TenantId) -> Call:
    return Call(tenant_id, AnonymousCaller(), services.clock.now(), Origin("127.0.0.1", "", new_id(), ""))


def _before(services: Services, days: int) -> Instant:
    return later(services.clock.now(), seconds=-days * _DAY_SECONDS)
