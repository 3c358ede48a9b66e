"""Authentication tokens: login to one application without the password."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.receiver import receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import Subscriber


async def enable(rp: RelyingParty, *, enabled: bool) -> None:
    change = {"application": {"authenticationTokenConfiguration": {"enabled": enabled}}}
    await rp.patch(f"/api/application/{rp.client_id}", change)


async def register(key: httpx.AsyncClient, rp: RelyingParty) -> tuple[str, str]:
    """The email and the token of a new user."""
    user = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    body = {"user": user, "registration": {"applicationId": rp.client_id}, "generateAuthenticationToken": True}
    answer = await key.post("/api/user/registration", json=body)
    assert answer.status_code == 200, answer.text
    return user["email"], answer.json()["registration"]["authenticationToken"]


async def log_in(key: httpx.AsyncClient, rp: RelyingParty, email: str, text: str, **members: Any) -> httpx.Response:
    body = {"loginId": email, "password": text, "applicationId": rp.client_id, **members}
    return await key.post("/api/login", json={name: value for name, value in body.items() if value is not None})


@pytest.mark.requirement("users-8-24")
async def test_authentication_token_logs_in_and_is_reported_as_such(key, rp) -> None:
    await enable(rp, enabled=True)
    email, token = await register(key, rp)
    async with receiving() as receiver:
        subscriber = Subscriber(key, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.login.success"])
        answer = await log_in(key, rp, email, token)
        (event,) = await subscriber.received("user.login.success")
    assert answer.status_code == 200
    assert relying_party.claims(answer.json()["token"])["authenticationType"] == "APPLICATION_TOKEN"
    assert event["authenticationType"] == "APPLICATION_TOKEN" and token not in str(event)
    by_password = await log_in(key, rp, email, PASSWORD)
    assert relying_party.claims(by_password.json()["token"])["authenticationType"] == "PASSWORD"


@pytest.mark.requirement("users-8-24")
async def test_authentication_token_is_refused_if_disabled_by_application(key, rp) -> None:
    email, token = await register(key, rp)
    assert (await log_in(key, rp, email, token)).status_code == 404
    await enable(rp, enabled=True)
    assert (await log_in(key, rp, email, token)).status_code == 200
    # Nor without the application, or as anybody else, or for another application.
    other_user, _ = await register(key, rp)
    other = await relying_party.make(rp.api, tenant=rp.tenant)
    await enable(other, enabled=True)
    assert (await log_in(key, rp, email, token, applicationId=None)).status_code == 404
    assert (await log_in(key, rp, other_user, token)).status_code == 404
    assert (await log_in(key, other, email, token)).status_code == 404


async def test_authentication_token_is_valid_for_login_only(key, rp, http) -> None:
    await enable(rp, enabled=True)
    await rp.configure(enabledGrants=["password"])
    email, token = await register(key, rp)
    answer = await rp.token(http, grant_type="password", username=email, password=token)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


async def test_authentication_token_is_created_on_request_only(key, rp) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    await enable(rp, enabled=True)
    registration = (await key.get(f"/api/user/registration/{user['id']}/{rp.client_id}")).json()["registration"]
    assert "authenticationToken" not in registration
    for text in ("None", "null", "undefined"):
        assert (await log_in(key, rp, user["email"], text)).status_code == 404


async def test_attack_48_wrong_tokens_count_as_failed_logins(key, rp) -> None:
    await enable(rp, enabled=True)
    limit = {"failedLogin": {"enabled": True, "limit": 3, "timePeriodInSeconds": 600}}
    await rp.configure_tenant(rateLimitConfiguration=limit)
    email, token = await register(key, rp)
    statuses = [(await log_in(key, rp, email, f"{token}{n}")).status_code for n in range(4)]
    assert statuses == [404, 404, 404, 503]
    assert (await log_in(key, rp, email, token)).status_code == 503
