"""Erasure of what remains of deleted users and tenants: in events, deliveries, queues, logs and Redis.

The deletion stores an erasure in its own transaction. A worker carries it out within the hour, in one process at a
time, and repeats it if it was interrupted. Ids and counts remain.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.users import personal_data
from identity.domain.users.personal_data import ERASED, Person, Traces
from identity.ids import EventId, TenantId, UserId
from identity.instants import later
from identity.operations.objects import crud
from identity.operations.verification import email_changes
from identity.services import Services
from identity.store.erasures import Erasure
from identity.store.mongo import Write

INTERVAL_SECONDS: Final = 900
"""Two runs are within the hour, even if the process of the first one is killed."""
GRACE_SECONDS: Final = 60
"""How long requests that were in progress during the deletion may still write."""
_BATCH: Final = 50


async def prepare(services: Services, call: Call, user: Document) -> Write:
    """Return the write that stores the erasure of a user, to be committed with the deletion."""
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    ip_addresses = await services.logs.login_records.find_ip_addresses(tenant_id, user_id)
    change = await email_changes.find_open(services, user)
    addresses = (*personal_data.addresses_of(user), *(() if change is None else (change[1],)))
    person = Person(tenant_id, user_id, addresses, tuple(sorted(ip_addresses)))
    return functools.partial(services.logs.erasure.erasures.add_user, person, call.now)


async def remove_belongings(services: Services, tenant_id: TenantId, user_id: UserId) -> None:
    """Remove what requests in progress wrote during the deletion of a user, and the login records. May be repeated."""
    of_user = {"userId": user_id}
    await services.tokens.scope_consents.delete_all(tenant_id, of_user)
    await services.sessions.two_factor_trusts.delete_all(tenant_id, of_user)
    await services.directory.webauthn_credentials.delete_all(tenant_id, of_user)
    leave_families = crud.retry_on_conflict(services.directory.families.remove_user)
    await leave_families(tenant_id, user_id, services.clock.now())
    await services.logs.login_records.erase(tenant_id, user_id)
    await services.logs.failed_logins.remove(tenant_id, user_id)


async def sweep_regularly(services: Services) -> None:
    """Erase what is due, in one process per interval."""
    interval = str(services.clock.now() // (INTERVAL_SECONDS * 1000))
    if await services.tokens.one_time_ids.mark_used(
        services.runtime.default_tenant_id, "sweep", "erasure", interval, INTERVAL_SECONDS
    ):
        await sweep(services)


async def sweep(services: Services) -> None:
    """Erase what is due. Safe to interrupt, and to run in several processes at once."""
    before, after = later(services.clock.now(), seconds=-GRACE_SECONDS), ""
    while batch := await services.logs.erasure.erasures.find_users_across_tenants(before, _BATCH, after):
        await _erase_users(services, [erasure for erasure in batch if not erasure.pending])
        for erasure in batch:
            if erasure.pending:
                await _settle(services, erasure)
        after = batch[-1].person.user_id
    for tenant_id in await services.logs.erasure.erasures.find_tenants_across_tenants(before):
        await _erase_tenant(services, tenant_id)


async def _erase_users(services: Services, erasures: Sequence[Erasure]) -> None:
    if not erasures:
        return
    persons = [erasure.person for erasure in erasures]
    traces, by_tenant = Traces(persons), collections.defaultdict[TenantId, list[Person]](list)
    for person in persons:
        by_tenant[TenantId(person.tenant_id)].append(person)
        await remove_belongings(services, TenantId(person.tenant_id), UserId(person.user_id))
    shared = await services.logs.erasure.event_erasure.redact_across_tenants(traces, services.clock.now())
    await _redact_logs(services, traces)
    await services.logs.erasure.personal_keys.delete_of_users_across_tenants(traces)
    for tenant_id, own in by_tenant.items():
        pending = [*shared, *await _erase_in_tenant(services, tenant_id, own, traces.of_tenant(tenant_id))]
        for person in own:
            await _conclude(services, person, pending)


async def _erase_in_tenant(
    services: Services, tenant_id: TenantId, persons: Sequence[Person], traces: Traces
) -> list[EventId]:
    """Erase users from the events, queues and other users of their tenant; return the events yet to be delivered."""
    now, events = services.clock.now(), services.logs.erasure.event_erasure
    await services.outbound.mails.delete_of_persons(tenant_id, traces)
    await services.outbound.text_messages.delete_of_persons(tenant_id, traces)
    children = await services.directory.users.remove_parent_emails(tenant_id, traces.addresses)
    pending = await events.erase_of_users(tenant_id, [person.user_id for person in persons], now)
    return pending + await events.erase_addresses(tenant_id, children, traces, now)


async def _redact_logs(services: Services, traces: Traces) -> None:
    by_tenant = traces.by_tenant()

    def audit_row(row: Document) -> Document:
        tenant_id = row.get("tenantId")
        own = traces if tenant_id is None else by_tenant.get(tenant_id)
        return row if own is None else personal_data.redacted_audit_row(row, own)

    def event_row(row: Document) -> Document:
        return {**row, "message": personal_data.redacted_message(row["message"], traces)}

    await services.logs.audit_logs.rewrite_across_tenants(audit_row)
    await services.logs.event_logs.rewrite_across_tenants(event_row)


async def _settle(services: Services, erasure: Erasure) -> None:
    """Erase the events about a deletion that have been delivered since."""
    tenant_id = TenantId(erasure.person.tenant_id)
    pending = await services.logs.erasure.event_erasure.settle(tenant_id, erasure.pending, services.clock.now())
    await _conclude(services, erasure.person, pending)


async def _conclude(services: Services, person: Person, pending: Sequence[EventId]) -> None:
    tenant_id = TenantId(person.tenant_id)
    if pending:
        await services.logs.erasure.erasures.keep(tenant_id, person.user_id, pending)
    else:
        await services.logs.erasure.erasures.finish(tenant_id, person.user_id)


async def _erase_tenant(services: Services, tenant_id: TenantId) -> None:
    """Erase the events, audit log and keys of a tenant, whose other contents were deleted with it."""

    def audit_row(row: Document) -> Document:
        kept = {name: row[name] for name in ("id", "insertInstant", "tenantId")}
        return {**kept, "insertUser": ERASED, "message": ERASED, "data": {}}

    pending = await services.logs.erasure.event_erasure.erase_of_tenant(tenant_id, services.clock.now())
    await services.logs.audit_logs.rewrite_of_tenant(tenant_id, audit_row)
    await services.logs.erasure.personal_keys.delete_of_tenant(tenant_id)
    if not pending:
        await services.logs.erasure.erasures.finish(tenant_id, tenant_id)
