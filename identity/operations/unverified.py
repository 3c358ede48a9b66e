"""Removing users and registrations that nobody verified in the days that tenant or application give them.

Only who waits to be verified is removed: not who was verified before and changed the address since, and nobody made
while nothing was verified. Each goes by the same operation as over the API, unless a verification is faster; who is
kept by a webhook's veto is tried again at the next turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import structlog

from identity.call import Call, Document, Nobody, Origin
from identity.errors import NotFound, Unavailable, WebhookTransactionFailed
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.operations import registrations, users
from identity.services import Services
from identity.store.users import Unverified

_log = structlog.get_logger(__name__)

_TURN_SECONDS: Final = 3600
_DAY_SECONDS: Final = 86_400
_BATCH: Final = 200


async def take_turn(services: Services) -> None:
    """Remove what is due, in one process an hour."""
    now = services.clock.now()
    hour = str(now // (_TURN_SECONDS * 1000))
    if await services.one_time_ids.use(services.default_tenant_id, "sweep", "unverified", hour, _TURN_SECONDS):
        await sweep(services)


async def sweep(services: Services) -> None:
    """Remove what is due. Safe to run in several processes at once, and to be interrupted."""
    wanted = {"state": {"$ne": "PendingDelete"}, "userDeletePolicy.unverified.enabled": True}
    for tenant in await services.tenants.find_all(None, {**wanted, "emailConfiguration.verifyEmail": True}):
        await _remove_users(services, tenant)
    wanted = {"registrationDeletePolicy.unverified.enabled": True, "verifyRegistration": True}
    for application in await services.applications.find_all_across_tenants(wanted):
        await _remove_registrations(services, application)


async def _remove_users(services: Services, tenant: Document) -> None:
    before = _before(services, tenant["userDeletePolicy"])
    tenant_id = TenantId(tenant["id"])
    async for user in _each(services, tenant_id, Unverified.of_users(before)):

        async def remove(call: Call, user: Document = user) -> None:
            await users.delete(services, call, user["id"], expected=user)

        await _tried(services, tenant_id, user, remove)


async def _remove_registrations(services: Services, application: Document) -> None:
    before = _before(services, application["registrationDeletePolicy"])
    tenant_id, application_id = TenantId(application["tenantId"]), application["id"]
    async for user in _each(services, tenant_id, Unverified.of_registrations(application_id, before)):

        async def remove(call: Call, user: Document = user) -> None:
            await registrations.delete(services, call, user["id"], application_id, only_unverified=True)

        await _tried(services, tenant_id, user, remove)


async def _each(services: Services, tenant_id: TenantId, wanted: Unverified) -> AsyncIterator[Document]:
    """Who is due, each once: those that stay must not be met again and again."""
    after = ""
    while found := await services.users.find_unverified(tenant_id, wanted, after, _BATCH):
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


def _before(services: Services, policy: Document) -> Instant:
    days: int = policy["unverified"]["numberOfDaysToRetain"]
    return later(services.clock.now(), seconds=-days * _DAY_SECONDS)
