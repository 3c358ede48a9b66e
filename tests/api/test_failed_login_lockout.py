"""Account locks after failed logins: conditions, duration, visibility, and unlocking."""

from __future__ import annotations

import asyncio
from typing import Any

import argon2
import pytest

from identity.call import Call
from identity.errors import Unavailable
from identity.ids import TenantId, new_id
from identity.operations.login import failed_login_lockout
from identity.operations.passwords import user_passwords
from identity.operations.user_actions import action_expiry
from tests import internals, relying_party
from tests.mailbox import receiving as receiving_mail
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, page
from tests.subscriber import Subscriber
from tests.veto import unchanged

Document = dict[str, Any]
MINUTE = 60_000
TOO_MANY = 3


class Lockout:
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
        return int(internals.now(self.service))

    async def configure(self, **members: Any) -> None:
        usual = {"userActionId": self.definition["id"], "tooManyAttempts": TOO_MANY, "actionDuration": 5}
        await self.rp.configure_tenant(failedAuthenticationConfiguration={**usual, **members})

    async def log_in(self, password: str, login_id: str | None = None, **headers: str) -> Any:
        body = {"loginId": login_id or self.rp.login_id, "password": password, "applicationId": self.rp.client_id}
        return await self.api.post(
            "/api/login", json=body, headers={"X-FusionAuth-TenantId": self.tenant_id, **headers}
        )

    async def fail(self, times: int = TOO_MANY, login_id: str | None = None) -> None:
        for _ in range(times):
            answer = await self.log_in("wrong", login_id)
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
        await internals.store(self.service, "lock_outs").clear(self.tenant_id, self.user_id)

    def call(self) -> Call:
        return internals.call(self.service, self.tenant_id, "192.0.2.1")


async def make_definition(api: Any, **members: Any) -> Document:
    wanted = {"name": f"Too many failures {new_id()}", "temporal": True, "preventLogin": True, **members}
    return dict((await api.post("/api/user-action", json={"userAction": wanted})).json()["userAction"])


@pytest.fixture
async def lockout(service, api) -> Lockout:
    found = Lockout(service, api, await relying_party.make(api), await make_definition(api))
    await found.configure()
    return found


@pytest.mark.requirement("users-11-11")
async def test_failures_lock_account_even_for_correct_password(lockout: Lockout) -> None:
    await lockout.fail(TOO_MANY - 1)
    assert (await lockout.log_in(PASSWORD)).status_code == 200
    await lockout.fail(TOO_MANY)
    (action,) = await lockout.actions(preventingLogin="true")
    assert action["userActionId"] == lockout.definition["id"]
    assert action["name"] == lockout.definition["name"]
    assert lockout.now + 4 * MINUTE < action["expiry"] <= lockout.now + 5 * MINUTE
    assert "actionerUserId" not in action
    right, wrong = await lockout.log_in(PASSWORD), await lockout.log_in("wrong")
    for answer in (right, wrong):
        assert answer.status_code == 409
        (listed,) = answer.json()["actions"]
        assert listed.keys() == {"actionId", "expiry", "localizedName", "name"}
        assert (listed["actionId"], listed["name"]) == (action["id"], lockout.definition["name"])


@pytest.mark.requirement("attack-48", "users-11-15")
async def test_attack_48_locked_account_answers_the_same_to_right_and_wrong_passwords(lockout: Lockout, clock) -> None:
    """Otherwise guessing could continue while the account is locked."""
    await lockout.fail()
    seen = []
    for password in (PASSWORD, "wrong", PASSWORD):
        clock.advance(seconds=10)
        before = lockout.now
        answer = await lockout.log_in(password)
        (listed,) = answer.json()["actions"]
        seen.append((answer.status_code, sorted(answer.headers), listed["expiry"] - before >= 5 * MINUTE))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == 409
    assert seen[0][2], "each attempt makes the lock last longer, whatever the password"


@pytest.mark.requirement("users-11-11")
async def test_attempts_extend_lock_until_it_expires(lockout: Lockout, clock) -> None:
    await lockout.fail()
    clock.advance(seconds=290)
    assert (await lockout.log_in("wrong")).status_code == 409
    clock.advance(seconds=290)
    assert (await lockout.log_in("wrong")).status_code == 409
    (action,) = await lockout.actions(active="true")
    assert action["history"] == {"historyItems": []}
    await lockout.outlast(clock)
    assert (await lockout.log_in(PASSWORD)).status_code == 200
    assert await lockout.actions(active="true") == []


@pytest.mark.requirement("users-11-11")
async def test_account_can_be_locked_again(lockout: Lockout, clock) -> None:
    await lockout.fail()
    await lockout.outlast(clock)
    await lockout.fail()
    assert (await lockout.log_in(PASSWORD)).status_code == 409
    assert len(await lockout.actions()) == 2
    assert len(await lockout.actions(active="true")) == 1


@pytest.mark.requirement("attack-48")
async def test_attack_48_other_users_success_and_headers_do_not_reset_count(lockout: Lockout) -> None:
    other = await relying_party.make_user(lockout.api, lockout.tenant_id, lockout.rp.client_id)
    await lockout.fail(TOO_MANY - 1)
    assert (await lockout.log_in(PASSWORD, other["email"])).status_code == 200
    forged = {"X-Forwarded-For": "203.0.113.77", "Forwarded": "for=203.0.113.78", "User-Agent": "another"}
    answer = await lockout.log_in("wrong", lockout.rp.login_id.upper(), **forged)
    assert answer.status_code == 404
    assert (await lockout.log_in(PASSWORD)).status_code == 409


@pytest.mark.requirement("users-11-11")
async def test_correct_password_resets_failure_count(lockout: Lockout) -> None:
    for _ in range(3):
        await lockout.fail(TOO_MANY - 1)
        assert (await lockout.log_in(PASSWORD)).status_code == 200
    assert await lockout.actions() == []


@pytest.mark.requirement("users-11-11")
async def test_failures_are_counted_within_window(lockout: Lockout) -> None:
    await lockout.fail(TOO_MANY - 1)
    client, key = (
        internals.redis(lockout.service).client,
        internals.store(lockout.service, "lock_outs")._key(lockout.tenant_id, lockout.user_id),
    )
    assert 0 < await client.ttl(key) <= 60
    await client.delete(key)
    await lockout.fail(TOO_MANY - 1)
    assert (await lockout.log_in(PASSWORD)).status_code == 200


@pytest.mark.requirement("users-11-11")
async def test_no_lock_without_configured_action(lockout: Lockout) -> None:
    await lockout.rp.configure_tenant(failedAuthenticationConfiguration=None)
    await lockout.fail(3 * TOO_MANY)
    assert (await lockout.log_in(PASSWORD)).status_code == 200
    assert await lockout.actions() == []


@pytest.mark.requirement("attack-48", "users-11-14")
async def test_attack_48_concurrent_failures_create_one_action(lockout: Lockout) -> None:
    async with receiving() as receiver:
        subscriber = Subscriber(lockout.api, receiver, lockout.tenant_id)
        await subscriber.subscribe(["user.action"])
        found = await asyncio.gather(*(lockout.log_in("wrong") for _ in range(64)))
        statuses = [answer.status_code for answer in found]
        assert set(statuses) <= {404, 409, 503}
        assert statuses.count(404) <= TOO_MANY, "no more passwords are compared than are allowed"
        assert len(await lockout.actions()) == 1
        assert (await lockout.log_in(PASSWORD)).status_code in {409, 503}
        (event,) = await subscriber.received("user.action")
        assert len(receiver.requests) == 1
    assert event["phase"] == "start"


@pytest.mark.requirement("attack-44", "users-11-14")
async def test_attack_44_unknown_user_is_locked_like_existing_user(lockout: Lockout) -> None:
    unknown = f"{new_id()}@example.com"
    await lockout.fail(TOO_MANY, unknown)
    await lockout.fail(TOO_MANY)
    there, not_there = await lockout.log_in("wrong"), await lockout.log_in("wrong", unknown)
    assert (there.status_code, sorted(there.headers)) == (not_there.status_code, sorted(not_there.headers))
    (one,), (other,) = there.json()["actions"], not_there.json()["actions"]
    assert one.keys() == other.keys()
    assert (one["name"], one["localizedName"]) == (other["name"], other["localizedName"])
    assert abs(one["expiry"] - other["expiry"]) < MINUTE
    again = (await lockout.log_in("wrong", unknown)).json()["actions"][0]
    assert again["actionId"] == other["actionId"]
    assert again["expiry"] >= other["expiry"]


@pytest.mark.requirement("attack-44")
async def test_attack_44_lock_message_language_does_not_reveal_user(lockout: Lockout) -> None:
    definition = await make_definition(lockout.api, localizedNames={"de": "Zu viele Fehler"})
    await lockout.configure(userActionId=definition["id"])
    user = await relying_party.make_user(
        lockout.api, lockout.tenant_id, lockout.rp.client_id, preferredLanguages=["de"]
    )
    await lockout.fail(TOO_MANY, user["email"])
    (listed,) = (await lockout.log_in("wrong", user["email"])).json()["actions"]
    assert listed["localizedName"] == definition["name"]


@pytest.mark.requirement("users-11-14")
async def test_login_page_answers_the_same_to_existing_and_unknown_users(lockout: Lockout, http) -> None:
    unknown = f"{new_id()}@example.com"
    await lockout.fail(TOO_MANY, unknown)
    await lockout.fail(TOO_MANY)
    texts = []
    for login_id, password in ((lockout.rp.login_id, PASSWORD), (lockout.rp.login_id, "wrong"), (unknown, "wrong")):
        shown = await lockout.rp.authorize(http)
        answer = await lockout.rp.submit(http, shown, loginId=login_id, password=password)
        assert answer.status_code == 200
        texts.append(page(answer).text.replace(login_id, "login"))
    assert "This sign-in was rejected." in texts[0]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.requirement("users-11-14")
async def test_password_grant_reveals_nothing_about_password(lockout: Lockout, http) -> None:
    await lockout.rp.configure(enabledGrants=["password"])
    await lockout.fail()
    for password in (PASSWORD, "wrong"):
        form = {"grant_type": "password", "username": lockout.rp.login_id, "password": password, "redirect_uri": None}
        answer = await lockout.rp.token(http, **form)
        assert (answer.status_code, answer.json()["error_reason"]) == (400, "login_prevented")


@pytest.mark.requirement("event-user.action-4", "users-11-12", "users-11-19")
async def test_webhooks_and_user_are_notified_of_lock_and_its_end(lockout: Lockout, clock) -> None:
    template = {"name": new_id(), "defaultSubject": "${event.phase}: ${event.action}", "defaultHtmlTemplate": "h"}
    template |= {"defaultTextTemplate": "${user.email} for ${event.localizedDuration!''}"}
    made = (await lockout.api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"]
    mails = {f"{phase}EmailTemplateId": made["id"] for phase in ("start", "modify", "cancel", "end")}
    definition = await make_definition(lockout.api, userEmailingEnabled=True, includeEmailInEventJSON=True, **mails)
    await lockout.configure(userActionId=definition["id"], emailUser=True)
    async with receiving_mail() as mailbox, receiving() as receiver:
        await lockout.rp.configure_tenant(emailConfiguration=mailbox.configuration())
        subscriber = Subscriber(lockout.api, receiver, lockout.tenant_id)
        await subscriber.subscribe(["user.action"])
        await lockout.fail()
        (start,) = await subscriber.received("user.action")
        (first,) = await mailbox.wait_for(1)
        clock.advance(seconds=301)
        log = (await lockout.actions())[0]
        await internals.run(lockout.service, action_expiry.sweep)
        (end,) = await subscriber.received("user.action")
        _, last = await mailbox.wait_for(2)
    assert (start["phase"], start["emailedUser"], start["linkedObjectId"]) == ("start", True, lockout.user_id)
    assert (start["actionId"], start["action"], start["localizedDuration"]) == (
        log["id"],
        definition["name"],
        "5 minutes",
    )
    assert "actionerUserId" not in start
    assert start["email"]["subject"] == f"start: {definition['name']}"
    assert [to["address"] for to in start["email"]["to"]] == [lockout.rp.login_id]
    assert first.message["Subject"] == f"start: {definition['name']}"
    assert first.part("plain").strip() == f"{lockout.rp.login_id} for 5 minutes"
    assert (end["phase"], end["emailedUser"], end["actionId"]) == ("end", True, log["id"])
    assert last.message["Subject"] == f"end: {definition['name']}"
    assert (await lockout.actions())[0]["endEventSent"] is True


@pytest.mark.requirement("users-11-12")
async def test_vetoed_lock_leaves_account_unlocked(lockout: Lockout) -> None:
    await lockout.fail(TOO_MANY - 1)
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(lockout.api, receiver, lockout.tenant_id)
        await subscriber.subscribe(["user.action"], "AbsoluteMajority")
        async with unchanged(lockout.service, lockout.tenant_id, except_for=(":limit:",)):
            assert (await lockout.log_in("wrong")).status_code == 404
        await subscriber.received("user.action")
    assert await lockout.actions() == []
    assert (await lockout.log_in(PASSWORD)).status_code == 200


@pytest.mark.requirement("event-user.action-4", "users-11-13", "users-11-19")
@pytest.mark.parametrize("is_wanted", [True, False])
async def test_password_reset_unlocks_account_if_configured(lockout: Lockout, is_wanted) -> None:
    await lockout.configure(actionCancelPolicy={"onPasswordReset": is_wanted})
    await lockout.fail()
    tenant = await internals.store(lockout.service, "tenants").get(None, lockout.tenant_id)
    user = await internals.store(lockout.service, "users").get(lockout.tenant_id, lockout.user_id)
    async with receiving() as receiver:
        subscriber = Subscriber(lockout.api, receiver, lockout.tenant_id)
        await subscriber.subscribe(["user.action"])
        await internals.run(lockout.service, failed_login_lockout.cancel_lock_out, lockout.call(), tenant, user)
        if is_wanted:
            (event,) = await subscriber.received("user.action")
            assert event["phase"] == "cancel"
    assert (await lockout.log_in(PASSWORD)).status_code == (200 if is_wanted else 409)
    assert len(await lockout.actions(active="true")) == (0 if is_wanted else 1)


@pytest.mark.requirement("users-11-13")
async def test_administrator_can_unlock_account(lockout: Lockout) -> None:
    await lockout.fail()
    (action,) = await lockout.actions()
    by = {"action": {"actionerUserId": lockout.user_id, "comment": "It was me"}}
    tenant = {"X-FusionAuth-TenantId": lockout.tenant_id}
    answer = await lockout.api.request("DELETE", f"/api/user/action/{action['id']}", json=by, headers=tenant)
    assert answer.status_code == 200
    assert (await lockout.log_in(PASSWORD)).status_code == 200
    await lockout.fail(TOO_MANY - 1)
    assert (await lockout.log_in(PASSWORD)).status_code == 200


@pytest.mark.requirement("event-jwt.refresh-token.revoke-6", "users-11-12")
async def test_lock_ends_sessions_and_refresh_tokens(lockout: Lockout, http) -> None:
    await lockout.rp.patch(
        f"/api/application/{lockout.rp.client_id}",
        {"application": {"loginConfiguration": {"allowTokenRefresh": True, "generateRefreshTokens": True}}},
    )
    tokens = await lockout.rp.tokens(http, http)
    async with receiving() as receiver:
        subscriber = Subscriber(lockout.api, receiver, lockout.tenant_id)
        await subscriber.subscribe(["jwt.refresh-token.revoke"])
        await lockout.fail()
        (event,) = await subscriber.received("jwt.refresh-token.revoke")
    assert event["userId"] == lockout.rp.user["id"]
    answer = await lockout.rp.refresh(http, tokens["refresh_token"])
    assert answer.json()["error_reason"] == "refresh_token_not_found"
    assert (await lockout.rp.authorize(http)).status_code == 200


@pytest.mark.requirement("users-11-11")
async def test_attempts_without_password_comparison_do_not_count(lockout: Lockout, monkeypatch) -> None:
    async def busy(*_arguments: Any) -> bool:
        raise Unavailable("Too many passwords wait.")

    with monkeypatch.context() as patched:
        patched.setattr(user_passwords, "is_correct", busy)
        for _ in range(2 * TOO_MANY):
            assert (await lockout.log_in(PASSWORD)).status_code == 503
    assert (await lockout.log_in(PASSWORD)).status_code == 200


@pytest.mark.requirement("users-11-11")
async def test_attempts_that_lack_memory_are_503_and_do_not_count(lockout: Lockout, monkeypatch) -> None:
    def short_of_memory(*_arguments: object) -> bytes:
        raise argon2.exceptions.HashingError("Memory allocation error")

    async def change_password(**members: str) -> Any:
        body = {"loginId": user["email"], "currentPassword": PASSWORD, "password": "another password", **members}
        headers = {"X-FusionAuth-TenantId": lockout.tenant_id}
        return await lockout.api.post("/api/user/change-password", json=body, headers=headers)

    limit = {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}
    await lockout.rp.configure_tenant(
        rateLimitConfiguration={"failedLogin": limit},
        passwordEncryptionConfiguration={"encryptionScheme": "argon2id", "encryptionSchemeFactor": 1},
    )
    user = await relying_party.make_user(lockout.api, lockout.tenant_id, lockout.rp.client_id)
    with monkeypatch.context() as patched:
        patched.setattr(argon2.low_level, "hash_secret_raw", short_of_memory)
        for login_id in (user["email"], "unknown@example.com") * (TOO_MANY + 1):
            assert busy(await lockout.log_in(PASSWORD, login_id))
        for _ in range(2):
            assert busy(await change_password())
    assert (await lockout.log_in(PASSWORD, user["email"])).status_code == 200
    assert (await change_password()).status_code == 200


def busy(answer: Any) -> bool:
    """Whether the response reports that no password could be compared."""
    message = "Too many logins at once; try again."
    errors = answer.json()["generalErrors"]
    return answer.status_code == 503 and [error["message"] for error in errors] == [message]
