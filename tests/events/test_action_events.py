"""Events and mails of user actions: every phase once, with its payload, and vetoes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.ids import TenantId, UserId, new_id
from identity.operations.user_actions import action_expiry
from tests import internals
from tests.api.test_actions import HOUR, INDEFINITE, Scenario
from tests.mailbox import Mailbox
from tests.mailbox import receiving as receiving_mail
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber
from tests.veto import unchanged

Document = dict[str, Any]

TEMPLATE = {
    "defaultSubject": "${event.phase} ${event.action}",
    "defaultHtmlTemplate": "<p>${event.comment!''}</p>",
    "defaultTextTemplate": "${event.phase} of ${event.localizedAction} by ${tenant.name}",
    "localizedTextTemplates": {"de": "${event.localizedAction}: ${event.localizedDuration!'unbegrenzt'}"},
}


class ActionScenario(Scenario):
    """A tenant whose webhook and mailbox receive events and mails of actions."""

    def __init__(self, service: Any, api: Any, tenant: Document, receiver: Receiver, mailbox: Mailbox) -> None:
        super().__init__(service, api, tenant)
        self.receiver, self.mailbox = receiver, mailbox
        self.subscriber = Subscriber(api, receiver, tenant["id"])

    async def begin(self, transaction_type: str = "None") -> None:
        await super().begin()
        await self.subscriber.subscribe(["user.action"], transaction_type)
        change = {"tenant": {"emailConfiguration": self.mailbox.configuration()}}
        answer = await self.api.patch(f"/api/tenant/{self.tenant['id']}", json=change)
        assert answer.status_code == 200, answer.text

    async def mailing(self, **members: Any) -> Document:
        """A temporal user action with mails."""
        body = {"emailTemplate": {"name": new_id(), **TEMPLATE}}
        made = (await self.api.post("/api/email/template", json=body)).json()["emailTemplate"]
        mails = {f"{phase}EmailTemplateId": made["id"] for phase in ("start", "modify", "cancel", "end")}
        return await self.definition(temporal=True, userEmailingEnabled=True, **mails, **members)

    async def take_and_receive(self, definition: Document, **members: Any) -> tuple[Document, Document]:
        """The action and its event."""
        body = {**self.request(definition, **members), "broadcast": True}
        answer = await self.api.post("/api/user/action", json=body)
        assert answer.status_code == 200, answer.text
        (event,) = await self.subscriber.received("user.action")
        return answer.json()["action"], event

    async def change(self, method: str, action: Document, *, broadcast: bool = True, **members: Any) -> Any:
        body = {"action": {"actionerUserId": self.moderator["id"], **members}, "broadcast": broadcast}
        return await self.api.request(method, f"/api/user/action/{action['id']}", json=body)

    async def sweep(self) -> None:
        await internals.run(self.service, action_expiry.sweep)


@pytest.fixture
async def action_scenario(service, tenant_api, tenant, receiver) -> AsyncIterator[ActionScenario]:
    async with receiving_mail() as mailbox:
        found = ActionScenario(service, tenant_api, tenant, receiver, mailbox)
        await found.begin()
        yield found


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_start_event_of_an_action_is_complete(action_scenario: ActionScenario) -> None:
    options = [{"name": "soft", "localizedNames": {"de": "sanft"}}]
    members = {"localizedNames": {"de": "Stumm"}, "options": options, "userNotificationsEnabled": True}
    definition = await action_scenario.definition(temporal=True, **members)
    reason = await action_scenario.reason(localizedTexts={"de": "Benehmen"})
    expiry = action_scenario.now + 2 * 24 * HOUR
    applications = []
    for _ in range(2):
        made = await action_scenario.api.post("/api/application", json={"application": {"name": new_id()}})
        applications.append(made.json()["application"]["id"])
    action, event = await action_scenario.take_and_receive(
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
        "actioneeUserId": action_scenario.user["id"],
        "actionerUserId": action_scenario.moderator["id"],
        "applicationIds": sorted(applications),
        "comment": "a comment",
        "emailedUser": False,
        "expiry": expiry,
        "linkedObjectId": action_scenario.user["id"],
        "localizedAction": "Stumm",
        "localizedOption": "sanft",
        "localizedReason": "Benehmen",
        "notifyUser": True,
        "option": "soft",
        "phase": "start",
        "reason": reason["text"],
        "reasonCode": reason["code"],
        "tenantId": action_scenario.tenant["id"],
        "type": "user.action",
    }


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_instant_action_raises_only_the_start_event(action_scenario: ActionScenario) -> None:
    _, event = await action_scenario.take_and_receive(await action_scenario.definition(), expiry=1, notifyUser=True)
    assert event["phase"] == "start"
    assert event["notifyUser"] is False, "the user action does not notify"
    assert {"expiry", "localizedDuration"}.isdisjoint(event)


@pytest.mark.requirement("event-user.action", "users-11-16")
async def test_without_broadcast_no_event_is_raised(action_scenario: ActionScenario) -> None:
    action = await action_scenario.take_action(await action_scenario.definition(temporal=True), expiry=INDEFINITE)
    assert (await action_scenario.change("PUT", action, broadcast=False, comment="x")).status_code == 200
    assert (await action_scenario.change("DELETE", action, broadcast=False)).status_code == 200
    _, event = await action_scenario.take_and_receive(await action_scenario.definition())
    assert event["actionId"] != action["id"]
    assert len(action_scenario.receiver.requests) == 1


@pytest.mark.requirement("core-18-templates-20", "event-user.action-2", "users-11-17", "users-11-6")
async def test_phases_of_an_action_raise_events_and_send_mails(action_scenario: ActionScenario) -> None:
    definition = await action_scenario.mailing(includeEmailInEventJSON=True, localizedNames={"de": "Stumm"})
    action, start = await action_scenario.take_and_receive(
        definition, expiry=action_scenario.now + HOUR, emailUser=True, comment="Mind your words"
    )
    assert action["emailUserOnEnd"] is True
    changed = await action_scenario.change("PUT", action, expiry=INDEFINITE, emailUser=True)
    assert changed.status_code == 200, changed.text
    (modify,) = await action_scenario.subscriber.received("user.action")
    assert (await action_scenario.change("DELETE", action, emailUser=True, comment="Enough")).status_code == 200
    (cancel,) = await action_scenario.subscriber.received("user.action")
    assert [event["phase"] for event in (start, modify, cancel)] == ["start", "modify", "cancel"]
    assert all(event["emailedUser"] for event in (start, modify, cancel))
    assert (modify["expiry"], cancel["comment"]) == (INDEFINITE, "Enough")
    assert "localizedDuration" not in modify
    mails = {mail.message["Subject"]: mail for mail in await action_scenario.mailbox.wait_for(3)}
    subjects = [f"{phase} {definition['name']}" for phase in ("start", "modify", "cancel")]
    assert set(mails) == set(subjects)
    assert mails[subjects[1]].part("plain").strip() == "Stumm: unbegrenzt"
    email = start["email"]
    assert (email["subject"], email["html"]) == (subjects[0], "<p>Mind your words</p>")
    assert [to["address"] for to in email["to"]] == [action_scenario.user["email"]]
    assert (email["from"]["address"], email["attachments"]) == ("service@example.com", [])
    assert email["text"] == "Stumm: 1 Stunde"


@pytest.mark.requirement("users-11-6")
async def test_no_mail_without_notification_or_address(action_scenario: ActionScenario) -> None:
    definition = await action_scenario.mailing(includeEmailInEventJSON=True)
    _, event = await action_scenario.take_and_receive(definition, expiry=INDEFINITE)
    assert event["emailedUser"] is False
    assert "email" not in event
    silent = await action_scenario.definition(temporal=True)
    _, event = await action_scenario.take_and_receive(silent, expiry=INDEFINITE, emailUser=True)
    assert event["emailedUser"] is False, "the user action has no mails"
    action_scenario.user = (
        await action_scenario.api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    ).json()["user"]
    _, event = await action_scenario.take_and_receive(definition, expiry=INDEFINITE, emailUser=True)
    assert event["emailedUser"] is False
    assert action_scenario.mailbox.mails == []


@pytest.mark.requirement("event-user.action-3", "users-11-18", "users-11-7")
async def test_action_is_ended_once_by_several_processes(action_scenario: ActionScenario, clock) -> None:
    definition = await action_scenario.mailing(preventLogin=True)
    action = await action_scenario.take_action(
        definition, expiry=action_scenario.now + 60_000, emailUser=True, notifyUser=True, comment="c"
    )
    user = await internals.store(action_scenario.service, "users").get(
        action_scenario.tenant["id"], action_scenario.user["id"]
    )
    assert [one["actionId"] for one in user["private"]["preventions"]] == [action["id"]]
    clock.advance(seconds=61)
    await asyncio.gather(*(action_scenario.sweep() for _ in range(16)))
    (event,) = await action_scenario.subscriber.received("user.action")
    assert (event["phase"], event["actionId"], event["comment"]) == ("end", action["id"], "c")
    assert "actionerUserId" not in event
    assert event["emailedUser"] is True
    await action_scenario.mailbox.wait_for(2)
    assert sorted(mail.message["Subject"].split()[0] for mail in action_scenario.mailbox.mails) == ["end", "start"]
    shown = (await action_scenario.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is True
    assert shown["expiry"] == action["expiry"]
    user = await internals.store(action_scenario.service, "users").get(
        action_scenario.tenant["id"], action_scenario.user["id"]
    )
    assert user["private"]["preventions"] == []
    await action_scenario.sweep()
    assert len(action_scenario.receiver.requests) == 1


@pytest.mark.requirement("event-user.action-3", "users-11-18")
async def test_action_without_end_event_ends(action_scenario: ActionScenario, clock) -> None:
    action = await action_scenario.take_action(
        await action_scenario.definition(temporal=True, sendEndEvent=False), expiry=action_scenario.now + 1000
    )
    take_and_receive = await action_scenario.take_action(
        await action_scenario.definition(temporal=True), expiry=action_scenario.now + 1000
    )
    clock.advance(seconds=2)
    await action_scenario.sweep()
    (event,) = await action_scenario.subscriber.received("user.action")
    assert event["actionId"] == take_and_receive["id"]
    shown = (await action_scenario.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is False
    assert (
        await internals.store(action_scenario.service, "action_logs").find_due_across_tenants(action_scenario.now, 1000)
        == []
    )


async def test_all_expired_actions_end(action_scenario: ActionScenario, clock, monkeypatch) -> None:
    monkeypatch.setattr(action_expiry, "_BATCH", 2)
    definition = await action_scenario.definition(temporal=True)
    taken = [await action_scenario.take_action(definition, expiry=action_scenario.now + 1000) for _ in range(5)]
    clock.advance(seconds=2)
    await action_scenario.sweep()
    ended = await action_scenario.subscriber.received(*["user.action"] * 5)
    assert {event["actionId"] for event in ended} == {action["id"] for action in taken}


@pytest.mark.requirement("users-11-7")
async def test_an_action_that_was_cancelled_does_not_end_once_more(action_scenario: ActionScenario, clock) -> None:
    action = await action_scenario.take_action(
        await action_scenario.definition(temporal=True), expiry=action_scenario.now + 1000
    )
    await action_scenario.change("DELETE", action, broadcast=False)
    clock.advance(seconds=2)
    await action_scenario.sweep()
    assert action_scenario.receiver.requests == []


@pytest.mark.requirement("users-11-7")
async def test_end_of_an_action_with_deleted_user_action_raises_no_event(
    action_scenario: ActionScenario, clock
) -> None:
    definition = await action_scenario.definition(temporal=True)
    action = await action_scenario.take_action(definition, expiry=action_scenario.now + 1000)
    assert (await action_scenario.api.delete(f"/api/user-action/{definition['id']}?hardDelete=true")).status_code == 200
    clock.advance(seconds=2)
    await action_scenario.sweep()
    shown = (await action_scenario.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert (shown["name"], shown["endEventSent"]) == (definition["name"], False)
    assert action_scenario.receiver.requests == []


@pytest.mark.requirement("users-11-7")
async def test_interrupted_end_of_an_action_is_completed_by_others(
    action_scenario: ActionScenario, clock, monkeypatch
) -> None:
    action = await action_scenario.take_action(
        await action_scenario.mailing(), expiry=action_scenario.now + 1000, emailUser=True
    )
    await action_scenario.mailbox.wait_for(1)
    clock.advance(seconds=2)
    mails = internals.store(action_scenario.service, "mails")

    async def fails(*_arguments: Any) -> None:
        raise RuntimeError("the process is gone")

    with monkeypatch.context() as patched:
        patched.setattr(mails, "add", fails)
        await action_scenario.sweep()
    shown = (await action_scenario.api.get(f"/api/user/action/{action['id']}")).json()["action"]
    assert shown["endEventSent"] is False
    assert action_scenario.receiver.requests == []
    await action_scenario.sweep()
    (event,) = await action_scenario.subscriber.received("user.action")
    assert (event["phase"], event["emailedUser"]) == ("end", True)
    await action_scenario.mailbox.wait_for(2)


@pytest.mark.requirement("users-11-20", "webhooks-8-13")
@pytest.mark.parametrize("by", ["tenant", "user action"])
async def test_a_veto_of_a_phase_leaves_everything_as_it_was(service, tenant_api, tenant, by, clock) -> None:
    async with receiving(answers(500)) as receiver, receiving_mail() as mailbox:
        action_scenario = ActionScenario(service, tenant_api, tenant, receiver, mailbox)
        await action_scenario.begin("AbsoluteMajority" if by == "tenant" else "None")
        asked = {} if by == "tenant" else {"transactionType": "Any"}
        definition = await action_scenario.mailing(preventLogin=True, **asked)
        login = {"loginId": action_scenario.user["email"], "password": "password"}
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200
        body = {**action_scenario.request(definition, expiry=INDEFINITE, emailUser=True), "broadcast": True}
        async with unchanged(service, tenant["id"]):
            answer = await tenant_api.post("/api/user/action", json=body)
        assert answer.status_code == 504
        await action_scenario.subscriber.received("user.action")
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200
        action = await action_scenario.take_action(definition, expiry=action_scenario.now + HOUR)
        for method in ("PUT", "DELETE"):
            async with unchanged(service, tenant["id"]):
                answer = await action_scenario.change(method, action, expiry=INDEFINITE, emailUser=True)
            assert answer.status_code == 504, answer.text
            await action_scenario.subscriber.received("user.action")
        assert (await tenant_api.post("/api/login", json=login)).status_code == 409
        clock.advance(seconds=3601)
        await action_scenario.sweep()
        (event,) = await action_scenario.subscriber.received("user.action")
        assert event["phase"] == "end", "no request waits for the end, and no webhook can veto it"
        assert (await tenant_api.post("/api/login", json=login)).status_code == 200


@pytest.mark.requirement("webhooks-8-13")
async def test_stricter_transaction_type_of_tenant_and_user_action_applies(service, tenant_api, tenant) -> None:
    async with receiving() as agreeing, receiving(answers(500)) as refusing, receiving_mail() as mailbox:
        action_scenario = ActionScenario(service, tenant_api, tenant, agreeing, mailbox)
        await action_scenario.begin("Any")
        await Subscriber(tenant_api, refusing, tenant["id"]).subscribe(["user.action"], "Any")
        for own, status in (("None", 200), ("SimpleMajority", 200), ("AbsoluteMajority", 504)):
            definition = await action_scenario.definition(transactionType=own)
            answer = await tenant_api.post(
                "/api/user/action", json={**action_scenario.request(definition), "broadcast": True}
            )
            assert answer.status_code == status, own


@pytest.mark.requirement("users-11-22", "users-2-14")
async def test_actions_and_comments_go_with_their_user_and_with_the_tenant(action_scenario: ActionScenario) -> None:
    services, tenant_id = action_scenario.service.services, TenantId(action_scenario.tenant["id"])
    for user in (action_scenario.user, action_scenario.moderator):
        action_scenario.user = user
        await action_scenario.take_action(await action_scenario.definition())
        body = {"comment": "c", "commenterId": action_scenario.moderator["id"], "userId": user["id"]}
        assert (await action_scenario.api.post("/api/user/comment", json={"userComment": body})).status_code == 200
    assert (
        await action_scenario.api.delete(f"/api/user/{action_scenario.moderator['id']}?hardDelete=true")
    ).status_code == 200
    for collection, member in (("action_logs", "actioneeUserId"), ("user_comments", "userId")):
        kept = await services.runtime.collections[collection].find_all(tenant_id)
        assert action_scenario.moderator["id"] not in [one[member] for one in kept]
        assert len(kept) == 1
    assert (await action_scenario.api.delete(f"/api/tenant/{tenant_id}")).status_code == 200
    for collection in ("action_logs", "user_comments", "text_messages"):
        assert await services.runtime.database.collection(collection).count_documents({"tenantId": tenant_id}) == 0


@pytest.mark.requirement("users-11-22")
async def test_the_stores_know_their_tenant(action_scenario: ActionScenario) -> None:
    services, other = action_scenario.service.services, TenantId(new_id())
    action = await action_scenario.ban()
    logs, users, user_id = services.logs.action_logs, services.directory.users, UserId(action_scenario.user["id"])
    tenant_id = TenantId(action_scenario.tenant["id"])
    assert not await logs.extend(other, action["id"], INDEFINITE, action_scenario.now)
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
    await locks.lock_unknown_login_id(tenant_id, "unknown", action_scenario.now + HOUR, action_scenario.now)
    assert await locks.is_unknown_login_id_locked(tenant_id, "unknown")
    assert not await locks.is_unknown_login_id_locked(other, "unknown")
