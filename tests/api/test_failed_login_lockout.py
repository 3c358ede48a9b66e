"""Account locks after failed logins: conditions, duration, visibility, and unlocking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.call import Call
from identity.errors import Unavailable
from identity.ids import TenantId, new_id
from identity.operations.login import failed_login_lockout
from identity.operations.passwords import user_passwords
from identity.operations.user_actions import action_expiry
from tests import doors, relying_party
from tests.hearing import Hearing
from tests.mailbox import receiving as receiving_mail
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, page
from tests.veto import unchanged

Document = dict[str, Any]
MINUTE = 60_000
TOO_MANY = 3


class Door:
    """A tenant that locks accounts after three failures, for five minutes."""

    def __init__(self, service: Any, api: Any, rp: Any, definition: Document) -> None:
        self.service, self.api, self.rp, self.definition = service, api, rp, definition
        self.service = service

    @property
    def tenant_id(self) -> TenantId:
        return TenantId(self.rp.tenant["id"])

    @property
    def user_id(self) -> str:
        return str(self.rp.user["id"])

    @property
    def now(self) -> int:
        return int(doors.now(self.service))

    async def configure(self, **members: Any) -> None:
        usual = {"userActionId": self.definition["id"], "tooManyAttempts": TOO_MANY, "actionDuration": 5}
        await self.rp.configure_tenant(failedAuthenticationConfiguration={**usual, **members})

    async def knock(self, password: str, login_id: str | None = None, **headers: str) -> Any:
        body = {"loginId": login_id or self.rp.login_id, "password": password, "applicationId": self.rp.client_id}
        return await self.api.post(
            "/api/login", json=body, headers={"X-FusionAuth-TenantId": self.tenant_id, **headers}
        )

    async def fail(self, times: int = TOO_MANY, login_id: str | None = None) -> None:
        for _ in range(times):
            answer = await self.knock("wrong", login_id)
            assert answer.status_code == 404, answer.text

    async def actions(self, **query: Any) -> list[Document]:
        answer = await self.api.get(
            "/api/user/action",
            params={"userId": self.user_id, **query},
            headers={"X-FusionAuth-TenantId": self.tenant_id},
        )
        assert answer.status_code == 200, answer.text
        return list(answer.json()["actions"])

    async def outlast(self, clock: Any) -> None:
        """Wait until a lock expires; the count in Redis expires by its own clock."""
        clock.advance(seconds=301)
        await doors.store(self.service, "lock_outs").clear(self.tenant_id, self.user_id)

    def call(self) -> Call:
        return doors.call(self.service, self.tenant_id, "192.0.2.1")


async def make_definition(api: Any, **members: Any) -> Document:
    wanted = {"name": f"Too many failures {new_id()}", "temporal": True, "preventLogin": True, **members}
    return dict((await api.post("/api/user-action", json={"userAction": wanted})).json()["userAction"])


@pytest.fixture
async def door(service, api) -> Door:
    found = Door(service, api, await relying_party.make(api), await make_definition(api))
    await found.configure()
    return found


@pytest.mark.requirement("users-11-11")
async def test_failures_lock_account_even_for_correct_password(door: Door) -> None:
    await door.fail(TOO_MANY - 1)
    assert (await door.knock(PASSWORD)).status_code == 200
    await door.fail(TOO_MANY)
    (action,) = await door.actions(preventingLogin="true")
    assert action["userActionId"] == door.definition["id"]
    assert action["name"] == door.definition["name"]
    assert door.now + 4 * MINUTE < action["expiry"] <= door.now + 5 * MINUTE
    assert "actionerUserId" not in action
    right, wrong = await door.knock(PASSWORD), await door.knock("wrong")
    for answer in (right, wrong):
        assert answer.status_code == 409
        (told,) = answer.json()["actions"]
        assert told.keys() == {"actionId", "expiry", "localizedName", "name"}
        assert (told["actionId"], told["name"]) == (action["id"], door.definition["name"])


@pytest.mark.requirement("attack-48", "users-11-15")
async def test_attack_48_locked_account_answers_the_same_to_right_and_wrong_passwords(door: Door, clock) -> None:
    """Otherwise guessing could continue while the account is locked."""
    await door.fail()
    seen = []
    for password in (PASSWORD, "wrong", PASSWORD):
        clock.advance(seconds=10)
        before = door.now
        answer = await door.knock(password)
        (told,) = answer.json()["actions"]
        seen.append((answer.status_code, sorted(answer.headers), told["expiry"] - before >= 5 * MINUTE))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == 409
    assert seen[0][2], "each attempt makes the lock last longer, whatever the password"


@pytest.mark.requirement("users-11-11")
async def test_attempts_extend_lock_until_it_expires(door: Door, clock) -> None:
    await door.fail()
    clock.advance(seconds=290)
    assert (await door.knock("wrong")).status_code == 409
    clock.advance(seconds=290)
    assert (await door.knock("wrong")).status_code == 409
    (action,) = await door.actions(active="true")
    assert action["history"] == {"historyItems": []}
    await door.outlast(clock)
    assert (await door.knock(PASSWORD)).status_code == 200
    assert await door.actions(active="true") == []


@pytest.mark.requirement("users-11-11")
async def test_account_can_be_locked_again(door: Door, clock) -> None:
    await door.fail()
    await door.outlast(clock)
    await door.fail()
    assert (await door.knock(PASSWORD)).status_code == 409
    assert len(await door.actions()) == 2
    assert len(await door.actions(active="true")) == 1


@pytest.mark.requirement("attack-48")
async def test_attack_48_other_users_success_and_headers_do_not_reset_count(door: Door) -> None:
    other = await relying_party.make_user(door.api, door.tenant_id, door.rp.client_id)
    await door.fail(TOO_MANY - 1)
    assert (await door.knock(PASSWORD, other["email"])).status_code == 200
    forged = {"X-Forwarded-For": "203.0.113.77", "Forwarded": "for=203.0.113.78", "User-Agent": "another"}
    answer = await door.knock("wrong", door.rp.login_id.upper(), **forged)
    assert answer.status_code == 404
    assert (await door.knock(PASSWORD)).status_code == 409


@pytest.mark.requirement("users-11-11")
async def test_correct_password_resets_failure_count(door: Door) -> None:
    for _ in range(3):
        await door.fail(TOO_MANY - 1)
        assert (await door.knock(PASSWORD)).status_code == 200
    assert await door.actions() == []


@pytest.mark.requirement("users-11-11")
async def test_failures_are_counted_within_window(door: Door) -> None:
    await door.fail(TOO_MANY - 1)
    client, key = (
        doors.redis(door.service).client,
        doors.store(door.service, "lock_outs")._key(door.tenant_id, door.user_id),
    )
    assert 0 < await client.ttl(key) <= 60
    await client.delete(key)
    await door.fail(TOO_MANY - 1)
    assert (await door.knock(PASSWORD)).status_code == 200


@pytest.mark.requirement("users-11-11")
async def test_no_lock_without_configured_action(door: Door) -> None:
    await door.rp.configure_tenant(failedAuthenticationConfiguration=None)
    await door.fail(3 * TOO_MANY)
    assert (await door.knock(PASSWORD)).status_code == 200
    assert await door.actions() == []


@pytest.mark.requirement("attack-48", "users-11-14")
async def test_attack_48_concurrent_failures_create_one_action(door: Door) -> None:
    async with receiving() as receiver:
        hearing = Hearing(door.api, receiver, door.tenant_id)
        await hearing.listen(["user.action"])
        found = await asyncio.gather(*(door.knock("wrong") for _ in range(64)))
        statuses = [answer.status_code for answer in found]
        assert set(statuses) <= {404, 409, 503}
        assert statuses.count(404) <= TOO_MANY, "no more passwords are compared than are allowed"
        assert len(await door.actions()) == 1
        assert (await door.knock(PASSWORD)).status_code in {409, 503}
        (event,) = await hearing.heard("user.action")
        assert len(receiver.requests) == 1
    assert event["phase"] == "start"


@pytest.mark.requirement("attack-44", "users-11-14")
async def test_attack_44_unknown_user_is_locked_like_existing_user(door: Door) -> None:
    nobody = f"{new_id()}@example.com"
    await door.fail(TOO_MANY, nobody)
    await door.fail(TOO_MANY)
    there, not_there = await door.knock("wrong"), await door.knock("wrong", nobody)
    assert (there.status_code, sorted(there.headers)) == (not_there.status_code, sorted(not_there.headers))
    (one,), (other,) = there.json()["actions"], not_there.json()["actions"]
    assert one.keys() == other.keys()
    assert (one["name"], one["localizedName"]) == (other["name"], other["localizedName"])
    assert abs(one["expiry"] - other["expiry"]) < MINUTE
    again = (await door.knock("wrong", nobody)).json()["actions"][0]
    assert again["actionId"] == other["actionId"]
    assert again["expiry"] >= other["expiry"]


@pytest.mark.requirement("attack-44")
async def test_attack_44_lock_message_language_does_not_reveal_user(door: Door) -> None:
    definition = await make_definition(door.api, localizedNames={"de": "Zu viele Fehler"})
    await door.configure(userActionId=definition["id"])
    user = await relying_party.make_user(door.api, door.tenant_id, door.rp.client_id, preferredLanguages=["de"])
    await door.fail(TOO_MANY, user["email"])
    (told,) = (await door.knock("wrong", user["email"])).json()["actions"]
    assert told["localizedName"] == definition["name"]


@pytest.mark.requirement("users-11-14")
async def test_login_page_answers_the_same_to_existing_and_unknown_users(door: Door, http) -> None:
    nobody = f"{new_id()}@example.com"
    await door.fail(TOO_MANY, nobody)
    await door.fail(TOO_MANY)
    texts = []
    for login_id, password in ((door.rp.login_id, PASSWORD), (door.rp.login_id, "wrong"), (nobody, "wrong")):
        shown = await door.rp.authorize(http)
        answer = await door.rp.submit(http, shown, loginId=login_id, password=password)
        assert answer.status_code == 200
        texts.append(page(answer).text.replace(login_id, "login"))
    assert "This sign-in was rejected." in texts[0]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.requirement("users-11-14")
async def test_password_grant_reveals_nothing_about_password(door: Door, http) -> None:
    await door.rp.configure(enabledGrants=["password"])
    await door.fail()
    for password in (PASSWORD, "wrong"):
        form = {"grant_type": "password", "username": door.rp.login_id, "password": password, "redirect_uri": None}
        answer = await door.rp.token(http, **form)
        assert (answer.status_code, answer.json()["error_reason"]) == (400, "login_prevented")


@pytest.mark.requirement("event-user.action-4", "users-11-12", "users-11-19")
async def test_webhooks_and_user_are_notified_of_lock_and_its_end(door: Door, clock) -> None:
    template = {"name": new_id(), "defaultSubject": "${event.phase}: ${event.action}", "defaultHtmlTemplate": "h"}
    template |= {"defaultTextTemplate": "${user.email} for ${event.localizedDuration!''}"}
    made = (await door.api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"]
    mails = {f"{phase}EmailTemplateId": made["id"] for phase in ("start", "modify", "cancel", "end")}
    definition = await make_definition(door.api, userEmailingEnabled=True, includeEmailInEventJSON=True, **mails)
    await door.configure(userActionId=definition["id"], emailUser=True)
    async with receiving_mail() as mailbox, receiving() as receiver:
        await door.rp.configure_tenant(emailConfiguration=mailbox.configuration())
        hearing = Hearing(door.api, receiver, door.tenant_id)
        await hearing.listen(["user.action"])
        await door.fail()
        (start,) = await hearing.heard("user.action")
        (first,) = await mailbox.wait_for(1)
        clock.advance(seconds=301)
        log = (await door.actions())[0]
        await doors.run(door.service, action_expiry.sweep)
        (end,) = await hearing.heard("user.action")
        _, last = await mailbox.wait_for(2)
    assert (start["phase"], start["emailedUser"], start["linkedObjectId"]) == ("start", True, door.user_id)
    assert (start["actionId"], start["action"], start["localizedDuration"]) == (
        log["id"],
        definition["name"],
        "5 minutes",
    )
    assert "actionerUserId" not in start
    assert start["email"]["subject"] == f"start: {definition['name']}"
    assert [to["address"] for to in start["email"]["to"]] == [door.rp.login_id]
    assert first.message["Subject"] == f"start: {definition['name']}"
    assert first.part("plain").strip() == f"{door.rp.login_id} for 5 minutes"
    assert (end["phase"], end["emailedUser"], end["actionId"]) == ("end", True, log["id"])
    assert last.message["Subject"] == f"end: {definition['name']}"
    assert (await door.actions())[0]["endEventSent"] is True


@pytest.mark.requirement("users-11-12")
async def test_vetoed_lock_leaves_account_unlocked(door: Door) -> None:
    await door.fail(TOO_MANY - 1)
    async with receiving(answers(500)) as receiver:
        hearing = Hearing(door.api, receiver, door.tenant_id)
        await hearing.listen(["user.action"], "AbsoluteMajority")
        async with unchanged(door.service, door.tenant_id, except_for=(":limit:",)):
            assert (await door.knock("wrong")).status_code == 404
        await hearing.heard("user.action")
    assert await door.actions() == []
    assert (await door.knock(PASSWORD)).status_code == 200


@pytest.mark.requirement("event-user.action-4", "users-11-13", "users-11-19")
@pytest.mark.parametrize("is_wanted", [True, False])
async def test_password_reset_unlocks_account_if_configured(door: Door, is_wanted) -> None:
    await door.configure(actionCancelPolicy={"onPasswordReset": is_wanted})
    await door.fail()
    tenant = await doors.store(door.service, "tenants").get(None, door.tenant_id)
    user = await doors.store(door.service, "users").get(door.tenant_id, door.user_id)
    async with receiving() as receiver:
        hearing = Hearing(door.api, receiver, door.tenant_id)
        await hearing.listen(["user.action"])
        await doors.run(door.service, failed_login_lockout.cancel_lock_out, door.call(), tenant, user)
        if is_wanted:
            (event,) = await hearing.heard("user.action")
            assert event["phase"] == "cancel"
    assert (await door.knock(PASSWORD)).status_code == (200 if is_wanted else 409)
    assert len(await door.actions(active="true")) == (0 if is_wanted else 1)


@pytest.mark.requirement("users-11-13")
async def test_administrator_can_unlock_account(door: Door) -> None:
    await door.fail()
    (action,) = await door.actions()
    by = {"action": {"actionerUserId": door.user_id, "comment": "It was me"}}
    tenant = {"X-FusionAuth-TenantId": door.tenant_id}
    answer = await door.api.request("DELETE", f"/api/user/action/{action['id']}", json=by, headers=tenant)
    assert answer.status_code == 200
    assert (await door.knock(PASSWORD)).status_code == 200
    await door.fail(TOO_MANY - 1)
    assert (await door.knock(PASSWORD)).status_code == 200


@pytest.mark.requirement("event-jwt.refresh-token.revoke-6", "users-11-12")
async def test_lock_ends_sessions_and_refresh_tokens(door: Door, http) -> None:
    await door.rp.patch(
        f"/api/application/{door.rp.client_id}",
        {"application": {"loginConfiguration": {"allowTokenRefresh": True, "generateRefreshTokens": True}}},
    )
    tokens = await door.rp.tokens(http, http)
    async with receiving() as receiver:
        hearing = Hearing(door.api, receiver, door.tenant_id)
        await hearing.listen(["jwt.refresh-token.revoke"])
        await door.fail()
        (event,) = await hearing.heard("jwt.refresh-token.revoke")
    assert event["userId"] == door.rp.user["id"]
    answer = await door.rp.refresh(http, tokens["refresh_token"])
    assert answer.json()["error_reason"] == "refresh_token_not_found"
    assert (await door.rp.authorize(http)).status_code == 200


@pytest.mark.requirement("users-11-11")
async def test_attempts_without_password_comparison_do_not_count(door: Door, monkeypatch) -> None:
    async def busy(*_arguments: Any) -> bool:
        raise Unavailable("Too many passwords wait.")

    with monkeypatch.context() as patched:
        patched.setattr(user_passwords, "is_correct", busy)
        for _ in range(2 * TOO_MANY):
            assert (await door.knock(PASSWORD)).status_code == 503
    assert (await door.knock(PASSWORD)).status_code == 200
