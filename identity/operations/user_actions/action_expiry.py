"""Expiry of temporal actions: each expired action is ended once, with its mail and its event."""

from __future__ import annotations

import functools

import structlog

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.ids import TenantId, UserId
from identity.operations.user_actions import action_phases
from identity.operations.user_actions.action_phases import Notifications, Phase
from identity.services import Services
from identity.store.mongo import STORE_ERRORS, Session

_log = structlog.get_logger(__name__)

_BATCH = 200


class _AlreadyEndedError(Exception):
    """Another process ended the action first; the transaction is aborted."""


async def sweep(services: Services) -> None:
    """End the expired actions. Safe to run in several processes at once and to interrupt."""
    ended = _BATCH
    while ended == _BATCH:
        ended = await _sweep_batch(services)


async def end(services: Services, call: Call, log: Document) -> None:
    """End an expired action once, with its mail and its event."""
    tenant_id = TenantId(log["tenantId"])
    user = await services.directory.users.find(tenant_id, log["actioneeUserId"])
    definition = await services.configuration.user_actions.find_cached(None, log["userActionId"])
    if user is None:
        await services.logs.action_logs.end(tenant_id, log["id"], call.now, event_sent=False)
        return
    notifications = Notifications(
        event=definition is not None and definition["sendEndEvent"],
        mail=log.get("emailUserOnEnd", False),
        notify_user=log.get("notifyUserOnEnd", False),
    )
    phase = Phase("end", definition, log, user, notifications)
    writes = [
        functools.partial(_write_end, services, call, phase),
        functools.partial(services.directory.users.allow_logins, tenant_id, UserId(user["id"]), log["id"]),
    ]
    try:
        await action_phases.commit(services, call, phase, writes, can_be_vetoed=False)
    except _AlreadyEndedError:
        return


async def _sweep_batch(services: Services) -> int:
    """End a batch of expired actions; return how many were ended. Raises STORE_ERRORS during an outage of MongoDB."""
    call = Call(None, AnonymousCaller(), services.clock.now(), Origin("127.0.0.1", "", "", ""))
    ended = 0
    for log in await services.logs.action_logs.find_due_across_tenants(call.now, _BATCH):
        try:
            await end(services, call, log)
            ended += 1
        except STORE_ERRORS:
            raise
        except Exception:  # noqa: BLE001 (logged with its traceback; the next sweep retries this action)
            _log.exception("an action could not be ended", action=log["id"])
    return ended


async def _write_end(services: Services, call: Call, phase: Phase, session: Session | None) -> None:
    is_ended = await services.logs.action_logs.end(
        phase.tenant_id, phase.log["id"], call.now, event_sent=phase.notifications.event, session=session
    )
    if not is_ended:
        raise _AlreadyEndedError
