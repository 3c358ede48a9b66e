"""/api/identity/verify over HTTP: emails and phone numbers of existing and future users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from identity.ids import new_id, new_text
from tests.api.test_messages import GENERIC, made
from tests.api.test_notices import make_template
from tests.api.test_verify_email import Verification, codes
from tests.conftest import EMAIL_TEMPLATE, UNKNOWN_ID
from tests.mailbox import Mailbox
from tests.mailbox import receiving as mails
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber
from tests.veto import unchanged

Document = dict[str, Any]

PATH = "/api/identity/verify"
VERIFY = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}


def number() -> str:
    return f"+49{new_text(11, '123456789')}"


@pytest.fixture
async def scenario(tenant: Document, tenant_api: httpx.AsyncClient) -> Verification:
    """A tenant that verifies emails by a link and phone numbers by a code, and has no means to send either."""
    scenario = Verification(tenant_api, tenant["id"], Mailbox())
    await scenario.configure(**VERIFY)
    await scenario.change({"tenant": {"phoneConfiguration": {"verifyPhoneNumber": True}}})
    return scenario


async def step(scenario: Verification, name: str, **body: Any) -> httpx.Response:
    return await scenario.api.post(f"{PATH}/{name}", json=body)


async def started(scenario: Verification, kind: str, login_id: str, **members: Any) -> Document:
    answer = await step(scenario, "start", loginId=login_id, loginIdType=kind, **members)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def identity(scenario: Verification, user_id: str, kind: str) -> Document:
    (found,) = [one for one in (await scenario.user(user_id))["identities"] if one["type"] == kind]
    return dict(found)


@pytest.mark.requirement("users-8-18")
@pytest.mark.parametrize("kind", ["email", "phoneNumber"])
async def test_completed_verification_returns_state(scenario: Verification, kind: str, clock) -> None:
    made = (await scenario.made(user={"phoneNumber": number()}))["user"]
    begun = await started(scenario, kind, made[kind], state={"a": [1]}, verificationStrategy="FormField")
    assert begun.keys() == {"verificationId", "oneTimeCode"}
    assert codes(await step(scenario, "complete", verificationId=begun["verificationId"])) == {
        "oneTimeCode": ["missing"]
    }
    wrong = await step(scenario, "complete", verificationId=begun["verificationId"], oneTimeCode="WRONG")
    assert codes(wrong) == {"oneTimeCode": ["invalid"]}
    now = clock.now()
    answer = await step(scenario, "complete", **begun)
    assert (answer.status_code, answer.json()) == (200, {"state": {"a": [1]}})
    found = await identity(scenario, made["id"], kind)
    assert (found["verified"], found["verifiedReason"]) == (True, "Completed") and found["verifiedInstant"] >= now
    assert (await scenario.user(made["id"]))["verified"] is (kind == "email")
    assert (await step(scenario, "complete", **begun)).status_code == 404


async def test_strategy_defaults_to_tenant(scenario: Verification) -> None:
    made = (await scenario.made(user={"phoneNumber": number()}))["user"]
    assert "oneTimeCode" not in await started(scenario, "email", made["email"])
    assert "oneTimeCode" in await started(scenario, "phoneNumber", made["phoneNumber"])
    link = await started(scenario, "phoneNumber", made["phoneNumber"], verificationStrategy="ClickableLink")
    assert (await step(scenario, "complete", verificationId=link["verificationId"])).json() == {"state": {}}


async def test_new_phone_number_is_not_verified_by_old_one(scenario: Verification) -> None:
    made = (await scenario.made(user={"phoneNumber": number()}))["user"]
    first, second = [await started(scenario, "phoneNumber", made["phoneNumber"]) for _ in range(2)]
    assert (await step(scenario, "complete", **first)).status_code == 404, "a new id takes the place of the old one"
    assert (await step(scenario, "complete", **second)).status_code == 200
    third = await started(scenario, "phoneNumber", made["phoneNumber"])
    path = f"/api/user/{made['id']}"
    assert (await scenario.api.patch(path, json={"user": {"phoneNumber": number()}})).status_code == 200
    assert not (await identity(scenario, made["id"], "phoneNumber"))["verified"]
    assert (await step(scenario, "complete", **third)).status_code == 404


@pytest.mark.requirement("users-8-18")
@pytest.mark.parametrize("kind", ["email", "phoneNumber"])
async def test_api_key_marks_login_id_as_verified(scenario: Verification, kind: str) -> None:
    made = (await scenario.made(user={"phoneNumber": number()}))["user"]
    for _ in range(2):
        answer = await scenario.api.post(PATH, json={"loginId": f" {made[kind].upper()}", "loginIdType": kind})
        assert (answer.status_code, answer.content) == (200, b"")
    found = await identity(scenario, made["id"], kind)
    assert (found["verified"], found["verifiedReason"]) == (True, "Administrative")


@pytest.mark.requirement("users-8-19")
async def test_invalid_requests_are_refused(scenario: Verification, api) -> None:
    made = (await scenario.made())["user"]
    unknown = {"loginId": f"{new_id()}@example.com", "loginIdType": "email"}
    assert codes(await scenario.api.post(PATH, json={})) == {"loginId": ["blank"], "loginIdType": ["missing"]}
    assert codes(await step(scenario, "start", loginId="a", loginIdType="username")) == {"loginIdType": ["invalid"]}
    assert codes(await step(scenario, "start", loginId="a", loginIdType="email")) == {"loginId": ["notEmail"]}
    assert codes(await step(scenario, "start", loginId="a", loginIdType="phoneNumber")) == {"loginId": ["invalidPhone"]}
    assert (await scenario.api.post(PATH, json=unknown)).status_code == 404
    assert (await step(scenario, "start", **unknown)).status_code == 404
    assert codes(await step(scenario, "start", **unknown, applicationId=UNKNOWN_ID)) == {"applicationId": ["invalid"]}
    known = {"loginId": made["email"], "loginIdType": "email", "existingUserStrategy": "mustNotExist"}
    assert codes(await step(scenario, "start", **known)) == {"loginId": ["duplicate"]}
    for name in ("send", "complete"):
        assert codes(await step(scenario, name)) == {"verificationId": ["blank"]}
        assert (await step(scenario, name, verificationId=new_id())).status_code == 404
    # Another tenant's caller does not see what was begun here.
    begun = await started(scenario, "email", made["email"])
    assert (await api.post(f"{PATH}/complete", json=begun)).status_code == 404
    await scenario.change({"tenant": {"phoneConfiguration": {"verifyPhoneNumber": False}}})
    assert (await step(scenario, "start", loginId=number(), loginIdType="phoneNumber")).status_code == 403
    await scenario.configure(verifyEmail=False)
    assert (await step(scenario, "start", **unknown)).status_code == 403


# Login ids of those to come


@pytest.mark.requirement("users-8-19")
@pytest.mark.parametrize("kind", ["email", "phoneNumber"])
async def test_user_created_with_proven_login_id_is_verified(scenario: Verification, kind: str) -> None:
    login_ids = {"email": f"{new_id()}@example.com", "phoneNumber": number()}
    begun = await started(scenario, kind, login_ids[kind], existingUserStrategy="mustNotExist", state={"a": 1})
    user = {**login_ids, "password": "password"}
    proof = {"user": user, "verificationIds": [begun["verificationId"]]}
    assert codes(await scenario.api.post("/api/user", json=proof)) == {"verificationIds[0]": ["invalid"]}
    assert (await step(scenario, "complete", **begun)).json() == {"state": {"a": 1}}
    assert (await step(scenario, "complete", **begun)).status_code == 404
    other = {**user, kind: number() if kind == "phoneNumber" else f"{new_id()}@example.com"}
    wrong = await scenario.api.post("/api/user", json={**proof, "user": other})
    assert codes(wrong) == {"verificationIds[0]": ["invalid"]}
    answer = await scenario.api.post("/api/user", json=proof)
    assert answer.status_code == 200, answer.text
    found = await identity(scenario, answer.json()["user"]["id"], kind)
    assert (found["verified"], found["verifiedReason"]) == (True, "Completed")
    assert ("emailVerificationId" in answer.json()) is (kind == "phoneNumber")
    # The verification is consumed and verifies no further user.
    assert (await scenario.api.delete(f"/api/user/{answer.json()['user']['id']}?hardDelete=true")).status_code == 200
    assert codes(await scenario.api.post("/api/user", json=proof)) == {"verificationIds[0]": ["invalid"]}


async def test_attack_46_of_64_concurrent_callers_one_verifies_and_one_user_is_created(scenario: Verification) -> None:
    email = f"{new_id()}@example.com"
    begun = await started(scenario, "email", email, existingUserStrategy="mustNotExist")
    done = await asyncio.gather(*(step(scenario, "complete", **begun) for _ in range(64)))
    assert sorted(answer.status_code for answer in done) == [200] + [404] * 63


@pytest.mark.requirement("event-user.identity.verified")
async def test_verification_without_user_emits_event_that_may_be_vetoed(scenario: Verification, service) -> None:
    email, phone = f"{new_id()}@example.com", number()
    begun = await started(scenario, "email", email, existingUserStrategy="mustNotExist")
    user = (await scenario.made(user={"phoneNumber": phone}, skipVerification=True))["user"]
    other = await started(scenario, "phoneNumber", phone, verificationStrategy="ClickableLink")
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(scenario.api, receiver, scenario.tenant_id)
        await subscriber.subscribe(["user.identity.verified"], "AbsoluteMajority")
        for one in (begun, other):
            async with unchanged(service, scenario.tenant_id):
                assert (await step(scenario, "complete", **one)).status_code == 504
            await subscriber.received("user.identity.verified")
        receiver.behaviour = answers(200)
        assert (await step(scenario, "complete", **begun)).status_code == 200
        (event,) = await subscriber.received("user.identity.verified")
        assert (event["loginId"], event["loginIdType"]) == (email, "email")
        assert not {"user", "linkedObjectId"} & event.keys()
        assert (await step(scenario, "complete", **other)).status_code == 200
        (event,) = await subscriber.received("user.identity.verified")
        assert (event["loginId"], event["loginIdType"]) == (phone, "phoneNumber")
        assert event["linkedObjectId"] == event["user"]["id"] == user["id"]


# Sending


@pytest.fixture
async def messenger(scenario: Verification) -> AsyncIterator[Receiver]:
    """A messenger of the tenant, with a template for numbers that are verified."""
    async with receiving() as receiver:
        body = {"defaultTemplate": "${verificationId} ${verificationOneTimeCode}", "type": "SMS"}
        template = await made(scenario.api, "/api/message/template", "messageTemplate", **body)
        found = await made(scenario.api, "/api/messenger", "messenger", **{**GENERIC, "url": receiver.url})
        settings = {"verifyPhoneNumber": True, "messengerId": found["id"], "verificationTemplateId": template["id"]}
        await scenario.change({"tenant": {"phoneConfiguration": settings}})
        yield receiver


@pytest.mark.requirement("users-8-18")
@pytest.mark.parametrize("strategy", ["mustExist", "mustNotExist"])
async def test_code_is_sent_to_phone_by_messenger(scenario: Verification, messenger: Receiver, strategy: str) -> None:
    phone = number()
    if strategy == "mustExist":
        await scenario.made(user={"phoneNumber": phone})
    begun = await started(scenario, "phoneNumber", phone, existingUserStrategy=strategy)
    answer = await step(scenario, "send", verificationId=begun["verificationId"])
    assert (answer.status_code, answer.content) == (200, b"")
    (request,) = await messenger.wait_for(1)
    sent = orjson.loads(request.body)
    assert sent == {"phoneNumber": phone, "textMessage": f"{begun['verificationId']} {begun['oneTimeCode']}"}
    assert (await step(scenario, "complete", **begun)).status_code == 200


@pytest.mark.requirement("users-8-18")
@pytest.mark.parametrize("strategy", ["mustExist", "mustNotExist"])
async def test_link_is_mailed_with_application_template(scenario: Verification, strategy: str) -> None:
    own = await make_template(scenario.api, "${verificationId} ${application.name}")
    body = {"application": {"name": f"App {new_id()}", "emailConfiguration": {"emailVerificationEmailTemplateId": own}}}
    application = (await scenario.api.post("/api/application", json=body)).json()["application"]
    async with mails() as mailbox:
        await scenario.configure(**mailbox.configuration())
        email = f"{new_id()}@example.com"
        if strategy == "mustExist":
            await scenario.made(user={"email": email}, skipVerification=True)
        begun = await started(scenario, "email", email, existingUserStrategy=strategy, applicationId=application["id"])
        assert (await step(scenario, "send", verificationId=begun["verificationId"])).status_code == 200
        (mail,) = await mailbox.wait_for(1)
    assert mail.recipients == [email]
    assert mail.part("plain").strip() == f"{begun['verificationId']} {application['name']}"


@pytest.mark.requirement("core-2-8", "users-8-13")
async def test_nothing_is_sent_without_messenger_or_beyond_limit(scenario: Verification) -> None:
    phone = number()
    await scenario.made(user={"phoneNumber": phone})
    begun = await started(scenario, "phoneNumber", phone)
    answer = await step(scenario, "send", verificationId=begun["verificationId"])
    assert codes(answer) == {"verificationId": ["notConfigured"]}
    limit = {"sendPhoneVerification": {"enabled": True, "limit": 1, "timePeriodInSeconds": 3600}}
    await scenario.change({"tenant": {"rateLimitConfiguration": limit}})
    statuses = [(await step(scenario, "send", verificationId=begun["verificationId"])).status_code for _ in range(2)]
    assert statuses == [400, 503]
