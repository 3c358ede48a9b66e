"""The ends of actions that last for a time: found when their time is over, and each brought about once."""

from __future__ import annotations

import structlog

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.ids import TenantId, UserId
from identity.operations.user_actions import action_phases
from identity.operations.user_actions.action_phases import Phase
from identity.services import Services
from identity.store.mongo import STORE_ERRORS, Session

_log = structlog.get_logger(__name__)

_AT_A_TIME = 200


class _EndedByOthersError(Exception):
    """Another process was faster; nothing of ours is kept."""


async def sweep(services: Services) -> None:
    """End what is over. Every process may, at the same time: who dies on the way leaves the rest to the others."""
    ended = _AT_A_TIME
    while ended == _AT_A_TIME:
        ended = await _sweep_some(services)


async def _sweep_some(services: Services) -> int:
    """End some of what is over; answers how many were ended. Raises what MongoDB raises when it is away."""
    call = Call(None, AnonymousCaller(), services.clock.now(), Origin("127.0.0.1", "", "", ""))
    ended = 0
    for log in await services.action_logs.find_due_across_tenants(call.now, _AT_A_TIME):
        try:
            await end(services, call, log)
            ended += 1
        except STORE_ERRORS:
            raise
        except Exception:  # noqa: BLE001 (logged whole; the others are ended, and this one is tried again)
            _log.exception("an action could not be ended", action=log["id"])
    return ended


async def end(services: Services, call: Call, log: Document) -> None:
    """Bring about the end of an action whose time is over: once, with its mail and its event."""
    tenant_id, user_id = TenantId(log["tenantId"]), UserId(log["actioneeUserId"])
    user = await services.users.find(tenant_id, user_id)
    definition = await services.documents["user_actions"].find_cached(None, log["userActionId"])
    if user is None:
        await services.action_logs.end(tenant_id, log["id"], call.now, is_told=False)
        return
    is_told = definition is not None and definition["sendEndEvent"]
    is_mailed, notify = log.get("emailUserOnEnd", False), log.get("notifyUserOnEnd", False)
    phase = Phase("end", definition, log, user, is_told, is_mailed, notify)

    async def write(session: Session | None) -> None:
        if not await services.action_logs.end(tenant_id, log["id"], call.now, is_told=is_told, session=session):
            raise _EndedByOthersError
        await services.users.allow_logins(tenant_id, user_id, log["id"], session)

    try:
        await action_phases.run(services, call, phase, write, can_be_vetoed=False)
    except _EndedByOthersError:
        return
