"""Taking user actions on users: take, modify, cancel, retrieve. The user actions themselves are another subject."""

from __future__ import annotations

from typing import Any, Final

from identity.call import Call, Document
from identity.domain.user_actions import action_logs as rules
from identity.errors import NotFound
from identity.events.changes import Write
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant
from identity.operations.objects import crud, user_lookup
from identity.operations.user_actions import action_phases, action_requests
from identity.operations.user_actions.action_phases import Phase
from identity.services import Services
from identity.store.mongo import Session

_REQUEST: Final = "api/action.request.json"
_ANSWER: Final = "api/action.response.json"


async def take(services: Services, call: Call, body: Document) -> Document:
    """Take an action on a user; answers it. Raises Invalid and WebhookTransactionFailed."""
    request = services.schemas[_REQUEST].read(body)
    wanted = request["action"]
    judged = await action_requests.validate(services, call, wanted)
    definition, user = judged.definition, judged.user
    option = next((one for one in definition["options"] if one["name"] == wanted.get("option")), None)
    words = rules.words(definition, option, judged.reason, user.get("preferredLanguages", []))
    is_mailed = wanted["emailUser"] and definition["userEmailingEnabled"]
    notify = wanted["notifyUser"] and definition["userNotificationsEnabled"]
    log = build_log(
        definition,
        user,
        call.now,
        **words,
        actionerUserId=wanted["actionerUserId"],
        applicationIds=wanted["applicationIds"],
        comment=wanted.get("comment"),
        expiry=wanted["expiry"] if definition["temporal"] else None,
        emailUserOnEnd=is_mailed if definition["temporal"] else None,
        notifyUserOnEnd=notify if definition["temporal"] else None,
    )
    phase = Phase("start", definition, log, user, request["broadcast"], is_mailed, notify)
    await action_phases.run(services, call, phase, start_writes(services, phase))
    return to_response(services, log)


async def modify(services: Services, call: Call, body: Document, action_id: str) -> Document:
    """Change the end of a live action, or what is said of it; answers it. Raises NotFound, Invalid, and a veto."""
    return await _change(services, call, body, action_id, "modify")


async def cancel(services: Services, call: Call, body: Document, action_id: str) -> Document:
    """End a live action before its time; answers it. Raises NotFound, Invalid, and WebhookTransactionFailed."""
    return await _change(services, call, body, action_id, "cancel")


async def retrieve(services: Services, call: Call, action_id: str) -> Document:
    """One action. Raises NotFound."""
    return to_response(services, await _find(services, call, action_id))


async def retrieve_of_user(
    services: Services, call: Call, user_id: str, *, active: bool | None, preventing_login: bool
) -> list[Document]:
    """The actions on a user, the newest first: all, those that are live or not, or those that prevent logins.

    Raises NotFound for a user who is not there.
    """
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    if await services.users.find_cached(tenant_id, user_id) is None:
        raise NotFound
    live: Document = {"private.endsAt": {"$gt": call.now}}
    where: Document = {"actioneeUserId": user_id}
    if preventing_login:
        where |= {**live, "private.preventLogin": True}
    elif active is not None:
        where |= live if active else {"$nor": [live]}
    return [to_response(services, log) for log in await services.action_logs.find_all(tenant_id, where)]


def build_log(definition: Document, user: Document, now: Instant, **members: Any) -> Document:
    """A new action; members that are None are left out."""
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


def start_writes(services: Services, phase: Phase) -> Write[None]:
    """What writes a new action, on its user too if it prevents logins. The write raises NotFound and Duplicate."""

    async def write(session: Session | None) -> None:
        await services.action_logs.insert(phase.tenant_id, phase.log, session)
        await _require_user(services, phase, session)

    return write


def to_response(services: Services, log: Document) -> Document:
    """The action as the API shows it."""
    answer: Document = services.schemas[_ANSWER].show({"action": log})["action"]
    return answer


async def cancel_live(
    services: Services, call: Call, log: Document, change: Document, *, is_told: bool, is_mailed: bool, notify: bool,
    can_be_vetoed: bool = True,
) -> Document:  # fmt: skip
    """Cancel an action that is live. Raises Conflict when it changed meanwhile, and WebhookTransactionFailed."""
    fresh = rules.cancelled(log, change, call.now)
    phase = await _phase(services, "cancel", fresh, is_told=is_told, is_mailed=is_mailed, notify=notify)

    async def write(session: Session | None) -> None:
        await services.action_logs.replace(phase.tenant_id, fresh, log["lastUpdateInstant"], session)
        await services.users.allow_logins(phase.tenant_id, UserId(phase.user["id"]), fresh["id"], session)

    await action_phases.run(services, call, phase, write, can_be_vetoed=can_be_vetoed)
    if "lockOutOf" in log["private"]:
        await services.lock_outs.clear(phase.tenant_id, phase.user["id"])
    return fresh


async def _change(services: Services, call: Call, body: Document, action_id: str, deed: str) -> Document:
    request = services.schemas[_REQUEST].read(body)
    wanted = request["action"]

    async def attempt() -> Document:
        log = await _find(services, call, action_id)
        crud.require_no_errors(
            await action_requests.problems_of_change(services, call, wanted, log, is_cancelled=deed == "cancel")
        )
        change = {name: wanted[name] for name in ("actionerUserId", "comment") if name in wanted}
        definition = await _definition_of(services, log)
        told = {"is_told": request["broadcast"]}
        told["is_mailed"] = wanted["emailUser"] and definition.get("userEmailingEnabled", False)
        told["notify"] = wanted["notifyUser"] and definition.get("userNotificationsEnabled", False)
        if deed == "cancel":
            return await cancel_live(services, call, log, change, **told)
        return await _modify_live(services, call, log, change | {"expiry": wanted.get("expiry", log["expiry"])}, **told)

    return to_response(services, await crud.retry_on_conflict(attempt))


async def _modify_live(services: Services, call: Call, log: Document, change: Document, **told: bool) -> Document:
    on_end = {"emailUserOnEnd": told["is_mailed"], "notifyUserOnEnd": told["notify"]}
    fresh = rules.modified(log, {**change, **on_end}, call.now)
    phase = await _phase(services, "modify", fresh, **told)

    async def write(session: Session | None) -> None:
        await services.action_logs.replace(phase.tenant_id, fresh, log["lastUpdateInstant"], session)
        await _require_user(services, phase, session)

    await action_phases.run(services, call, phase, write)
    return fresh


async def _require_user(services: Services, phase: Phase, session: Session | None) -> None:
    """Let an action that prevents logins stand on its user; any other one only needs the user to be there."""
    user_id = UserId(phase.user["id"])
    if phase.prevents_login:
        found = await services.users.prevent_logins(phase.tenant_id, user_id, rules.prevention(phase.log), session)
    else:
        assert session is not None, "the phases of an action are written in transactions"
        found = await services.users.lock(phase.tenant_id, user_id, session)
    if not found:
        raise NotFound


async def _phase(services: Services, name: str, log: Document, **told: bool) -> Phase:
    definition = await _definition_of(services, log)
    user = await services.users.get(TenantId(log["tenantId"]), log["actioneeUserId"])
    return Phase(name, definition or None, log, user, **told)


async def _find(services: Services, call: Call, action_id: str) -> Document:
    logs = services.action_logs
    tenant_id = call.tenant_id
    if tenant_id is None:
        found = await logs.find_cached_across_tenants(action_id)
        if found is None:
            raise NotFound
        tenant_id = TenantId(found["tenantId"])
    return await logs.get(tenant_id, action_id)


async def _definition_of(services: Services, log: Document) -> Document:
    """The user action as it is now; nothing where it is gone."""
    return await services.documents["user_actions"].find_cached(None, log["userActionId"]) or {}
