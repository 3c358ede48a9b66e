"""Events and mails of user actions: every phase once, with its payload, and vetoes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.ids import TenantId, UserId, new_id
from identity.operations.user_actions import action_expiry
from tests import doors
from tests.api.test_actions import HOUR, INDEFINITE, Scene
from tests.hearing import Hearing
from tests.mailbox import Mailbox
from tests.mailbox import receiving as receiving_mail
from tests.receiver import Receiver, answers, receiving
from tests.veto import unchanged

Document = dict[str, Any]

TEMPLATE = {
    "defaultSubject": "${event.phase} ${event.action}",
    "defaultHtmlTemplate": "<p>${event.comment!''}</p>",
    "defaultTextTemplate": "${event.phase} of ${event.localizedAction} by ${tenant.name}",
    "localizedTextTemplates": {"de": "${event.localizedAction}: ${event.localizedDuration!'unbegrenzt'}"},
}


class Stage(Scene):
    """A tenant whose webhook and mailbox receive events and mails of actions."""

    def __init__(self, service: Any, api: Any, tenant: Document, receiver: Receiver, mailbox: Mailbox) -> None:
        super().__init__(service, api, tenant)
        self.receiver, self.mailbox = receiver, mailbox
        self.hearing = Hearing(api, receiver, tenant["id"])

    async def begin(self, transaction_type: str = "None") -> None:
        await super().begin()
        await self.hearing.listen(["user.action"], transaction_type)
        change = {"tenant": {"emailConfiguration": self.mailbox.configuration()}}
        answer = await self.api.patch(f"/api/tenant/{self.tenant['id']}", json=change)
        assert answer.status_code == 200, answer.text

    async def mailing(self, **members: Any) -> Document:
        """A temporal user action with mails."""
        body = {"emailTemplate": {"name": new_id(), **TEMPLATE}}
        made = (await self.api.post("/api/email/template", json=body)).json()["emailTemplate"]
        mails = {f"{phase}EmailTemplateId": made["id"] for phase in ("start", "modify", "cancel", "end")}
        return await self.definition(temporal=True, userEmailingEnabled=True, **mails, **members)

    async def told(self, definition: Document, **members: Any) -> tuple[Document, Document]:
        """The action and its event."""
        body = {**self.request(definition, **members), "broadcast": True}
        answer = await self.api.post("/api/user/action", json=body)
        assert answer.status_code == 200, answer.text
        (event,) = await self.hearing.heard("user.action")
        return answer.json()["action"], event

    async def change(self, method: str, action: Document, *, broadcast: bool = True, **members: Any) -> Any:
        body = {"action": {"actionerUserId": self.moderator["id"], **members}, "broadcast": broadcast}
        return await self.api.request(method, f"/api/user/action/{action['id']}", json=body)

    async def sweep(self) -> None:
        await doors.run(self.service, action_expiry.sweep)


@pytest.fixture
async def stage(service, tenant_api, tenant, receiver) -> AsyncIterator[Stage]:
    async with receiving_mail() as mailbox:
        found = Stage(service, tenant_api, tenant, receiver, mailbox)
        await found.begin()
        yield found


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_start_event_of_an_action_is_complete(stage: Stage) -> None:
    options = [{"name": "soft", "localizedNames": {"de": "sanft"}}]
    members = {"localizedNames": {"de": "Stumm"}, "options": options, "userNotificationsEnabled": True}
    definition = await stage.definition(temporal=True, **members)
    reason = await stage.reason(localizedTexts={"de": "Benehmen"})
    expiry = stage.now + 2 * 24 * HOUR
    applications = []
    for _ in range(2):
        made = await stage.api.post("/api/application", json={"application": {"name": new_id()}})
        applications.append(made.json()["application"]["id"])
    action, event = await stage.told(
        definition,
        applicationIds=sorted(applications, reverse=True),
        comment="a comment",
        expiry=expiry,
        notifyUser=True,
        option="soft",
        reasonId=reason["id"],
    )
    own = {name: event.pop(name) for name in ("createInstant", "id", "info")}
    assert own["info"]["ipAddress"] == "127.0.0.1"
    assert event.pop("localizedDuration") in {"2 Tage", "1 Tag 23 Stunden"}
    assert event == {
        "action": definition["name"],
        "actionId": action["id"],
        "actioneeUserId": stage.user["id"],
        "actionerUserId": stage.moderator["id"],
        "applicationIds": sorted(applications),
        "comment": "a comment",
        "emailedUser": False,
        "expiry": expiry,
        "linkedObjectId": stage.user["id"],
        "localizedAction": "Stumm",
        "localizedOption": "sanft",
        "localizedReason": "Benehmen",
        "notifyUser": True,
        "option": "soft",
        "phase": "start",
        "reason": reason["text"],
        "reasonCode": reason["code"],
        "tenantId": stage.tenant["id"],
        "type": "user.action",
    }


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_instant_action_raises_only_the_start_event(stage: Stage) -> None:
    _, event = await stage.told(await stage.definition(), expiry=1, notifyUser=True)
    assert event["phase"] == "start"
    assert event["notifyUser"] is False, "the user action does not notify"
    assert {"expiry", "localizedDuration"}.isdisjoint(event)


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_without_broadcast_no_event_is_raised(stage: Stage) -> None:
    action = await stage.take(await stage.definition(temporal=True), expiry=INDEFINITE)
    assert (await stage.change("PUT", action, broadcast=False, comment="x")).status_code == 200
    assert (await stage.change("DELETE", action, broadcast=False)).status_code == 200
    _, event = await stage.told(await stage.definition())
    assert event["actionId"] != action["id"]
    assert len(stage.receiver.requests) == 1


@pytest.mark.requirement("core-18-templates-20", "event-user.action-2", "users-11-17", "users-11-6")
async def test_phases_of_an_action_raise_events_and_send_mails(stage: Stage) -> None:
    definition = await stage.mailing(includeEmailInEventJSON=True, localizedNames={"de": "Stumm"})
    action, start = await stage.told(definition, expiry=stage.now + HOUR, emailUser=True, comment="Mind your words")
    assert action["emailUserOnEnd"] is True
    changed = await stage.change("PUT", action, expiry=INDEFINITE, emailUser=True)
    assert changed.status_code == 200, changed.text
    (modify,) = await stage.hearing.heard("user.action")
    assert (await stage.change("DELETE", action, emailUser=True, comment="Enough")).status_code == 200
    (cancel,) = await stage.hearing.heard("user.action")
    assert [event["phase"] for event in (start, modify, cancel)] == ["start", "modify", "cancel"]
    assert all(event["emailedUser"] for event in (start, modify, cancel))
    assert (modify["expiry"], cancel["comment"]) == (INDEFINITE, "Enough")
    assert "localizedDuration" not in modify
    mails = {mail.message["Subject"]: mail for mail in await stage.mailbox.wait_for(3)}
    subjects = [f"{phase} {definition['name']}" for phase in ("start", "modify", "cancel")]
    assert set(mails) == set(subjects)
    assert mails[subjects[1]].part("plain").strip() == "Stumm: unbegrenzt"
    email = start["email"]
    assert (email["subject"], email["html"]) == (subjects[0], "<p>Mind your words</p>")
    assert [to["address"] for to in email["to"]] == [stage.user["email"]]
    assert (email["from"]["address"], email["attachments"]) == ("service@example.com", [])
    assert email["text"] == "Stumm: 1 Stunde"


@pytest.mark.requirement("users-11-6")
async def test_no_mail_without_notification_or_address(stage: Stage) -> None:
    definition = await stage.mailing(includeEmailInEventJSON=True)
    _, event = await stage.told(definition, expiry=INDEFINITE)
    assert event["emailedUser"] is False
    assert "email" not in event
    silent = await stage.definition(temporal=True)
    _, event = await stage.told(silent, expiry=INDEFINITE, emailUser=True)
    assert event["emailedUser"] is False, "the user action has no mails"
    stage.user = (
        await stage.api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    ).json()["user"]
    _, event = await stage.told(definition, expiry=INDEFINITE, emailUser=True)
    assert event["emailedUser"] is False
    assert stage.mailbox.mails == []


@pytest.mark.requirement("event-user.action-3", "users-11-18", "users-11-7")
async def test_action_is_ended_once_by_several_processes(stage: Stage, clock) -> None:
    definition = await stage.mailing(preventLogin=True)
    action = await stage.take(definition, expiry=stage.now + 60_000, emailUser=True, notifyUser=True, comment="c")
    user = await doors.store(stage.service, "users").get(stage.tenant["id"], stage.user["id"])
    assert [one["actionId"] for one in user["private"]["preventions"]] == [action["id"]]
    clock.advance(seconds=61)
    await asyncio.gather(*(stage.sweep() for _ in range(16)))
    (event,) = await stage.hearing.heard("user.action")
    assert (event["phase"], event["actionId"], event["comment"]) == ("end", action["id"], "c")
    assert "actionerUserId" not in event
    assert event["emailedUser"] is True
    await stage.mailbox.wait_for(2)
    assert sorted(mail.message["Subject"].split()[0] for mail in stage.mailbox.mails) == ["end", "start"]
    shown = (await stage.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is True
    assert shown["expiry"] == action["expiry"]
    user = await doors.store(stage.service, "users").get(stage.tenant["id"], stage.user["id"])
    assert user["private"]["preventions"] == []
    await stage.sweep()
    assert len(stage.receiver.requests) == 1


@pytest.mark.requirement("event-user.action-3", "users-11-18")
async def test_action_without_end_event_ends(stage: Stage, clock) -> None:
    action = await stage.take(await stage.definition(temporal=True, sendEndEvent=False), expiry=stage.now + 1000)
    told = await stage.take(await stage.definition(temporal=True), expiry=stage.now + 1000)
    clock.advance(seconds=2)
    await stage.sweep()
    (event,) = await stage.hearing.heard("user.action")
    assert event["actionId"] == told["id"]
    shown = (await stage.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is False
    assert await doors.store(stage.service, "action_logs").find_due_across_tenants(stage.now, 1000) == []


async def test_all_expired_actions_end(stage: Stage, clock, monkeypatch) -> None:
    monkeypatch.setattr(action_expiry, "_BATCH", 2)
    definition = await stage.definition(temporal=True)
    taken = [await stage.take(definition, expiry=stage.now + 1000) for _ in range(5)]
    clock.advance(seconds=2)
    await stage.sweep()
    ended = await stage.hearing.heard(*["user.action"] * 5)
    assert {event["actionId"] for event in ended} == {action["id"] for action in taken}


@pytest.mark.requirement("users-11-7")
async def test_an_action_that_was_cancelled_does_not_end_once_more(stage: Stage, clock) -> None:
    action = await stage.take(await stage.definition(temporal=True), expiry=stage.now + 1000)
    await stage.change("DELETE", action, broadcast=False)
    clock.advance(seconds=2)
    await stage.sweep()
    assert stage.receiver.requests == []


@pytest.mark.requirement("users-11-7")
async def test_end_of_an_action_with_deleted_user_action_raises_no_event(stage: Stage, clock) -> None:
    definition = await stage.definition(temporal=True)
    action = await stage.take(definition, expiry=stage.now + 1000)
    assert (await stage.api.delete(f"/api/user-action/{definition['id']}?hardDelete=true")).status_code == 200
    clock.advance(seconds=2)
    await stage.sweep()
    shown = (await stage.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert (shown["name"], shown["endEventSent"]) == (definition["name"], False)
    assert stage.receiver.requests == []


@pytest.mark.requirement("users-11-7")
async def test_interrupted_end_of_an_action_is_completed_by_others(stage: Stage, clock, monkeypatch) -> None:
    action = await stage.take(await stage.mailing(), expiry=stage.now + 1000, emailUser=True)
    await stage.mailbox.wait_for(1)
    clock.advance(seconds=2)
    mails = doors.store(stage.service, "mails")

    async def dies(*_arguments: Any) -> None:
        raise RuntimeError("the process is gone")

    with monkeypatch.context() as patched:
        patched.setattr(mails, "add", dies)
        await stage.sweep()
    shown = (await stage.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is False
    assert stage.receiver.requests == []
    await stage.sweep()
    (event,) = await stage.hearing.heard("user.action")
    assert (event["phase"], event["emailedUser"]) == ("end", True)
    await stage.mailbox.wait_for(2)


@pytest.mark.requirement("users-11-20", "webhooks-8-13")
@pytest.mark.parametrize("by", ["tenant", "user action"])
async def test_a_veto_of_a_phase_leaves_everything_as_it_was(service, tenant_api, tenant, by, clock) -> None:
    async with receiving(answers(500)) as receiver, receiving_mail() as mailbox:
        stage = Stage(service, tenant_api, tenant, receiver, mailbox)
        await stage.begin("AbsoluteMajority" if by == "tenant" else "None")
        asked = {} if by == "tenant" else {"transactionType": "Any"}
        definition = await stage.mailing(preventLogin=True, **asked)
        login = {"loginId": stage.user["email"], "password": "password"}
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200
        body = {**stage.request(definition, expiry=INDEFINITE, emailUser=True), "broadcast": True}
        async with unchanged(service, tenant["id"]):
            answer = await tenant_api.post("/api/user/action", json=body)
        assert answer.status_code == 504
        await stage.hearing.heard("user.action")
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200
        action = await stage.take(definition, expiry=stage.now + HOUR)
        for method in ("PUT", "DELETE"):
            async with unchanged(service, tenant["id"]):
                answer = await stage.change(method, action, expiry=INDEFINITE, emailUser=True)
            assert answer.status_code == 504, answer.text
            await stage.hearing.heard("user.action")
        assert (await tenant_api.post("/api/login", json=login)).status_code == 409
        clock.advance(seconds=3601)
        await stage.sweep()
        (event,) = await stage.hearing.heard("user.action")
        assert event["phase"] == "end", "nobody waits for the end, and nobody can veto it"
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200


@pytest.mark.requirement("webhooks-8-13")
async def test_stricter_transaction_type_of_tenant_and_user_action_applies(service, tenant_api, tenant) -> None:
    async with receiving() as agreeing, receiving(answers(500)) as refusing, receiving_mail() as mailbox:
        stage = Stage(service, tenant_api, tenant, agreeing, mailbox)
        await stage.begin("Any")
        await Hearing(tenant_api, refusing, tenant["id"]).listen(["user.action"], "Any")
        for own, status in (("None", 200), ("SimpleMajority", 200), ("AbsoluteMajority", 504)):
            definition = await stage.definition(transactionType=own)
            answer = await tenant_api.post("/api/user/action", json={**stage.request(definition), "broadcast": True})
            assert answer.status_code == status, own


@pytest.mark.requirement("users-11-22", "users-2-14")
async def test_actions_and_comments_go_with_their_user_and_with_the_tenant(stage: Stage) -> None:
    services, tenant_id = stage.service.services, TenantId(stage.tenant["id"])
    for user in (stage.user, stage.moderator):
        stage.user = user
        await stage.take(await stage.definition())
        body = {"comment": "c", "commenterId": stage.moderator["id"], "userId": user["id"]}
        assert (await stage.api.post("/api/user/comment", json={"userComment": body})).status_code == 200
    assert (await stage.api.delete(f"/api/user/{stage.moderator['id']}?hardDelete=true")).status_code == 200
    for collection, member in (("action_logs", "actioneeUserId"), ("user_comments", "userId")):
        kept = await services.runtime.collections[collection].find_all(tenant_id)
        assert stage.moderator["id"] not in [one[member] for one in kept]
        assert len(kept) == 1
    assert (await stage.api.delete(f"/api/tenant/{tenant_id}")).status_code == 200
    for collection in ("action_logs", "user_comments", "text_messages"):
        assert await services.runtime.database.collection(collection).count_documents({"tenantId": tenant_id}) == 0


@pytest.mark.requirement("users-11-22")
async def test_the_stores_know_their_tenant(stage: Stage) -> None:
    services, other = stage.service.services, TenantId(new_id())
    action = await stage.ban()
    logs, users, user_id = services.logs.action_logs, services.directory.users, UserId(stage.user["id"])
    tenant_id = TenantId(stage.tenant["id"])
    assert not await logs.extend(other, action["id"], INDEFINITE, stage.now)
    assert not await logs.end(other, action["id"], INDEFINITE, event_sent=True)
    assert await logs.find_lock_out(other, user_id) is None
    assert not await users.prevent_logins(other, user_id, {"actionId": "x"})
    await users.allow_logins(other, user_id, action["id"])
    await users.extend_prevention(other, user_id, action["id"], INDEFINITE)
    (kept,) = (await users.get(tenant_id, user_id))["private"]["preventions"]
    assert (kept["actionId"], kept["expiry"]) == (action["id"], action["expiry"])
    assert (await logs.get(tenant_id, action["id"]))["expiry"] == action["expiry"]
    locks = services.limits.lock_outs
    assert await locks.count(tenant_id, user_id, 60) == 1
    assert await locks.count(other, user_id, 60) == 1
    await locks.clear(other, user_id)
    await locks.discount(other, user_id)
    assert await locks.count(tenant_id, user_id, 60) == 2
    await locks.discount(tenant_id, user_id)
    assert await locks.count(tenant_id, user_id, 60) == 2
    await locks.lock_unknown_login_id(tenant_id, "nobody", stage.now + HOUR, stage.now)
    assert await locks.is_unknown_login_id_locked(tenant_id, "nobody")
    assert not await locks.is_unknown_login_id_locked(other, "nobody")
