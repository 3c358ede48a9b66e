"""Events of users and registrations: types, payloads and vetoes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import TenantId, UserId, new_id
from identity.instants import later
from tests import internals
from tests.receiver import Receiver, answers, receiving
from tests.subscriber import Subscriber

PASSWORD = "correct horse battery staple"
SECRET = base64.b64encode(b"12345678901234567890").decode()
TYPES = (
    "jwt.refresh-token.revoke",
    "user.create",
    "user.create.complete",
    "user.deactivate",
    "user.delete",
    "user.delete.complete",
    "user.email.update",
    "user.identity.update",
    "user.loginId.duplicate.create",
    "user.loginId.duplicate.update",
    "user.password.update",
    "user.reactivate",
    "user.registration.create",
    "user.registration.create.complete",
    "user.registration.delete",
    "user.registration.delete.complete",
    "user.registration.update",
    "user.registration.update.complete",
    "user.two-factor.method.add",
    "user.two-factor.method.remove",
    "user.update",
    "user.update.complete",
)


VETOABLE = {"user.create", "user.update", "user.delete", "user.deactivate"}


class Scenario(Subscriber):
    """A tenant that sends all user events to one receiver."""

    def __init__(self, api: httpx.AsyncClient, receiver: Receiver, service: app.Service) -> None:
        super().__init__(api, receiver, api.headers["X-FusionAuth-TenantId"])
        self.service = service

    async def add_user(self, **members: Any) -> dict[str, Any]:
        wanted = {"email": f"{new_id()}@example.com", "password": PASSWORD, **members}
        made = await self.send("POST", "/api/user", user=wanted)
        return dict(made["user"])

    async def add_token(self, user_id: str, application_id: str) -> str:
        now = internals.now(self.service)
        record = {"id": new_id(), "userId": user_id, "applicationId": application_id, "insertInstant": now}
        await internals.store(self.service, "refresh_tokens").insert(
            TenantId(self.tenant_id), record, later(now, seconds=600)
        )
        return str(record["id"])

    async def is_denied(self, record_id: str) -> bool:
        return await internals.store(self.service, "revocations").is_revoked(TenantId(self.tenant_id), [record_id])

    async def tokens(self, user_id: str) -> int:
        now = internals.now(self.service)
        return len(
            await internals.store(self.service, "refresh_tokens").find_of_user(
                TenantId(self.tenant_id), UserId(user_id), now
            )
        )


@pytest.fixture
async def scenario(service: app.Service, tenant_api: httpx.AsyncClient) -> AsyncIterator[Scenario]:
    async with receiving() as receiver:
        yield Scenario(tenant_api, receiver, service)


@pytest.fixture
async def application_id(tenant_api: httpx.AsyncClient) -> str:
    body = {"application": {"name": f"App {new_id()}", "roles": [{"name": "admin"}, {"name": "user"}]}}
    return str((await tenant_api.post("/api/application", json=body)).json()["application"]["id"])


def assert_secured(event: dict[str, Any]) -> None:
    for name in ("user", "original", "existing"):
        if name in event:
            assert not {"password", "salt", "factor", "encryptionScheme", "private"} & event[name].keys()
            assert event[name]["twoFactor"]["recoveryCodes"] == []


@pytest.mark.requirement("event-user.create", "event-user.two-factor.method.add-2", "service-20")
async def test_user_creation_raises_events_with_the_callers_information(scenario: Scenario) -> None:
    await scenario.subscribe(TYPES)
    method = {"method": "authenticator", "secret": SECRET}
    body = {
        "email": "a@example.com",
        "password": PASSWORD,
        "twoFactor": {"methods": [method], "recoveryCodes": ["a recovery code"]},
    }
    info = {"ipAddress": "192.0.2.9", "deviceName": "phone", "userAgent": "app/1"}
    user = (await scenario.send("POST", "/api/user", user=body, eventInfo=info))["user"]
    created, complete, added = await scenario.received(
        "user.create", "user.create.complete", "user.two-factor.method.add"
    )
    for event in (created, complete, added):
        assert event["info"] == info
        assert event["linkedObjectId"] == user["id"] and event["tenantId"] == scenario.tenant_id
        assert_secured(event)
        assert event["user"] == user
    assert created["id"] != complete["id"]
    assert created.keys() == {"createInstant", "id", "info", "linkedObjectId", "tenantId", "type", "user"}
    assert added["method"]["method"] == "authenticator" and "secret" not in added["method"]
    raw = b"".join(request.body for request in scenario.receiver.requests).decode()
    assert SECRET not in raw and "a recovery code" not in raw and PASSWORD not in raw and "argon2id" not in raw


@pytest.mark.requirement("event-user.create-2")
async def test_user_and_registration_created_together_raise_both_events(
    scenario: Scenario, application_id: str
) -> None:
    await scenario.subscribe(TYPES)
    body = {
        "user": {"email": "a@example.com", "password": PASSWORD},
        "registration": {"applicationId": application_id, "roles": ["user"]},
        "generateAuthenticationToken": True,
    }
    made = await scenario.send("POST", "/api/user/registration", **body)
    _, registered, *_ = await scenario.received(
        "user.create", "user.registration.create", "user.create.complete", "user.registration.create.complete"
    )
    assert registered["applicationId"] == application_id
    assert registered["user"]["registrations"] == [] and registered["user"]["id"] == made["user"]["id"]
    token = made["registration"].pop("authenticationToken")
    assert registered["registration"] == made["registration"]
    assert token not in b"".join(request.body for request in scenario.receiver.requests).decode()


@pytest.mark.requirement("event-user.password.update", "event-user.update")
async def test_update_event_contains_the_original_and_the_change(scenario: Scenario) -> None:
    user = await scenario.add_user(email="old@example.com", username="ann")
    await scenario.subscribe(TYPES)
    change = {"email": "new@example.com", "username": "bob", "password": "another password"}
    await scenario.send("PATCH", f"/api/user/{user['id']}", user=change)
    update, complete, mail, password, *identities = await scenario.received(
        "user.update",
        "user.update.complete",
        "user.email.update",
        "user.password.update",
        "user.identity.update",
        "user.identity.update",
    )
    for event in (update, complete):
        assert event["original"]["email"] == "old@example.com" and event["user"]["email"] == "new@example.com"
        assert_secured(event)
    assert mail["previousEmail"] == "old@example.com"
    assert password["user"]["id"] == user["id"]
    found = {(event["loginIdType"], event["previousLoginId"], event["newLoginId"]) for event in identities}
    assert found == {("email", "old@example.com", "new@example.com"), ("username", "ann", "bob")}
    await scenario.send("PUT", f"/api/user/{user['id']}", user={"email": "new@example.com"}, eventInfo={"os": "X"})
    again, _ = await scenario.received("user.update", "user.update.complete")
    assert again["info"]["os"] == "X"


@pytest.mark.requirement("event-user.two-factor.method.remove-2")
async def test_removed_two_factor_methods_raise_events(scenario: Scenario) -> None:
    methods = [{"method": "email", "email": "a@example.com"}]
    user = await scenario.add_user(email="a@example.com", twoFactor={"methods": methods})
    await scenario.subscribe(TYPES)
    await scenario.send("PUT", f"/api/user/{user['id']}", user={"email": "a@example.com"})
    *_, removed = await scenario.received("user.update", "user.update.complete", "user.two-factor.method.remove")
    assert removed["method"] == user["twoFactor"]["methods"][0]


@pytest.mark.requirement("event-user.loginId.duplicate.create", "event-user.loginId.duplicate.update")
async def test_duplicate_login_id_raises_an_event_and_fails(scenario: Scenario, application_id: str) -> None:
    existing = await scenario.add_user(email="a@example.com", username="Ann")
    other = await scenario.add_user(email="b@example.com")
    await scenario.subscribe(TYPES)
    taken = {"email": "a@example.com", "username": "ann", "password": PASSWORD}
    await scenario.send("POST", "/api/user", 400, user=taken)
    (event,) = await scenario.received("user.loginId.duplicate.create")
    assert event["duplicateEmail"] == "a@example.com" and event["duplicateUsername"] == "ann"
    assert event["duplicateIdentities"] == [
        {"type": "email", "value": "a@example.com"},
        {"type": "username", "value": "ann"},
    ]
    assert event["existing"]["id"] == existing["id"]
    assert event["linkedObjectId"] == event["user"]["id"] != existing["id"]
    assert_secured(event)
    body = {"user": taken, "registration": {"applicationId": application_id}}
    await scenario.send("POST", "/api/user/registration", 400, **body)
    (event,) = await scenario.received("user.loginId.duplicate.create")
    assert event["existing"]["id"] == existing["id"]
    await scenario.send("PATCH", f"/api/user/{other['id']}", 400, user={"email": "A@example.com"})
    (event,) = await scenario.received("user.loginId.duplicate.update")
    assert event["user"]["id"] == other["id"] and "duplicateUsername" not in event


@pytest.mark.requirement("event-user.loginId.duplicate.create", "event-user.loginId.duplicate.update")
async def test_racing_registrations_raise_duplicate_events(scenario: Scenario) -> None:
    others = [await scenario.add_user(email=f"{number}@example.com") for number in range(4)]
    await scenario.subscribe(["user.loginId.duplicate.create", "user.loginId.duplicate.update"])
    wanted = {"user": {"email": "a@example.com", "password": PASSWORD}}
    answered = await asyncio.gather(*(scenario.api.post("/api/user", json=wanted) for _ in range(6)))
    assert sorted(answer.status_code for answer in answered) == [200, 400, 400, 400, 400, 400]
    received = await scenario.received(*["user.loginId.duplicate.create"] * 5)
    owner = next(answer for answer in answered if answer.status_code == 200).json()["user"]["id"]
    assert {event["existing"]["id"] for event in received} == {owner}
    change = {"user": {"username": "ann"}}
    answered = await asyncio.gather(*(scenario.api.patch(f"/api/user/{one['id']}", json=change) for one in others))
    assert sorted(answer.status_code for answer in answered) == [200, 400, 400, 400]
    await scenario.received(*["user.loginId.duplicate.update"] * 3)


@pytest.mark.requirement(
    "event-jwt.refresh-token.revoke-8", "event-user.deactivate-2", "event-user.reactivate", "oauth-2.2-23"
)
async def test_deactivation_revokes_the_tokens_of_the_user(scenario: Scenario, application_id: str) -> None:
    user = await scenario.add_user()
    record_id = await scenario.add_token(user["id"], application_id)
    await scenario.subscribe(TYPES)
    await scenario.send("DELETE", f"/api/user/{user['id']}", eventInfo={"os": "X"})
    gone, revoked = await scenario.received("user.deactivate", "jwt.refresh-token.revoke")
    assert gone["user"]["active"] is True and gone["info"]["os"] == "X"
    assert revoked["userId"] == revoked["linkedObjectId"] == user["id"]
    assert revoked["applicationTimeToLiveInSeconds"] == {application_id: 3600}
    assert not {"applicationId", "refreshToken"} & revoked.keys()
    assert await scenario.tokens(user["id"]) == 0
    assert await scenario.is_denied(record_id)
    await scenario.send("DELETE", f"/api/user/{user['id']}")
    await scenario.send("PUT", f"/api/user/{user['id']}?reactivate=true")
    (back,) = await scenario.received("user.reactivate")
    assert back["user"]["active"] is True


@pytest.mark.requirement("event-jwt.refresh-token.revoke-8", "event-user.delete-2")
async def test_user_deletion_raises_both_events(scenario: Scenario, application_id: str) -> None:
    user = await scenario.add_user()
    await scenario.add_token(user["id"], application_id)
    await scenario.subscribe(TYPES)
    await scenario.send("DELETE", f"/api/user/{user['id']}?hardDelete=true")
    deleted, complete, _ = await scenario.received("user.delete", "user.delete.complete", "jwt.refresh-token.revoke")
    assert deleted["user"]["id"] == complete["user"]["id"] == user["id"]
    assert await scenario.tokens(user["id"]) == 0


@pytest.mark.requirement("oauth-2.2-23")
async def test_a_new_password_revokes_tokens_where_the_tenant_says_so(scenario: Scenario, application_id: str) -> None:
    user = await scenario.add_user()
    await scenario.add_token(user["id"], application_id)
    await scenario.send("PATCH", f"/api/user/{user['id']}", user={"firstName": "Ann"})
    assert await scenario.tokens(user["id"]) == 1
    await scenario.send("PATCH", f"/api/user/{user['id']}", user={"password": "another password"})
    assert await scenario.tokens(user["id"]) == 0
    policy = {"refreshTokenRevocationPolicy": {"onPasswordChanged": False}}
    await scenario.send("PATCH", f"/api/tenant/{scenario.tenant_id}", tenant={"jwtConfiguration": policy})
    await scenario.add_token(user["id"], application_id)
    await scenario.send("PATCH", f"/api/user/{user['id']}", user={"password": "a third password"})
    assert await scenario.tokens(user["id"]) == 1


@pytest.mark.requirement("event-jwt.refresh-token.revoke-8", "event-user.registration.create")
async def test_registration_changes_raise_events(scenario: Scenario, application_id: str) -> None:
    user = await scenario.add_user()
    await scenario.subscribe(TYPES)
    path = f"/api/user/registration/{user['id']}"
    await scenario.send("POST", path, registration={"applicationId": application_id, "roles": ["user"]})
    await scenario.received("user.registration.create", "user.registration.create.complete")
    await scenario.send("PATCH", f"{path}/{application_id}", registration={"roles": ["admin"]})
    for event in await scenario.received("user.registration.update", "user.registration.update.complete"):
        assert event["original"]["roles"] == ["user"] and event["registration"]["roles"] == ["admin", "user"]
        assert event["applicationId"] == application_id and event["user"]["registrations"] == []
    ended = await scenario.add_token(user["id"], application_id)
    kept = await scenario.add_token(user["id"], new_id())
    await scenario.send("DELETE", f"{path}/{application_id}")
    deleted, _, revoked = await scenario.received(
        "user.registration.delete", "user.registration.delete.complete", "jwt.refresh-token.revoke"
    )
    assert deleted["registration"]["applicationId"] == revoked["applicationId"] == application_id
    assert revoked["applicationTimeToLiveInSeconds"].keys() == {application_id}
    assert await scenario.tokens(user["id"]) == 1
    assert await scenario.is_denied(ended) and not await scenario.is_denied(kept)


@pytest.mark.requirement("users-2-18", "webhooks-8-9")
async def test_a_veto_leaves_everything_as_it_was(scenario: Scenario, application_id: str) -> None:
    user = await scenario.add_user(email="a@example.com")
    await scenario.add_token(user["id"], application_id)
    scenario.receiver.behaviour = answers(500)
    await scenario.subscribe(TYPES, "AbsoluteMajority", vetoable=VETOABLE)
    before = await internals.store(scenario.service, "users").get(scenario.tenant_id, user["id"])
    path = f"/api/user/{user['id']}"
    body = {"email": "b@example.com", "password": PASSWORD}
    for method, where, wanted in (
        ("POST", "/api/user", {"user": body}),
        ("POST", "/api/user/registration", {"user": body, "registration": {"applicationId": application_id}}),
        ("PUT", path, {"user": {"email": "c@example.com"}}),
        ("PATCH", path, {"user": {"password": "another password"}}),
        ("DELETE", path, {}),
        ("DELETE", f"{path}?hardDelete=true", {}),
    ):
        answer = await scenario.send(method, where, 504, **wanted)
        assert answer["generalErrors"][0]["code"] == "[WebhookTransactionException]"
    assert await internals.store(scenario.service, "users").get(scenario.tenant_id, user["id"]) == before
    assert await internals.store(scenario.service, "users").count(scenario.tenant_id) == 1
    assert await scenario.tokens(user["id"]) == 1
    assert {request.event["type"] for request in scenario.receiver.requests} == {
        "user.create",
        "user.update",
        "user.deactivate",
        "user.delete",
    }


async def test_user_is_invisible_before_the_webhooks_approved(scenario: Scenario) -> None:
    seen: list[int] = []

    async def read_user_and_answer(request: Any, writer: Any) -> None:
        answer = await scenario.api.get("/api/user?email=a@example.com")
        if request.event["type"] == "user.create":
            seen.append(answer.status_code)
        await answers(200)(request, writer)

    scenario.receiver.behaviour = read_user_and_answer
    await scenario.subscribe(TYPES, "AbsoluteMajority", vetoable=VETOABLE)
    await scenario.add_user(email="a@example.com")
    await scenario.received("user.create", "user.create.complete")
    assert seen == [404]
