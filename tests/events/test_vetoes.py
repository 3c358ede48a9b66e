"""Vetoes: a transactional webhook fails, and a snapshot of the tenant's data is unchanged.

One row per transactional event type, with the preparation and the vetoed request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from identity import app
from identity.events.catalogue import TRANSACTIONAL_EVENTS
from identity.ids import new_id
from tests import internals, relying_party
from tests.api.test_entity_types import make as make_type
from tests.conftest import EMAIL_TEMPLATE, checking_client
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import Subscriber
from tests.veto import unchanged

REQUEST = Callable[[], Awaitable[httpx.Response]]


@dataclasses.dataclass
class Scenario:
    """A relying party whose tenant has one webhook, and clients with a key and without."""

    rp: RelyingParty
    key: httpx.AsyncClient
    http: httpx.AsyncClient
    service: app.Service

    @property
    def user(self) -> str:
        return f"/api/user/{self.rp.user['id']}"

    @property
    def registration(self) -> str:
        return f"/api/user/registration/{self.rp.user['id']}/{self.rp.client_id}"

    def request(self, method: str, path: str, **body: Any) -> REQUEST:
        """A request to be sent."""
        return lambda: self.key.request(method, path, json=body or None)

    async def made(self, path: str, **body: Any) -> dict[str, Any]:
        """The response to a POST."""
        answer = await self.key.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()) if answer.content else {}

    async def logged_in(self, **members: Any) -> dict[str, Any]:
        """The response to a login with a refresh token."""
        await self.rp.patch(
            f"/api/application/{self.rp.client_id}",
            {"application": {"loginConfiguration": {"allowTokenRefresh": True, "generateRefreshTokens": True}}},
        )
        return await self.made("/api/login", **self.credentials, **members)

    @property
    def credentials(self) -> dict[str, Any]:
        return {"loginId": self.rp.login_id, "password": PASSWORD, "applicationId": self.rp.client_id}

    async def group(self) -> str:
        return str((await self.made("/api/group", group={"name": new_id()}))["group"]["id"])

    async def member(self) -> str:
        group_id = await self.group()
        await self.made("/api/group/member", members={group_id: [{"userId": self.rp.user["id"]}]})
        return group_id

    async def entity(self) -> str:
        kind = await make_type(self.key)
        return str((await self.made("/api/entity", entity={"name": "One", "type": {"id": kind["id"]}}))["entity"]["id"])


async def _entity_create(scenario: Scenario) -> REQUEST:
    kind = await make_type(scenario.key)
    return scenario.request("POST", "/api/entity", entity={"name": "Two", "type": {"id": kind["id"]}})


async def _entity_update(scenario: Scenario) -> REQUEST:
    return scenario.request("PATCH", f"/api/entity/{await scenario.entity()}", entity={"name": "Two"})


async def _entity_delete(scenario: Scenario) -> REQUEST:
    return scenario.request("DELETE", f"/api/entity/{await scenario.entity()}")


async def _group_create(scenario: Scenario) -> REQUEST:
    return scenario.request("POST", "/api/group", group={"name": "New"})


async def _group_update(scenario: Scenario) -> REQUEST:
    return scenario.request("PATCH", f"/api/group/{await scenario.group()}", group={"name": "New"})


async def _group_delete(scenario: Scenario) -> REQUEST:
    return scenario.request("DELETE", f"/api/group/{await scenario.member()}")


async def _member_add(scenario: Scenario) -> REQUEST:
    members = {await scenario.group(): [{"userId": scenario.rp.user["id"]}]}
    return scenario.request("POST", "/api/group/member", members=members)


async def _member_update(scenario: Scenario) -> REQUEST:
    members = {await scenario.member(): [{"userId": scenario.rp.user["id"], "data": {"a": 1}}]}
    return scenario.request("PUT", "/api/group/member", members=members)


async def _member_remove(scenario: Scenario) -> REQUEST:
    group_id = await scenario.member()
    return scenario.request("DELETE", "/api/group/member", members={group_id: [scenario.rp.user["id"]]})


async def _public_key_update(scenario: Scenario) -> REQUEST:
    key = (await scenario.made("/api/key/generate", key={"algorithm": "ES256", "name": new_id()}))["key"]
    change = {"jwtConfiguration": {"accessTokenKeyId": key["id"]}}
    return scenario.request("PATCH", f"/api/tenant/{scenario.rp.tenant['id']}", tenant=change)


async def _refresh(scenario: Scenario) -> REQUEST:
    login = await scenario.logged_in()
    return lambda: scenario.http.post(
        "/api/jwt/refresh",
        json={"refreshToken": login["refreshToken"]},
        headers={"X-FusionAuth-TenantId": scenario.rp.tenant["id"]},
    )


async def _revoke(scenario: Scenario) -> REQUEST:
    login = await scenario.logged_in()
    return scenario.request("DELETE", f"/api/jwt/refresh/{login['refreshTokenId']}")


async def _action(scenario: Scenario) -> REQUEST:
    await scenario.logged_in()
    wanted = {"name": new_id(), "temporal": True, "preventLogin": True}
    definition = (await scenario.made("/api/user-action", userAction=wanted))["userAction"]["id"]
    who = {
        "actioneeUserId": scenario.rp.user["id"],
        "actionerUserId": scenario.rp.user["id"],
        "userActionId": definition,
    }
    return scenario.request("POST", "/api/user/action", action={**who, "expiry": 2**63 - 1}, broadcast=True)


async def _user_create(scenario: Scenario) -> REQUEST:
    return scenario.request("POST", "/api/user", user={"email": f"{new_id()}@example.com", "password": PASSWORD})


async def _user_update(scenario: Scenario) -> REQUEST:
    return scenario.request("PATCH", scenario.user, user={"firstName": "Ada", "password": f"{PASSWORD} 2"})


async def _identity_update(scenario: Scenario) -> REQUEST:
    return scenario.request("PATCH", scenario.user, user={"email": f"{new_id()}@example.com"})


async def _user_deactivate(scenario: Scenario) -> REQUEST:
    await scenario.logged_in()
    return scenario.request("DELETE", scenario.user)


async def _user_reactivate(scenario: Scenario) -> REQUEST:
    assert (await scenario.key.delete(scenario.user)).status_code == 200
    return scenario.request("PUT", f"{scenario.user}?reactivate=true")


async def _user_delete(scenario: Scenario) -> REQUEST:
    await scenario.logged_in()
    await scenario.member()
    return scenario.request("DELETE", f"{scenario.user}?hardDelete=true")


async def _registration_create(scenario: Scenario) -> REQUEST:
    assert (await scenario.key.delete(scenario.registration)).status_code == 200
    registration = {"applicationId": scenario.rp.client_id}
    return scenario.request("POST", f"/api/user/registration/{scenario.rp.user['id']}", registration=registration)


async def _registration_update(scenario: Scenario) -> REQUEST:
    return scenario.request("PATCH", scenario.registration, registration={"data": {"a": 1}})


async def _registration_delete(scenario: Scenario) -> REQUEST:
    await scenario.logged_in()
    return scenario.request("DELETE", scenario.registration)


async def _login(scenario: Scenario) -> REQUEST:
    await scenario.logged_in()
    return scenario.request("POST", "/api/login", **scenario.credentials)


async def _login_at_new_device(scenario: Scenario) -> REQUEST:
    return scenario.request("POST", "/api/login", **scenario.credentials, newDevice=True)


async def _login_from_afar(scenario: Scenario) -> REQUEST:
    here, there = ({"latitude": 52.5, "longitude": east} for east in (13.4, 113.4))
    await scenario.made("/api/login", **scenario.credentials, eventInfo={"location": here})
    return scenario.request("POST", "/api/login", **scenario.credentials, eventInfo={"location": there})


async def _breached_password(scenario: Scenario) -> REQUEST:
    await scenario.made("/api/user/change-password", loginId=scenario.rp.login_id, password="letmein123")
    detection = {"enabled": True, "matchMode": "Low", "onLogin": "RecordOnly"}
    await scenario.rp.configure_tenant(passwordValidationRules={"breachDetection": detection})
    return scenario.request("POST", "/api/login", **{**scenario.credentials, "password": "letmein123"})


async def _wrong_password(scenario: Scenario) -> REQUEST:
    return scenario.request("POST", "/api/login", **{**scenario.credentials, "password": "wrong"})


async def _email_verified(scenario: Scenario) -> REQUEST:
    # No queued mail interferes: undeliverable ones would be retried.
    email = f"{new_id()}@example.com"
    await scenario.made("/api/user", user={"email": email, "password": PASSWORD})
    await scenario.rp.configure_tenant(
        emailConfiguration={"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    )
    begun = await scenario.key.put("/api/user/verify-email", params={"email": email, "sendVerifyEmail": False})
    return lambda: scenario.http.post(f"/api/user/verify-email/{begun.json()['verificationId']}")


async def _registration_verified(scenario: Scenario) -> REQUEST:
    change = {"verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    await scenario.rp.patch(f"/api/application/{scenario.rp.client_id}", {"application": change})
    # Who has no address gets no mail, which would be tried again meanwhile.
    user = {"username": f"name-{new_id()}", "password": PASSWORD}
    registration = {"applicationId": scenario.rp.client_id}
    made = await scenario.made("/api/user/registration", user=user, registration=registration)
    return lambda: scenario.http.post(f"/api/user/verify-registration/{made['registrationVerificationId']}")


STOPPED = 504


@dataclasses.dataclass(frozen=True)
class Row:
    """A vetoed request, the response to the caller, and its remaining effects."""

    prepare: Callable[[Scenario], Awaitable[REQUEST]]
    status: int = STOPPED
    except_for: tuple[str, ...] = ()


ROWS = {
    "entity.create": Row(_entity_create),
    "entity.delete": Row(_entity_delete),
    "entity.update": Row(_entity_update),
    "group.create": Row(_group_create),
    "group.delete": Row(_group_delete),
    "group.member.add": Row(_member_add),
    "group.member.remove": Row(_member_remove),
    "group.member.update": Row(_member_update),
    "group.update": Row(_group_update),
    "jwt.public-key.update": Row(_public_key_update),
    "jwt.refresh": Row(_refresh),
    "jwt.refresh-token.revoke": Row(_revoke),
    "user.action": Row(_action),
    "user.create": Row(_user_create),
    "user.deactivate": Row(_user_deactivate),
    "user.delete": Row(_user_delete),
    "user.email.verified": Row(_email_verified),
    "user.identity.verified": Row(_email_verified),
    "user.registration.verified": Row(_registration_verified),
    "user.identity.update": Row(_identity_update),
    # There is nothing to veto: the login stays failed, and counts as a failure.
    "user.login.failed": Row(_wrong_password, 404, except_for=(":limit:",)),
    "user.login.new-device": Row(_login_at_new_device),
    "user.login.success": Row(_login),
    "user.login.suspicious": Row(_login_from_afar),
    "user.password.breach": Row(_breached_password),
    "user.reactivate": Row(_user_reactivate),
    "user.registration.create": Row(_registration_create),
    "user.registration.delete": Row(_registration_delete),
    "user.registration.update": Row(_registration_update),
    "user.update": Row(_user_update),
}

ELSEWHERE = {
    "user.bulk.create",
}


@pytest.fixture
async def scenario(service: app.Service, api: httpx.AsyncClient, http: httpx.AsyncClient) -> AsyncIterator[Scenario]:
    rp = await relying_party.make(api)
    headers = httpx.Headers(api.headers)
    headers["X-FusionAuth-TenantId"] = rp.tenant["id"]
    async with checking_client(str(api.base_url), headers=headers) as key:
        yield Scenario(rp, key, http, service)


@pytest.mark.requirement("webhooks-8-3")
def test_every_type_that_can_be_vetoed_has_a_row() -> None:
    assert {*ROWS, *ELSEWHERE} == TRANSACTIONAL_EVENTS
    assert not ROWS.keys() & ELSEWHERE


@pytest.mark.requirement(
    "event-user.email.verified",
    "event-user.login.new-device",
    "event-user.login.success-6",
    "event-user.login.suspicious",
    "event-user.registration.verified",
    "event-veto",
    "users-11-20",
    "webhooks-15.3-36",
    "webhooks-8-3",
)
@pytest.mark.parametrize("kind", sorted(ROWS))
async def test_veto_leaves_everything_as_it_was(kind: str, scenario: Scenario) -> None:
    row = ROWS[kind]
    request = await row.prepare(scenario)
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(scenario.key, receiver, scenario.rp.tenant["id"])
        await subscriber.subscribe([kind], "AbsoluteMajority")
        async with unchanged(scenario.service, subscriber.tenant_id, except_for=row.except_for):
            answer = await request()
        assert answer.status_code == row.status, answer.text
        assert await subscriber.received(kind)


@pytest.mark.requirement("event-veto", "webhooks-8-3")
@pytest.mark.parametrize("kind", sorted(ROWS))
async def test_approved_request_succeeds(kind: str, scenario: Scenario) -> None:
    """Otherwise a request rejected for another reason would look like a veto."""
    row = ROWS[kind]
    request = await row.prepare(scenario)
    async with receiving(answers(200)) as receiver:
        subscriber = Subscriber(scenario.key, receiver, scenario.rp.tenant["id"])
        await subscriber.subscribe([kind], "AbsoluteMajority")
        answer = await request()
        assert answer.status_code == (200 if row.status == STOPPED else row.status), answer.text
        assert await subscriber.received(kind)


async def test_snapshot_detects_changes(service, tenant_api, tenant):
    body = {"user": {"email": "reader@example.com", "password": PASSWORD}}
    with pytest.raises(AssertionError, match="users"):
        async with unchanged(service, tenant["id"]):
            await tenant_api.post("/api/user", json=body)


async def test_snapshot_detects_changes_in_redis(service, tenant):
    with pytest.raises(AssertionError, match="redis"):
        async with unchanged(service, tenant["id"]):
            await internals.store(service, "one_time_tokens").issue(tenant["id"], "verify-email", new_id(), {}, 60)
