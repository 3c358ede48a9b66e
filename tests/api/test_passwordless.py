"""Passwordless logins: /api/passwordless/start, send and login."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import fingerprint, new_id
from identity.operations.limits import code_attempt_limits, failed_login_limits, message_limits
from tests import internals, relying_party
from tests.conftest import EMAIL_TEMPLATE, UNKNOWN_ID, checking_client
from tests.mailbox import Mailbox, Received, receiving
from tests.relying_party import RelyingParty

Document = dict[str, Any]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    await change(found, passwordlessConfiguration={"enabled": True}, loginConfiguration={"generateRefreshTokens": True})
    return found


@pytest.fixture
async def mailbox(rp: RelyingParty, api: httpx.AsyncClient) -> AsyncIterator[Mailbox]:
    """Where the mails of the tenant go, one line for each value that a template of such a mail reads."""
    template = {
        "name": f"Passwordless {new_id()}",
        "defaultSubject": "{{ user.email }} at {{ application.name }}",
        "defaultTextTemplate": "{{ code }}\n{{ oneTimeCode|default('') }}\n{{ state.at|default('') }}",
        "defaultHtmlTemplate": "<p>{{ code }}</p>",
    }
    made = await api.post("/api/email/template", json={"emailTemplate": template})
    assert made.status_code == 200, made.text
    template_id = made.json()["emailTemplate"]["id"]
    async with receiving() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration(passwordlessEmailTemplateId=template_id))
        yield box


async def change(rp: RelyingParty, **members: Any) -> None:
    await rp.patch(f"/api/application/{rp.client_id}", {"application": members})


async def start(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    body = {"applicationId": rp.client_id, "loginId": rp.login_id, **members}
    answer = await key.post("/api/passwordless/start", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def log_in(http: httpx.AsyncClient, **members: Any) -> httpx.Response:
    return await http.post("/api/passwordless/login", json=members)


async def mailed(mailbox: Mailbox, count: int = 1) -> list[str]:
    """The lines of the newest mail with a code, when there are so many."""

    def found() -> list[Received]:
        return [mail for mail in mailbox.mails if " at " in mail.message["Subject"]]

    await mailbox.until(lambda: len(found()) >= count)
    return found()[-1].part("plain").splitlines()


def codes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    fields = [entry for entries in answer.json().get("fieldErrors", {}).values() for entry in entries]
    return [entry["code"] for entry in [*fields, *answer.json().get("generalErrors", [])]]


@pytest.mark.requirement("users-10-1", "users-10-6")
async def test_code_logs_in_once(key, http, rp) -> None:
    started = await start(key, rp, state={"at": "the door"})
    assert started.keys() == {"code"}
    answer = await log_in(http, code=started["code"])
    assert answer.status_code == 200
    body = answer.json()
    assert body.keys() == {"user", "token", "tokenExpirationInstant", "refreshToken", "refreshTokenId", "state"}
    assert (body["user"]["id"], body["state"]) == (rp.user["id"], {"at": "the door"})
    claims = relying_party.claims(body["token"])
    assert (claims["aud"], claims["authenticationType"]) == (rp.client_id, "PASSWORDLESS")
    assert {cookie.name for cookie in answer.cookies.jar} == {"access_token", "refresh_token"}
    again = await log_in(http, code=started["code"])
    assert (again.status_code, again.content) == (404, b"")


@pytest.mark.requirement("users-10-7")
async def test_of_64_concurrent_requests_one_logs_in(key, http, rp) -> None:
    code = (await start(key, rp))["code"]
    answers = await asyncio.gather(*(log_in(http, code=code, noJWT=True) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 63


@pytest.mark.requirement("users-10-5")
async def test_anonymous_caller_gets_code_by_mail_only(key, http, rp, mailbox) -> None:
    body = {"applicationId": rp.client_id, "loginId": rp.login_id, "state": {"at": "the door"}}
    answer = await http.post("/api/passwordless/send", json=body)
    assert (answer.status_code, answer.content) == (200, b"")
    code, one_time_code, at = await mailed(mailbox)
    assert (one_time_code, at) == ("", "the door")
    assert mailbox.mails[0].message["Subject"] == f"{rp.login_id} at {rp.application['name']}"
    answer = await log_in(http, code=code)
    assert (answer.status_code, answer.json()["state"]) == (200, {"at": "the door"})


@pytest.mark.requirement("core-18-templates-20", "users-10-4")
async def test_started_code_is_mailed(key, http, rp, mailbox) -> None:
    started = await start(key, rp, state={"at": "the door"})
    assert (await http.post("/api/passwordless/send", json=started)).status_code == 200
    assert await mailed(mailbox) == [started["code"], "", "the door"]
    assert (await log_in(http, **started, applicationId=rp.client_id)).status_code == 200
    assert codes(await http.post("/api/passwordless/send", json=started)) == ["[invalid]code"]


async def test_application_template_precedes_tenant_template(key, http, rp, api, mailbox) -> None:
    template = {"name": new_id(), "defaultSubject": "Own", "defaultTextTemplate": "Own", "defaultHtmlTemplate": "Own"}
    made = (await api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"]
    await change(rp, emailConfiguration={"passwordlessEmailTemplateId": made["id"]})
    await http.post("/api/passwordless/send", json=await start(key, rp))
    (mail,) = await mailbox.wait_for(1)
    assert mail.message["Subject"] == "Own"


@pytest.mark.requirement("users-10-7")
async def test_code_format_and_expiry_follow_tenant(key, http, rp, service) -> None:
    redis = internals.redis(service)
    generator = {"length": 8, "type": "randomDigits"}
    await rp.configure_tenant(externalIdentifierConfiguration={"passwordlessLoginGenerator": generator})
    code = (await start(key, rp))["code"]
    assert len(code) == 8 and code.isdigit()
    (name,) = [one async for one in redis.client.scan_iter(match=f"*{fingerprint(code)}*")]
    assert 170 < await redis.client.ttl(name) <= 180
    await redis.client.delete(name)
    assert (await log_in(http, code=code)).status_code == 404


@pytest.mark.requirement("users-10-5")
async def test_unknown_login_id_answers_the_same(key, http, rp, mailbox) -> None:
    limit = {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}
    await rp.configure_tenant(rateLimitConfiguration={"sendPasswordless": limit})
    answers = []
    for login_id in (rp.login_id, f"{new_id()}@example.com"):
        body = {"applicationId": rp.client_id, "loginId": login_id}
        answers.append([await http.post("/api/passwordless/send", json=body) for _ in range(2)])
    known, unknown = ([(one.status_code, one.content[:40]) for one in pair] for pair in answers)
    assert known == unknown
    assert [status for status, _ in known] == [200, 503]
    await mailbox.wait_for(1)
    assert [mail.recipients for mail in mailbox.mails] == [[rp.login_id]]


@pytest.mark.requirement("users-10-9")
async def test_mails_per_user_are_counted_by_code_and_login_id(key, http, rp, mailbox) -> None:
    limit = {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}
    await rp.configure_tenant(rateLimitConfiguration={"sendPasswordless": limit})
    started = await start(key, rp)
    by_login_id = {"applicationId": rp.client_id, "loginId": rp.login_id}
    for body, status in ((started, 200), (by_login_id, 200), (started, 503), (by_login_id, 503)):
        assert (await http.post("/api/passwordless/send", json=body)).status_code == status


@pytest.mark.requirement("users-10-9")
async def test_attack_48_mails_requested_per_address_are_limited(http, rp, mailbox, monkeypatch) -> None:
    monkeypatch.setattr(message_limits, "ADDRESS_MESSAGES", 2)
    unknown_user = [f"{new_id()}@example.com" for _ in range(2)]
    statuses = [
        (await http.post("/api/passwordless/send", json={"applicationId": rp.client_id, "loginId": one})).status_code
        for one in (*unknown_user, rp.login_id)
    ]
    assert statuses == [200, 200, 503]
    elsewhere = {"X-Forwarded-For": "203.0.113.78"}
    body = {"applicationId": rp.client_id, "loginId": rp.login_id}
    assert (await http.post("/api/passwordless/send", json=body, headers=elsewhere)).status_code == 200


@pytest.mark.requirement("users-10-9")
async def test_attack_48_requesting_mail_does_not_confirm_code(key, http, rp, mailbox, monkeypatch) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 3)
    started, here = await start(key, rp), {"X-Forwarded-For": "203.0.113.79", "X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await http.post("/api/passwordless/send", json=started, headers=here)).status_code == 200
    for guess in range(3):
        body = {"code": f"{guess:04}"}
        assert codes(await http.post("/api/passwordless/send", json=body, headers=here)) == ["[invalid]code"]
    assert (await http.post("/api/passwordless/send", json=started, headers=here)).status_code == 503
    assert (await http.post("/api/passwordless/login", json=started, headers=here)).status_code == 503
    elsewhere = {**here, "X-Forwarded-For": "203.0.113.82"}
    assert (await http.post("/api/passwordless/login", json=started, headers=elsewhere)).status_code == 200


@pytest.mark.requirement("users-10-1")
async def test_missing_and_invalid_members_are_reported(key, http, rp) -> None:
    assert codes(await key.post("/api/passwordless/start", json={})) == ["[missing]applicationId", "[blank]loginId"]
    assert codes(await http.post("/api/passwordless/login", json={})) == ["[blank]code"]
    assert codes(await http.post("/api/passwordless/send", json={})) == ["[missing]code"]
    assert codes(await http.post("/api/passwordless/send", json={"code": "unknown"})) == ["[invalid]code"]
    stranger = {"applicationId": UNKNOWN_ID, "loginId": rp.login_id}
    assert codes(await key.post("/api/passwordless/start", json=stranger)) == ["[invalid]applicationId"]
    assert codes(await http.post("/api/passwordless/send", json=stranger)) == ["[invalid]applicationId"]
    unknown_user = {"applicationId": rp.client_id, "loginId": f"{new_id()}@example.com"}
    assert (await key.post("/api/passwordless/start", json=unknown_user)).status_code == 404
    large = {"applicationId": rp.client_id, "loginId": rp.login_id, "state": {"at": "x" * 20_000}}
    for path in ("start", "send"):
        assert codes(await key.post(f"/api/passwordless/{path}", json=large)) == ["[tooLong]state"]
    assert (await log_in(http, code="unknown")).status_code == 404


@pytest.mark.requirement("users-10-7")
async def test_code_is_bound_to_application_and_tenant(key, http, rp, api, service) -> None:
    code = (await start(key, rp))["code"]
    assert codes(await log_in(http, code=code, applicationId=UNKNOWN_ID)) == ["[invalid]applicationId"]
    other = await relying_party.make(api)
    async with checking_client(service.base_url, headers={"X-FusionAuth-TenantId": other.tenant["id"]}) as elsewhere:
        assert (await log_in(elsewhere, code=code)).status_code == 404
        assert codes(await elsewhere.post("/api/passwordless/send", json={"code": code})) == ["[invalid]code"]
    assert (await log_in(http, code=code)).status_code == 200


@pytest.mark.requirement("users-10-3")
async def test_passwordless_login_requires_setting(key, http, rp, mailbox) -> None:
    code = (await start(key, rp))["code"]
    await change(rp, passwordlessConfiguration={"enabled": False})
    body = {"applicationId": rp.client_id, "loginId": rp.login_id}
    for answer in (
        await key.post("/api/passwordless/start", json=body),
        await http.post("/api/passwordless/send", json=body),
        await http.post("/api/passwordless/send", json={"code": code}),
        await log_in(http, code=code),
    ):
        assert codes(answer) == ["[PasswordlessDisabled]"]


@pytest.mark.requirement("users-10-3")
async def test_mail_requires_template(key, http, rp) -> None:
    body = {"applicationId": rp.client_id, "loginId": rp.login_id}
    assert codes(await http.post("/api/passwordless/send", json=body)) == ["[PasswordlessDisabled]"]
    assert codes(await http.post("/api/passwordless/send", json=await start(key, rp))) == ["[PasswordlessDisabled]"]


@pytest.mark.requirement("users-10-2")
async def test_form_strategy_requires_one_time_code(key, http, rp, mailbox) -> None:
    started = await start(key, rp, loginStrategy="FormField")
    assert started.keys() == {"code", "oneTimeCode"}
    assert (await log_in(http, code=started["code"])).status_code == 404
    assert (await http.post("/api/passwordless/send", json={"code": started["code"]})).status_code == 200
    code, one_time_code = await mailed(mailbox)
    assert code == started["code"] and one_time_code != started["oneTimeCode"]
    assert (await log_in(http, code=code, oneTimeCode=one_time_code)).status_code == 200


@pytest.mark.requirement("users-10-2")
async def test_strategy_defaults_to_application(key, http, rp) -> None:
    await change(rp, passwordlessConfiguration={"enabled": True, "emailLoginStrategy": "FormField"})
    started = await start(key, rp)
    assert (await log_in(http, **started)).status_code == 200
    assert (await start(key, rp, loginStrategy="ClickableLink")).keys() == {"code"}


@pytest.mark.requirement("users-10-2")
async def test_five_wrong_one_time_codes_invalidate_code(key, http, rp) -> None:
    started = await start(key, rp, loginStrategy="FormField")
    wrong = {**started, "oneTimeCode": "wrong"}
    answers = await asyncio.gather(*(log_in(http, **wrong) for _ in range(64)))
    assert {answer.status_code for answer in answers} == {404}
    assert (await log_in(http, **started)).status_code == 404


@pytest.mark.requirement("attack-48")
async def test_attack_48_restarting_does_not_add_attempts(key, http, rp, monkeypatch) -> None:
    monkeypatch.setattr(code_attempt_limits, "FAILURES", 2)
    started = await start(key, rp, loginStrategy="FormField")
    assert (await log_in(http, **started)).status_code == 200, "what is right does not count"
    for _ in range(2):
        started = await start(key, rp, loginStrategy="FormField")
        assert (await log_in(http, **{**started, "oneTimeCode": "wrong"})).status_code == 404
    started = await start(key, rp, loginStrategy="FormField")
    assert (await log_in(http, **started)).status_code == 503
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    theirs = await start(key, rp, loginStrategy="FormField", loginId=other["email"])
    assert (await log_in(http, **theirs)).status_code == 200
    by_link = await start(key, rp, loginStrategy="ClickableLink")
    assert (await log_in(http, **by_link)).status_code == 200


@pytest.mark.requirement("attack-48")
async def test_mails_per_user_are_limited_by_default(key, http, rp, mailbox, monkeypatch) -> None:
    monkeypatch.setattr(message_limits, "DEFAULT_MESSAGES", 1)
    for login_id in (rp.login_id, f"{new_id()}@example.com"):
        body = {"applicationId": rp.client_id, "loginId": login_id}
        assert [(await http.post("/api/passwordless/send", json=body)).status_code for _ in range(2)] == [200, 503]


@pytest.mark.requirement("users-10-6")
async def test_login_obstacles_are_reported(key, http, rp, clock) -> None:
    async def status(**members: Any) -> int:
        user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, **members)
        code = (await start(key, rp, loginId=user["email"]))["code"]
        if members.get("active") is False:
            await key.delete(f"/api/user/{user['id']}")
        return (await log_in(http, code=code)).status_code

    assert await status(expiry=clock.now() - 1) == 410
    assert await status(active=False) == 423
    assert await status(passwordChangeRequired=True) == 203


@pytest.mark.requirement("users-10-6")
async def test_unregistered_user_gets_202(key, http, rp) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"])
    answer = await log_in(http, **await start(key, rp, loginId=user["email"]))
    assert answer.status_code == 202
    assert "refreshToken" not in answer.json()


async def unverified(rp: RelyingParty, key: httpx.AsyncClient, **members: Any) -> Document:
    """A user whose address is not verified yet."""
    await rp.configure_tenant(emailConfiguration={"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE})
    user = {"email": f"{new_id()}@example.com", "password": relying_party.PASSWORD, **members}
    body = {"user": user, "registration": {"applicationId": rp.client_id}}
    made = (await key.post("/api/user/registration", json=body)).json()["user"]
    assert made["verified"] is False
    return dict(made)


async def is_verified(key: httpx.AsyncClient, user: Document) -> bool:
    return bool((await key.get(f"/api/user/{user['id']}")).json()["user"]["verified"])


@pytest.mark.requirement("users-10-6", "users-10-8")
async def test_mailed_code_verifies_address_if_configured(key, http, rp, mailbox) -> None:
    first, second = await unverified(rp, key), await unverified(rp, key)
    await rp.configure_tenant(emailConfiguration={"unverified": {"behavior": "Gated"}})
    for count, (user, is_allowed) in enumerate([(first, True), (second, False)], 1):
        await rp.configure_tenant(emailConfiguration={"implicitEmailVerificationAllowed": is_allowed})
        await http.post("/api/passwordless/send", json={"applicationId": rp.client_id, "loginId": user["email"]})
        code = (await mailed(mailbox, count))[0]
        answer = await log_in(http, code=code)
        assert answer.status_code == (200 if is_allowed else 212)
        assert answer.json()["user"]["verified"] is is_allowed
        assert await is_verified(key, user) is is_allowed


@pytest.mark.requirement("users-10-8")
async def test_code_not_sent_by_mail_verifies_nothing(key, http, rp) -> None:
    user = await unverified(rp, key)
    assert (await log_in(http, **await start(key, rp, loginId=user["email"]))).status_code == 200
    assert not await is_verified(key, user)


@pytest.mark.requirement("users-10-8")
async def test_attack_46_code_mailed_to_former_address_is_invalid(key, http, rp, mailbox) -> None:
    user = await unverified(rp, key)
    await http.post("/api/passwordless/send", json={"applicationId": rp.client_id, "loginId": user["email"]})
    code = (await mailed(mailbox))[0]
    change = {"user": {"email": f"{new_id()}@example.com"}}
    assert (await key.patch(f"/api/user/{user['id']}", json=change)).status_code == 200
    assert (await log_in(http, code=code)).status_code == 404
    assert not await is_verified(key, user)


@pytest.mark.requirement("users-10-6")
async def test_second_factor_is_required_after_code_and_state_is_kept(key, http, rp) -> None:
    secret = base64.b64encode(b"01234567890123456789").decode()
    methods = [{"method": "authenticator", "secret": secret}]
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, twoFactor={"methods": methods})
    started = await start(key, rp, loginId=user["email"], state={"at": "the door"})
    answer = await log_in(http, **started)
    assert (answer.status_code, answer.json()["methods"][0]["method"]) == (242, "authenticator")
    assert answer.json()["twoFactorId"]
    assert (await log_in(http, **started)).status_code == 404
