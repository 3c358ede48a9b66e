"""user.bulk.create: the event of an import of any size, and vetoes."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from identity import app
from identity.ids import new_id
from identity.schemas import Schemas
from identity.store import event_bodies
from tests import internals
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY, checking_client
from tests.receiver import Receiver, answers
from tests.veto import unchanged

TYPE = "user.bulk.create"
Document = dict[str, Any]


def make_user_document(**members: Any) -> Document:
    return {"id": new_id(), "email": f"{new_id()}@example.com", "password": "plain", **members}


async def subscribe(api: httpx.AsyncClient, receiver: Receiver, transaction_type: str = "None") -> None:
    tenant_id = api.headers["X-FusionAuth-TenantId"]
    events = {TYPE: {"enabled": True, "transactionType": transaction_type}, "user.create": {"enabled": True}}
    scheme = {"encryptionScheme": "salted-hmac-sha256", "encryptionSchemeFactor": 1}
    change = {"eventConfiguration": {"events": events}, "passwordEncryptionConfiguration": scheme}
    answer = await api.patch(f"/api/tenant/{tenant_id}", json={"tenant": change})
    assert answer.status_code == 200, answer.text
    webhook = {
        "url": receiver.url, "connectTimeout": 5000, "readTimeout": 9000, "tenantIds": [tenant_id],
        "eventsEnabled": {TYPE: True, "user.create": True},
    }  # fmt: skip
    answer = await api.post("/api/webhook", json={"webhook": webhook})
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("event-user.bulk.create")
async def test_import_event_contains_all_users_and_no_secrets(tenant_api, receiver) -> None:
    await subscribe(tenant_api, receiver)
    application = await tenant_api.post("/api/application", json={"application": {"name": new_id()}})
    registration = {"applicationId": application.json()["application"]["id"], "authenticationToken": "a-token"}
    method = {"method": "authenticator", "secret": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="}
    factor = {"methods": [method], "recoveryCodes": ["one-of-the-codes"]}
    users = [make_user_document(registrations=[registration], twoFactor=factor, data={"x": None}), make_user_document()]
    answer = await tenant_api.post("/api/user/import", json={"users": users, "eventInfo": {"ipAddress": "10.9.8.7"}})
    assert answer.status_code == 200, answer.text
    (request,) = await receiver.wait_for(1)
    event = request.event
    assert list(Schemas()[f"events/{TYPE}.json"].errors({"event": event})) == []
    assert event["tenantId"] == tenant_api.headers["X-FusionAuth-TenantId"]
    assert event["info"]["ipAddress"] == "10.9.8.7"
    assert "linkedObjectId" not in event
    assert [user["id"] for user in event["users"]] == [user["id"] for user in users]
    response, shown = event["users"][0], (await tenant_api.get(f"/api/user/{users[0]['id']}")).json()["user"]
    for name in ("encryptionScheme", "twoFactor", "registrations"):
        shown.pop(name)
    assert {name: response[name] for name in shown} == shown
    assert response["twoFactor"]["recoveryCodes"] == []
    assert "secret" not in response["twoFactor"]["methods"][0]
    assert "authenticationToken" not in response["registrations"][0]
    for word in (b"MTIzNDU2", b"one-of-the-codes", b"a-token", b"private", b"salt", b"plain"):
        assert word not in request.body, word
    assert len(receiver.requests) == 1, "no user is told of alone"


@pytest.mark.requirement("event-user.bulk.create")
@pytest.mark.parametrize("is_asked", [False, True])
async def test_event_that_is_larger_than_a_document_may_be_loses_nothing(
    service: app.Service, tenant_api, receiver, monkeypatch, is_asked
) -> None:
    monkeypatch.setattr(event_bodies, "PART_BYTES", 5000)
    await subscribe(tenant_api, receiver, "Any" if is_asked else "None")
    users = [make_user_document(data={"é": "ü" * 700}) for _ in range(20)]
    assert (await tenant_api.post("/api/user/import", json={"users": users})).status_code == 200
    (request,) = await receiver.wait_for(1)
    assert len(request.body) > 20 * 1400
    assert [user["id"] for user in request.event["users"]] == [user["id"] for user in users]
    event_id = request.event["id"]
    row = await internals.database(service).collection("events").find_one({"_id": event_id})
    assert row is not None
    parts = internals.database(service).collection("event_parts")
    found = {part["_id"]: part async for part in parts.find({"_id": {"$regex": f"^{event_id}:"}})}
    assert len(found) == row["parts"] > 4
    assert {part.get("expiresAt") for part in found.values()} == {row.get("expiresAt")}, "they go with their row"
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        log = await everywhere.get(f"/api/system/webhook-event-log/{event_id}")
        assert log.json()["webhookEventLog"]["event"] == orjson.loads(request.body)
        await everywhere.post(f"/api/system/webhook-event-log/{event_id}/resend", json={})


@pytest.mark.requirement("event-user.bulk.create", "webhooks-8-18")
async def test_veto_leaves_nothing_of_an_import(service: app.Service, tenant_api, receiver) -> None:
    await subscribe(tenant_api, receiver, "Any")
    group = (await tenant_api.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"]
    users = [make_user_document(memberships=[{"groupId": group}]), make_user_document()]
    receiver.behaviour = answers(500)
    async with unchanged(service, tenant_api.headers["X-FusionAuth-TenantId"]):
        answer = await tenant_api.post("/api/user/import", json={"users": users})
        assert answer.status_code == 504
        assert answer.json()["generalErrors"][0]["code"] == "[WebhookTransactionException]"
    receiver.behaviour = answers(200)
    assert (await tenant_api.post("/api/user/import", json={"users": users})).status_code == 200
    assert [request.event["type"] for request in receiver.requests] == [TYPE, TYPE]


@pytest.mark.requirement("users-2.1-5")
async def test_webhooks_of_a_tenant_get_only_its_events(service: app.Service, api, tenant_api, receiver) -> None:
    await subscribe(tenant_api, receiver)
    own, other = tenant_api.headers["X-FusionAuth-TenantId"], api.headers["X-FusionAuth-TenantId"]
    hmac = {"encryptionScheme": "salted-hmac-sha256"}
    ours, theirs = make_user_document(tenantId=own), make_user_document(tenantId=other)
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        answer = await everywhere.post("/api/user/import", json={"users": [theirs, ours], **hmac})
        assert answer.status_code == 200, answer.text
    (request,) = await receiver.wait_for(1)
    assert [user["id"] for user in request.event["users"]] == [ours["id"]]
    assert request.event["tenantId"] == own
    assert (await api.get(f"/api/user/{theirs['id']}")).json()["user"]["tenantId"] == other


@pytest.mark.requirement("users-2.1-6")
async def test_no_mail_is_sent(service: app.Service, tenant_api) -> None:
    tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
    mails = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    change = {"tenant": {"emailConfiguration": mails}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200
    answer = await tenant_api.post(
        "/api/user/import", json={"users": [make_user_document()], "encryptionScheme": "salted-hmac-sha256"}
    )
    assert answer.status_code == 200
    assert await internals.database(service).collection("mails").count_documents({"tenantId": tenant_id}) == 0
