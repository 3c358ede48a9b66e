"""Events of verifications: one per change from unverified to verified, and their order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import EMAIL_TEMPLATE
from tests.receiver import receiving
from tests.subscriber import Subscriber

Document = dict[str, Any]

VERIFIED = ("user.email.verified", "user.identity.verified")
CHANGED = ("user.update", "user.identity.update", "user.update.complete", "user.email.update")
REGISTERED = ("user.registration.verified",)


@pytest.fixture
async def subscriber(tenant: Document, tenant_api: httpx.AsyncClient) -> AsyncIterator[Subscriber]:
    email = {"verifyEmail": True, "verifyEmailWhenChanged": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    change = {"tenant": {"emailConfiguration": email}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=change)).status_code == 200
    async with receiving() as receiver:
        subscriber = Subscriber(tenant_api, receiver, tenant["id"])
        await subscriber.subscribe([*VERIFIED, *CHANGED, *REGISTERED])
        yield subscriber


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    user = {"email": f"{new_id()}@example.com", "password": "password"}
    path = "/api/user/registration" if "registration" in members else "/api/user"
    answer = await api.post(path, json={"user": user, **members})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.requirement("event-user.email.verified", "event-user.identity.verified")
async def test_verified_email_raises_both_events_once(subscriber: Subscriber, http) -> None:
    made = await make(subscriber.api)
    http.headers["X-Forwarded-For"] = "192.0.2.7"
    body = {"verificationId": made["emailVerificationId"], "eventInfo": {"ipAddress": "198.51.100.1"}}
    assert (await http.post("/api/user/verify-email", json=body)).status_code == 200
    email, identity = await subscriber.received(*VERIFIED)
    for event in (email, identity):
        assert event["user"]["verified"] and event["linkedObjectId"] == event["user"]["id"] == made["user"]["id"]
        assert event["user"]["identities"][0]["verifiedReason"] == "Completed"
        assert event["info"]["ipAddress"] == "192.0.2.7"
        assert made["emailVerificationId"] not in str(event)
    assert email.keys() == {"createInstant", "id", "info", "linkedObjectId", "tenantId", "type", "user"}
    assert (identity["loginId"], identity["loginIdType"]) == (made["user"]["email"], "email")
    order = [request.event["type"] for request in subscriber.receiver.requests]
    assert sorted(order) == sorted(VERIFIED)
    # A later verification by an administrator changes nothing and raises no event: the next event is of another user.
    again = await subscriber.api.post("/api/user/verify-email", json={"userId": made["user"]["id"]})
    assert again.status_code == 200
    other = await make(subscriber.api)
    assert (
        await subscriber.api.post("/api/user/verify-email", json={"userId": other["user"]["id"]})
    ).status_code == 200
    for event in await subscriber.received(*VERIFIED):
        assert event["user"]["id"] == other["user"]["id"]
        assert event["user"]["identities"][0]["verifiedReason"] == "Administrative"


async def test_user_created_as_verified_gets_no_verification_mail(subscriber: Subscriber) -> None:
    await make(subscriber.api, skipVerification=True)
    made = await make(subscriber.api)
    assert (await subscriber.api.post(f"/api/user/verify-email/{made['emailVerificationId']}")).status_code == 200
    assert {event["user"]["id"] for event in await subscriber.received(*VERIFIED)} == {made["user"]["id"]}


@pytest.mark.requirement("event-user.identity.update")
async def test_changed_email_raises_an_event_with_the_previous_one(subscriber: Subscriber) -> None:
    made = await make(subscriber.api, skipVerification=True)
    email = f"{new_id()}@example.com"
    path = f"/api/user/{made['user']['id']}"
    changed = (await subscriber.api.patch(path, json={"user": {"email": email}})).json()
    _, identity, _, update = await subscriber.received(*CHANGED)
    previous = made["user"]["email"]
    assert (identity["previousLoginId"], identity["newLoginId"], identity["loginIdType"]) == (previous, email, "email")
    assert (update["previousEmail"], update["user"]["email"]) == (previous, email)
    assert not update["user"]["verified"]
    assert (await subscriber.api.post(f"/api/user/verify-email/{changed['emailVerificationId']}")).status_code == 200
    _, identity = await subscriber.received(*VERIFIED)
    assert identity["loginId"] == email


@pytest.mark.requirement("event-user.registration.verified")
async def test_verified_registration_event_contains_registration_and_user(subscriber: Subscriber) -> None:
    body = {"application": {
        "name": f"App {new_id()}", "verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE,
    }}  # fmt: skip
    application_id = (await subscriber.api.post("/api/application", json=body)).json()["application"]["id"]
    made = await make(subscriber.api, registration={"applicationId": application_id}, skipVerification=True)
    answer = await subscriber.api.post(f"/api/user/verify-registration/{made['registrationVerificationId']}")
    assert answer.status_code == 200
    (event,) = await subscriber.received(*REGISTERED)
    assert event["registration"]["verified"] and event["registration"]["verifiedInstant"]
    assert event["applicationId"] == event["registration"]["applicationId"] == application_id
    assert (event["user"]["id"], event["user"]["registrations"]) == (made["user"]["id"], [])
