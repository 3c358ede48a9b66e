"""/api/user/verify-email over HTTP: verification by mail and by API key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.domain.messaging import mail_templates
from identity.ids import fingerprint, new_id, new_text
from identity.operations.limits import code_attempt_limits, message_limits
from identity.operations.verification import email_verifications, verification_api
from tests import internals
from tests.api.test_notices import make_template
from tests.conftest import UNKNOWN_ID
from tests.mailbox import Mailbox, receiving

Document = dict[str, Any]

PATH = "/api/user/verify-email"
GATED = {"unverified": {"behavior": "Gated"}, "verificationStrategy": "FormField"}


class Verification:
    """A tenant that verifies addresses, and its mailbox."""

    def __init__(self, api: httpx.AsyncClient, tenant_id: str, mailbox: Mailbox) -> None:
        self.api, self.tenant_id, self.mailbox = api, tenant_id, mailbox
        self._seen = 0

    async def configure(self, **members: Any) -> None:
        body = {"tenant": {"emailConfiguration": members}}
        await self.change(body)

    async def change(self, body: Document) -> None:
        answer = await self.api.patch(f"/api/tenant/{self.tenant_id}", json=body)
        assert answer.status_code == 200, answer.text

    async def mailed(self) -> tuple[str, str]:
        """The id and the code of the next mail."""
        mails = await self.mailbox.wait_for(self._seen + 1)
        self._seen += 1
        verification_id, _, code = mails[self._seen - 1].part("plain").strip().partition(" ")
        return verification_id, code

    async def nothing_more(self) -> None:
        """No further mail: a notice sent now is the next one."""
        assert len(self.mailbox.mails) == self._seen

    async def made(self, **members: Any) -> Document:
        """The response to the creation of a user."""
        user = {"email": f"{new_id()}@example.com", "password": "password", **members.pop("user", {})}
        answer = await self.api.post("/api/user", json={"user": user, **members})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def user(self, user_id: str) -> Document:
        return dict((await self.api.get(f"/api/user/{user_id}")).json()["user"])


@pytest.fixture
async def scenario(tenant: Document, tenant_api: httpx.AsyncClient) -> AsyncIterator[Verification]:
    async with receiving() as mailbox:
        scenario = Verification(tenant_api, tenant["id"], mailbox)
        template_id = await make_template(tenant_api, "${verificationId} ${verificationOneTimeCode}")
        await scenario.configure(
            **mailbox.configuration(), verifyEmail=True, verificationEmailTemplateId=template_id, **GATED
        )
        yield scenario


@pytest.fixture
async def links(scenario: Verification) -> Verification:
    """The tenant with link verification."""
    await scenario.configure(verificationStrategy="ClickableLink")
    return scenario


def codes(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    found = answer.json().get("fieldErrors", {})
    return {path: [entry["code"].partition("]")[0][1:] for entry in entries] for path, entries in found.items()}


def own_address() -> dict[str, str]:
    """Failures are counted by address: a test with many of them has one of its own."""
    return {"X-Forwarded-For": f"2001:db8:{new_text(4, '123456789')}:{new_text(4, '123456789')}::1"}


def identity(user: Document) -> tuple[bool, str]:
    (found,) = [one for one in user["identities"] if one["type"] == "email"]
    return found["verified"], found["verifiedReason"]


# Beginning


@pytest.mark.requirement("users-8-1")
async def test_new_user_receives_verification_link(links: Verification, http, clock) -> None:
    made = await links.made()
    assert not made["user"]["verified"] and identity(made["user"]) == (False, "Pending")
    verification_id, code = await links.mailed()
    assert verification_id == made["emailVerificationId"] and code == ""
    assert made["verificationIds"] == [{"id": verification_id, "type": "email", "value": made["user"]["email"]}]
    assert "emailVerificationOneTimeCode" not in made
    now = clock.now()
    answer = await http.post(f"{PATH}/{verification_id}")
    assert (answer.status_code, answer.content) == (200, b"")
    user = await links.user(made["user"]["id"])
    assert user["verified"] and user["verifiedInstant"] >= now and identity(user) == (True, "Completed")
    assert (await http.post(f"{PATH}/{verification_id}")).status_code == 404


@pytest.mark.requirement("users-8-2", "users-8-7")
async def test_form_strategy_requires_code_and_returns_both_to_creating_key(scenario: Verification, http) -> None:
    made = await scenario.made()
    verification_id, code = await scenario.mailed()
    assert (made["emailVerificationId"], made["emailVerificationOneTimeCode"]) == (verification_id, code)
    assert made["verificationIds"][0]["oneTimeCode"] == code and len(code) == 6
    assert codes(await http.post(PATH, json={"verificationId": verification_id})) == {"oneTimeCode": ["missing"]}
    wrong = {"verificationId": verification_id, "oneTimeCode": "WRONG"}
    assert codes(await http.post(PATH, json=wrong)) == {"oneTimeCode": ["invalid"]}
    assert not (await scenario.user(made["user"]["id"]))["verified"]
    right = {"verificationId": verification_id, "oneTimeCode": f" {code.lower()} "}
    assert (await http.post(f"{PATH}/another-id-in-the-path", json=right)).status_code == 200
    assert (await scenario.user(made["user"]["id"]))["verified"]


@pytest.mark.requirement("users-8-2")
async def test_user_has_pending_verification_id_until_used(scenario: Verification, http) -> None:
    made = await scenario.made()
    path = f"/api/user/{made['user']['id']}"
    shown = (await scenario.api.get(path)).json()
    assert shown["emailVerificationId"] == made["emailVerificationId"]
    assert not {"emailVerificationOneTimeCode"} & shown.keys() and "oneTimeCode" not in shown["verificationIds"][0]
    found = await scenario.api.get("/api/user", params={"verificationId": made["emailVerificationId"]})
    assert found.json()["user"]["id"] == made["user"]["id"]
    right = {"verificationId": made["emailVerificationId"], "oneTimeCode": made["emailVerificationOneTimeCode"]}
    assert (await http.post(PATH, json=right)).status_code == 200
    assert (await scenario.api.get(path)).json().keys() == {"user"}
    found = await scenario.api.get("/api/user", params={"verificationId": made["emailVerificationId"]})
    assert found.status_code == 404


@pytest.mark.requirement("users-8-1")
async def test_user_exempt_from_verification_gets_neither_mail_nor_id(scenario: Verification) -> None:
    skipped = await scenario.made(skipVerification=True)
    assert skipped["user"]["verified"] and identity(skipped["user"]) == (True, "Skipped")
    nameless = await scenario.made(user={"email": None, "username": f"name-{new_id()}"})
    await scenario.configure(verifyEmail=False)
    unasked = await scenario.made()
    assert identity(unasked["user"]) == (False, "Disabled")
    for made in (skipped, nameless, unasked):
        assert not {"emailVerificationId", "verificationIds"} & made.keys()
    assert scenario.mailbox.mails == []


@pytest.mark.requirement("users-8-4")
async def test_new_user_gets_no_token_before_required_verification(scenario: Verification) -> None:
    assert "token" not in await scenario.made()
    assert "token" in await scenario.made(skipVerification=True)
    await scenario.configure(unverified={"behavior": "Allow"}, verificationStrategy="ClickableLink")
    assert "token" in await scenario.made()


@pytest.mark.requirement("users-8-12")
async def test_application_template_precedes_tenant_template(links: Verification) -> None:
    own_code = await make_template(links.api, "own-template ${application.name}")
    body = {
        "application": {"name": f"App {new_id()}", "emailConfiguration": {"emailVerificationEmailTemplateId": own_code}}
    }
    application = (await links.api.post("/api/application", json=body)).json()["application"]
    await links.made(applicationId=application["id"])
    assert await links.mailed() == ("own-template", application["name"])
    email = (await links.made())["user"]["email"]
    await links.mailed()
    sent = await links.api.put(PATH, params={"email": email, "applicationId": application["id"]})
    assert sent.json().keys() == {"verificationId"}
    assert await links.mailed() == ("own-template", application["name"])


# Changes of address


@pytest.mark.requirement("users-8-5", "users-8-6")
async def test_changed_address_is_verified_again_if_configured(links: Verification, http) -> None:
    made = await links.made()
    first, _ = await links.mailed()
    assert (await http.post(f"{PATH}/{first}")).status_code == 200
    path, before = f"/api/user/{made['user']['id']}", await links.user(made["user"]["id"])
    kept = (await links.api.patch(path, json={"user": {"email": f"{new_id()}@example.com"}})).json()
    assert kept.keys() == {"user"} and identity(kept["user"]) == (True, "Completed")
    await links.configure(verifyEmailWhenChanged=True)
    email = f"{new_id()}@example.com"
    changed = (await links.api.patch(path, json={"user": {"email": email}})).json()
    assert not changed["user"]["verified"] and identity(changed["user"]) == (False, "Pending")
    second, _ = await links.mailed()
    assert second == changed["emailVerificationId"]
    assert links.mailbox.mails[-1].recipients == [email]
    assert (await http.post(f"{PATH}/{second}")).status_code == 200
    after = await links.user(made["user"]["id"])
    assert after["verified"] and after["verifiedInstant"] == before["verifiedInstant"]


@pytest.mark.requirement("users-8-5")
async def test_changed_address_is_verified_if_caller_skips_verification(scenario: Verification) -> None:
    await scenario.configure(verifyEmailWhenChanged=True)
    made = (await scenario.made(skipVerification=True))["user"]
    path, skipped = f"/api/user/{made['id']}", {"skipVerification": True}
    changed = (await scenario.api.patch(path, json={**skipped, "user": {"email": f"{new_id()}@example.com"}})).json()
    assert changed.keys() == {"user"} and identity(changed["user"]) == (True, "Skipped")
    replaced = (await scenario.api.put(path, json={**skipped, "user": {"email": f"{new_id()}@example.com"}})).json()
    assert replaced.keys() == {"user"} and identity(replaced["user"]) == (True, "Skipped")
    assert replaced["user"]["verifiedInstant"] == made["verifiedInstant"]
    asked = (await scenario.api.put(path, json={"user": {"email": f"{new_id()}@example.com"}})).json()["user"]
    same = (await scenario.api.put(path, json={**skipped, "user": {"email": asked["email"]}})).json()["user"]
    assert identity(asked) == identity(same) == (False, "Pending")
    assert [mail.recipients for mail in await scenario.mailbox.wait_for(1)] == [[asked["email"]]]


@pytest.mark.requirement("users-8-10")
async def test_id_for_former_address_is_invalid(links: Verification, http) -> None:
    made = await links.made()
    old, _ = await links.mailed()
    email = f"{new_id()}@example.com"
    changed = await links.api.patch(f"/api/user/{made['user']['id']}", json={"user": {"email": email}})
    new, _ = await links.mailed()
    assert changed.json()["emailVerificationId"] == new != old
    assert (await http.post(f"{PATH}/{old}")).status_code == 404
    assert not (await links.user(made["user"]["id"]))["verified"]
    assert (await http.post(f"{PATH}/{new}")).status_code == 200


@pytest.mark.requirement("users-8-5")
async def test_first_address_of_existing_user_is_verified(links: Verification) -> None:
    made = await links.made(user={"email": None, "username": f"name-{new_id()}"})
    patch = {"user": {"email": f"{new_id()}@example.com"}}
    changed = (await links.api.patch(f"/api/user/{made['user']['id']}", json=patch)).json()
    assert (await links.mailed())[0] == changed["emailVerificationId"]


# Asking again


@pytest.mark.requirement("users-8-9")
async def test_api_key_replaces_id_without_sending_mail(scenario: Verification, http) -> None:
    made = await scenario.made()
    await scenario.mailed()
    email = made["user"]["email"].upper()
    quiet = (await scenario.api.put(PATH, params={"email": email, "sendVerifyEmail": "false"})).json()
    sent = (await scenario.api.put(PATH, params={"email": email})).json()
    assert await scenario.mailed() == (sent["verificationId"], sent["oneTimeCode"])
    for old in (made["emailVerificationId"], quiet["verificationId"]):
        assert (await http.post(PATH, json={"verificationId": old, "oneTimeCode": "ANY"})).status_code == 404
    assert (await http.post(PATH, json=sent)).status_code == 200


@pytest.mark.requirement("users-8-9")
async def test_anonymous_resend_reveals_nothing(scenario: Verification, http) -> None:
    made, verified = await scenario.made(), await scenario.made(skipVerification=True)
    await scenario.mailed()
    headers = {"X-FusionAuth-TenantId": scenario.tenant_id}
    # Only the last one is sent; the responses are equal.
    for email in (f"{new_id()}@example.com", verified["user"]["email"], made["user"]["email"]):
        answer = await http.put(PATH, params={"email": email, "sendVerifyEmail": "false"}, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
    verification_id, code = await scenario.mailed()
    assert scenario.mailbox.mails[-1].recipients == [made["user"]["email"]]
    assert (await http.post(PATH, json={"verificationId": verification_id, "oneTimeCode": code})).status_code == 200
    assert len(scenario.mailbox.mails) == 2


@pytest.mark.requirement("users-8-9")
async def test_attack_48_mails_requested_per_address_are_limited(scenario: Verification, http, monkeypatch) -> None:
    monkeypatch.setattr(message_limits, "ADDRESS_MESSAGES", 2)
    email = (await scenario.made())["user"]["email"]
    here = {"X-Forwarded-For": "203.0.113.80", "X-FusionAuth-TenantId": scenario.tenant_id}
    for one, status in ((f"{new_id()}@example.com", 200), (f"{new_id()}@example.com", 200), (email, 503)):
        assert (await http.put(PATH, params={"email": one}, headers=here)).status_code == status
    elsewhere = {**here, "X-Forwarded-For": "203.0.113.81"}
    assert (await http.put(PATH, params={"email": email}, headers=elsewhere)).status_code == 200
    for _ in range(3):
        assert (await scenario.api.put(PATH, params={"email": email}, headers=here)).status_code == 200, "with a key"


@pytest.mark.requirement("users-8-9")
@pytest.mark.parametrize("strategy", ["ClickableLink", "FormField"])
async def test_anonymous_resend_does_not_invalidate_previous_mail(
    scenario: Verification, http, service, strategy: str
) -> None:
    await scenario.configure(verificationStrategy=strategy)
    made = await scenario.made()
    first, email = await scenario.mailed(), made["user"]["email"]
    one_time_tokens = internals.store(service, "one_time_tokens")
    await one_time_tokens.extend(scenario.tenant_id, email_verifications.KIND, first[0], 30)
    headers = {"X-FusionAuth-TenantId": scenario.tenant_id}
    for _ in range(3):
        assert (await http.put(PATH, params={"email": email}, headers=headers)).status_code == 200
        assert await scenario.mailed() == first
    # The mail that comes last is good for as long as it says.
    redis = internals.redis(service)
    (key,) = [key async for key in redis.client.scan_iter(redis.key("ticket", "emailVerification", "*"))
              if fingerprint(first[0]) in key]  # fmt: skip
    assert await redis.client.ttl(key) > 30
    shown = await scenario.api.post("/api/identity/verify/send", json={"verificationId": first[0]})
    assert shown.status_code == 200 and await scenario.mailed() == first
    body = {"verificationId": first[0], "oneTimeCode": first[1] or None}
    assert (await http.post(PATH, json=body)).status_code == 200
    assert (await scenario.user(made["user"]["id"]))["verified"]


async def test_resend_creates_new_id_if_old_one_is_unusable(scenario: Verification, http) -> None:
    made = await scenario.made()
    email, headers = made["user"]["email"], {"X-FusionAuth-TenantId": scenario.tenant_id}
    found = [await scenario.mailed()]

    async def request_mail() -> None:
        assert (await http.put(PATH, params={"email": email}, headers=headers)).status_code == 200
        found.append(await scenario.mailed())

    await scenario.configure(verificationStrategy="ClickableLink")
    await request_mail()
    await scenario.configure(verificationStrategy="FormField")
    await request_mail()
    for _ in range(6):
        await http.post(PATH, json={"verificationId": found[-1][0], "oneTimeCode": "WRONG"}, headers=own_address())
    await request_mail()
    assert len({verification_id for verification_id, _ in found}) == 4
    assert [bool(code) for _, code in found] == [True, False, True, True]
    body = {"verificationId": found[-1][0], "oneTimeCode": found[-1][1]}
    assert (await http.post(PATH, json=body)).status_code == 200


@pytest.mark.requirement("users-8-9")
async def test_invalid_requests_are_refused(scenario: Verification, http) -> None:
    headers = {"X-FusionAuth-TenantId": scenario.tenant_id}
    assert codes(await scenario.api.put(PATH)) == {"email": ["blank"]}
    for wrong in ("no id", UNKNOWN_ID):
        asked = await scenario.api.put(PATH, params={"email": "a@example.com", "applicationId": wrong})
        assert codes(asked) == {"applicationId": ["invalid"]}
    assert (await scenario.api.put(PATH, params={"email": "unknown@example.com"})).status_code == 404
    nowhere = await http.put(PATH, params={"email": "unknown@example.com"})
    assert nowhere.json()["generalErrors"][0]["code"] == "[TenantIdRequired]"
    await scenario.configure(verifyEmail=False)
    for client, more in ((scenario.api, {}), (http, headers)):
        assert (await client.put(PATH, params={"email": "unknown@example.com"}, headers=more)).status_code == 403


@pytest.mark.requirement("users-8-13")
async def test_mails_per_user_are_limited_by_tenant(scenario: Verification, http) -> None:
    limit = {"sendEmailVerification": {"enabled": True, "limit": 2, "timePeriodInSeconds": 3600}}
    await scenario.change({"tenant": {"rateLimitConfiguration": limit}})
    email = (await scenario.made())["user"]["email"]
    assert (await scenario.api.put(PATH, params={"email": email})).status_code == 200
    assert (await scenario.api.put(PATH, params={"email": email})).status_code == 503
    headers = {"X-FusionAuth-TenantId": scenario.tenant_id}
    quiet = await http.put(PATH, params={"email": email}, headers=headers)
    assert (quiet.status_code, quiet.content) == (200, b"")
    # Who sends it himself is not limited.
    assert (await scenario.api.put(PATH, params={"email": email, "sendVerifyEmail": False})).status_code == 200
    await scenario.mailed(), await scenario.mailed()
    await scenario.nothing_more()


# Completing


@pytest.mark.requirement("users-8-8")
async def test_only_api_key_marks_address_as_verified(links: Verification, http) -> None:
    made = await links.made()
    body = {"userId": made["user"]["id"]}
    assert (await http.post(PATH, json=body)).status_code == 401
    assert (await links.api.post(PATH, json=body)).content == b""
    user = await links.user(made["user"]["id"])
    assert identity(user) == (True, "Administrative")
    # It is done: what was mailed counts no more, and saying it again changes nothing.
    assert (await http.post(f"{PATH}/{made['emailVerificationId']}")).status_code == 404
    assert (await links.api.post(PATH, json=body)).status_code == 200
    assert await links.user(made["user"]["id"]) == user
    assert (await links.api.post(PATH, json={"userId": UNKNOWN_ID})).status_code == 404
    nameless = await links.made(user={"email": None, "username": f"name-{new_id()}"})
    assert codes(await links.api.post(PATH, json={"userId": nameless["user"]["id"]})) == {"user.email": ["missing"]}


@pytest.mark.requirement("users-8-7")
async def test_invalid_ids(links: Verification, http, api) -> None:
    assert codes(await http.post(PATH, json={})) == {"verificationId": ["missing"]}
    assert (await http.post(f"{PATH}/{new_id()}")).status_code == 404
    assert codes(await http.post(PATH, json={"verificationId": {"$ne": None}})) == {"verificationId": ["invalidJSON"]}
    # Another tenant's key does not see it; the id alone says whose it is.
    verification_id = (await links.made())["emailVerificationId"]
    assert (await api.post(f"{PATH}/{verification_id}")).status_code == 404
    assert (await api.get("/api/user", params={"verificationId": verification_id})).status_code == 404
    assert (await http.post(f"{PATH}/{verification_id}")).status_code == 200


@pytest.mark.requirement("users-8-10")
async def test_id_lifetime_and_format_follow_tenant(links: Verification, service) -> None:
    settings = {
        "emailVerificationIdGenerator": {"length": 12, "type": "randomDigits"},
        "emailVerificationIdTimeToLiveInSeconds": 77,
    }
    await links.change({"tenant": {"externalIdentifierConfiguration": settings}})
    verification_id = (await links.made())["emailVerificationId"]
    assert verification_id.isdigit() and len(verification_id) == 12
    redis = internals.redis(service)
    key = redis.key("ticket", "emailVerification", f"{{{fingerprint(verification_id)}}}")
    assert 0 < await redis.client.ttl(key) <= 77


@pytest.mark.requirement("users-8-11")
async def test_attack_46_five_wrong_codes_invalidate_id(scenario: Verification, http) -> None:
    made = await scenario.made()
    body = {"verificationId": made["emailVerificationId"], "oneTimeCode": "WRONG"}
    statuses = [(await http.post(PATH, json=body)).status_code for _ in range(6)]
    assert statuses == [400, 400, 400, 400, 400, 404]
    right = {**body, "oneTimeCode": made["emailVerificationOneTimeCode"]}
    assert (await http.post(PATH, json=right)).status_code == 404
    assert not (await scenario.user(made["user"]["id"]))["verified"]


@pytest.mark.requirement("attack-48")
async def test_attack_48_new_ids_do_not_add_attempts(scenario: Verification, http, monkeypatch) -> None:
    monkeypatch.setattr(code_attempt_limits, "FAILURES", 2)
    made = await scenario.made()
    email = {"email": made["user"]["email"]}
    for status in (400, 400, 503):
        body = {**(await scenario.api.put(PATH, params=email)).json(), "oneTimeCode": "WRONG"}
        assert (await http.post(PATH, json=body)).status_code == status
    right = (await scenario.api.put(PATH, params=email)).json()
    assert (await http.post(PATH, json=right)).status_code == 503
    assert (await http.post(PATH, json=await own_code(scenario))).status_code == 200, "the code of another user"


async def own_code(scenario: Verification) -> Document:
    made = await scenario.made()
    return {"verificationId": made["emailVerificationId"], "oneTimeCode": made["emailVerificationOneTimeCode"]}


@pytest.mark.requirement("users-8-11")
async def test_attack_48_only_guessing_address_is_blocked(links: Verification, http, monkeypatch) -> None:
    monkeypatch.setattr(verification_api, "_FAILURES", 3)
    made = await links.made()
    headers = own_address()
    statuses = [(await http.post(f"{PATH}/{n:04}", headers=headers)).status_code for n in range(4)]
    assert statuses == [404, 404, 404, 503]
    path = f"{PATH}/{made['emailVerificationId']}"
    assert (await http.post(path, headers=headers)).status_code == 503
    assert (await http.post(path, headers={"X-Forwarded-For": "203.0.113.77"})).status_code == 200


@pytest.mark.requirement("users-8-11")
async def test_attack_44_unknown_address_takes_the_same_work(links: Verification, http, monkeypatch) -> None:
    rendered = []
    render = mail_templates.render

    def counted(*arguments: Any) -> Any:
        rendered.append(arguments[1]["user"]["email"])
        return render(*arguments)

    monkeypatch.setattr(mail_templates, "render", counted)
    made = await links.made()
    emails = [made["user"]["email"], f"{new_id()}@example.com"]
    for email in emails:
        await http.put(PATH, params={"email": email}, headers={"X-FusionAuth-TenantId": links.tenant_id})
    assert rendered[1:] == emails


@pytest.mark.requirement("users-8-14")
async def test_attack_46_of_64_concurrent_callers_one_succeeds(links: Verification, http) -> None:
    made = await links.made()
    verification_id, _ = await links.mailed()
    notice = await make_template(links.api, "verified ${user.email}")
    await links.configure(emailVerifiedEmailTemplateId=notice)
    headers = own_address()
    answers = await asyncio.gather(*(http.post(f"{PATH}/{verification_id}", headers=headers) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 63
    assert await links.mailed() == ("verified", made["user"]["email"])
    await links.nothing_more()


@pytest.mark.requirement("users-8-25")
async def test_moderated_username_cannot_log_in_but_email_can(links: Verification) -> None:
    name = f"name-{new_id()}"
    wanted = {"username": name, "usernameStatus": "PENDING"}
    user = (await links.made(user=wanted, skipVerification=True))["user"]
    path = f"/api/user/{user['id']}"
    for status in ("PENDING", "REJECTED", "ACTIVE"):
        assert (await links.api.patch(path, json={"user": {"usernameStatus": status}})).status_code == 200
        (found,) = [one for one in (await links.user(user["id"]))["identities"] if one["type"] == "username"]
        assert found["moderationStatus"] == status
        by_name, by_email = [
            (await links.api.post("/api/login", json={"loginId": login_id, "password": "password"})).status_code
            for login_id in (name, user["email"])
        ]
        assert (by_name, by_email) == (200 if status == "ACTIVE" else 404, 200), status
