"""Actions applied to users: apply, modify, cancel, retrieve. user_actions.py has the definitions of actions."""

from __future__ import annotations

import functools
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.user_actions import action_logs as action_rules
from identity.errors import NotFound
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant
from identity.operations.objects import crud, user_lookup
from identity.operations.user_actions import action_phases, action_requests
from identity.operations.user_actions.action_phases import Notifications, Phase
from identity.services import Services
from identity.store.mongo import Session, Write

_REQUEST: Final = "api/action.request.json"
_RESPONSE: Final = "api/action.response.json"


async def apply(services: Services, call: Call, body: Document) -> Document:
    """Apply an action to a user; return it. Raises Invalid and WebhookTransactionFailed."""
    request = services.schemas[_REQUEST].read(body)
    requested = request["action"]
    named = await action_requests.validate(services, call, requested)
    definition, user = named.definition, named.user
    option = next((one for one in definition["options"] if one["name"] == requested.get("option")), None)
    members = action_rules.localized_members(definition, option, named.reason, user.get("preferredLanguages", []))
    notifications = _notifications(request, definition)
    is_temporal = definition["temporal"]
    log = build_log(
        definition,
        user,
        call.now,
        **members,
        actionerUserId=requested["actionerUserId"],
        applicationIds=requested["applicationIds"],
        comment=requested.get("comment"),
        expiry=requested["expiry"] if is_temporal else None,
        emailUserOnEnd=notifications.mail if is_temporal else None,
        notifyUserOnEnd=notifications.notify_user if is_temporal else None,
    )
    phase = Phase("start", definition, log, user, notifications)
    await action_phases.commit(services, call, phase, start_writes(services, phase))
    return to_response(services, log)


@crud.retry_on_conflict
async def modify(services: Services, call: Call, body: Document, action_id: str) -> Document:
    """Change expiry or comment of a live action; return it. Raises NotFound, Invalid and WebhookTransactionFailed."""
    request = services.schemas[_REQUEST].read(body)
    log, change, notifications = await _validate_change(services, call, request, action_id, is_cancelled=False)
    change["expiry"] = request["action"].get("expiry", log["expiry"])
    change |= {"emailUserOnEnd": notifications.mail, "notifyUserOnEnd": notifications.notify_user}
    modified = action_rules.modified(log, change, call.now)
    phase = await _phase(services, "modify", modified, notifications)
    writes: list[Write] = [
        functools.partial(services.logs.action_logs.replace, phase.tenant_id, modified, log["lastUpdateInstant"]),
        functools.partial(_write_to_user, services, phase),
    ]
    await action_phases.commit(services, call, phase, writes)
    return to_response(services, modified)


@crud.retry_on_conflict
async def cancel(services: Services, call: Call, body: Document, action_id: str) -> Document:
    """End a live action before its expiry; return it. Raises NotFound, Invalid and WebhookTransactionFailed."""
    request = services.schemas[_REQUEST].read(body)
    log, change, notifications = await _validate_change(services, call, request, action_id, is_cancelled=True)
    return to_response(services, await cancel_live(services, call, log, change, notifications))


async def retrieve(services: Services, call: Call, action_id: str) -> Document:
    """Return an action. Raises NotFound."""
    return to_response(services, await _find(services, call, action_id))


async def retrieve_of_user(
    services: Services, call: Call, user_id: str, *, active: bool | None, preventing_login: bool
) -> list[Document]:
    """Return the actions on a user, newest first: all, the live or ended ones, or those that prevent logins.

    Raises NotFound for a missing user.
    """
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    if await services.directory.users.find_cached(tenant_id, user_id) is None:
        raise NotFound
    live: Document = {"private.endsAt": {"$gt": call.now}}
    where: Document = {"actioneeUserId": user_id}
    if preventing_login:
        where |= {**live, "private.preventLogin": True}
    elif active is not None:
        where |= live if active else {"$nor": [live]}
    return [to_response(services, log) for log in await services.logs.action_logs.find_all(tenant_id, where)]


def build_log(definition: Document, user: Document, now: Instant, **members: Any) -> Document:
    """Build a new action without members that are None."""
    private: Document = {"preventLogin": definition["preventLogin"], "temporal": definition["temporal"], "since": now}
    if definition["temporal"]:
        private["endsAt"] = members["expiry"]
    return {
        "applicationIds": [],
        **{name: value for name, value in members.items() if value is not None},
        "actioneeUserId": user["id"],
        "endEventSent": False,
        "history": {"historyItems": []},
        "id": new_id(),
        "insertInstant": now,
        "lastUpdateInstant": now,
        "private": private,
        "tenantId": user["tenantId"],
        "userActionId": definition["id"],
    }


def start_writes(services: Services, phase: Phase) -> list[Write]:
    """Return the writes of a new action. They raise Duplicate, and NotFound for a deleted user."""
    return [
        functools.partial(services.logs.action_logs.insert, phase.tenant_id, phase.log),
        functools.partial(_write_to_user, services, phase),
    ]


def to_response(services: Services, log: Document) -> Document:
    """Return the action in API form."""
    response: Document = services.schemas[_RESPONSE].show({"action": log})["action"]
    return response


async def cancel_live(
    services: Services,
    call: Call,
    log: Document,
    change: Document,
    notifications: Notifications,
    *,
    can_be_vetoed: bool = True,
) -> Document:
    """Cancel a live action. Raises Conflict if it has changed since it was read, and WebhookTransactionFailed."""
    cancelled = action_rules.cancelled(log, change, call.now)
    phase = await _phase(services, "cancel", cancelled, notifications)
    writes: list[Write] = [
        functools.partial(services.logs.action_logs.replace, phase.tenant_id, cancelled, log["lastUpdateInstant"]),
        functools.partial(
            services.directory.users.allow_logins, phase.tenant_id, UserId(phase.user["id"]), cancelled["id"]
        ),
    ]
    await action_phases.commit(services, call, phase, writes, can_be_vetoed=can_be_vetoed)
    if "lockOutOf" in log["private"]:
        await services.limits.lock_outs.clear(phase.tenant_id, phase.user["id"])
    return cancelled


async def _validate_change(
    services: Services, call: Call, request: Document, action_id: str, *, is_cancelled: bool
) -> tuple[Document, Document, Notifications]:
    """Return a live action, the members that a request changes, and whom to notify. Raises NotFound and Invalid."""
    requested = request["action"]
    log = await _find(services, call, action_id)
    problems = await action_requests.change_problems(services, call, requested, log, is_cancelled=is_cancelled)
    crud.require_no_errors(problems)
    change = {name: requested[name] for name in ("actionerUserId", "comment") if name in requested}
    return log, change, _notifications(request, await _find_definition(services, log))


def _notifications(request: Document, definition: Document) -> Notifications:
    """Return the requested notifications that the user action allows."""
    requested = request["action"]
    return Notifications(
        event=request["broadcast"],
        mail=requested["emailUser"] and definition.get("userEmailingEnabled", False),
        notify_user=requested["notifyUser"] and definition.get("userNotificationsEnabled", False),
    )


async def _write_to_user(services: Services, phase: Phase, session: Session) -> None:
    """Store on the user that the action prevents logins; otherwise only require, by a lock, that the user exists."""
    user_id = UserId(phase.user["id"])
    if phase.prevents_login:
        prevention = action_rules.prevention(phase.log)
        exists = await services.directory.users.prevent_logins(phase.tenant_id, user_id, prevention, session)
    else:
        exists = await services.directory.users.lock(phase.tenant_id, user_id, session)
    if not exists:
        raise NotFound


async def _phase(services: Services, name: str, log: Document, notifications: Notifications) -> Phase:
    definition = await _find_definition(services, log)
    user = await services.directory.users.get(TenantId(log["tenantId"]), log["actioneeUserId"])
    return Phase(name, definition or None, log, user, notifications)


async def _find(services: Services, call: Call, action_id: str) -> Document:
    logs = services.logs.action_logs
    tenant_id = call.tenant_id
    if tenant_id is None:
        found = await logs.find_cached_across_tenants(action_id)
        if found is None:
            raise NotFound
        tenant_id = TenantId(found["tenantId"])
    return await logs.get(tenant_id, action_id)


async def _find_definition(services: Services, log: Document) -> Document:
    """Return the current user action; empty if it was deleted."""
    return await services.configuration.user_actions.find_cached(None, log["userActionId"]) or {}
