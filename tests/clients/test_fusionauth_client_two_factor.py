"""The official Python client, unmodified, on second factors."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from tests import two_factor
from tests.conftest import SUPER_KEY
from tests.mailbox import receiving
from tests.relying_party import PASSWORD, RelyingParty


def successful(answer: Any, status: int = 200) -> Any:
    assert answer.status == status, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.fixture
def client(service, rp) -> FusionAuthClient:
    made = FusionAuthClient(SUPER_KEY, service.base_url)
    made.set_tenant_id(rp.tenant["id"])
    return made


def credentials(rp: RelyingParty) -> dict[str, Any]:
    return {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}


def method(rp: RelyingParty, client: FusionAuthClient) -> dict[str, Any]:
    (found,) = successful(client.retrieve_user(rp.user["id"]))["user"]["twoFactor"]["methods"]
    return dict(found)


async def test_the_client_adds_names_and_removes_an_authenticator(client, rp, clock) -> None:
    user_id = rp.user["id"]

    def enable(secret: dict[str, Any]) -> Any:
        code = two_factor.code(clock.now(), secret=secret["secret"])
        return successful(client.enable_two_factor(user_id, {"method": "authenticator", "code": code, **secret}))

    def work() -> None:
        token = successful(client.login(credentials(rp)))["token"]
        first, second = (
            successful(client.generate_two_factor_secret()),
            successful(client.generate_two_factor_secret_using_jwt(token)),
        )
        assert base64.b32decode(first["secretBase32Encoded"]) == base64.b64decode(first["secret"])
        given = enable(first)["recoveryCodes"]
        assert successful(client.retrieve_two_factor_recovery_codes(user_id))["recoveryCodes"] == given
        successful(client.update_two_factor(user_id, {"methodId": method(rp, client)["id"], "name": "Phone"}))
        found = method(rp, client)
        assert found["name"] == "Phone"
        fresh = successful(client.generate_two_factor_recovery_codes(user_id))["recoveryCodes"]
        assert len(fresh) == 10 and not set(fresh) & set(given)
        wrong = two_factor.wrong_code(clock.now())
        assert client.disable_two_factor(user_id, found["id"], wrong).status == 421
        right = two_factor.code(clock.now(), secret=first["secret"], steps=1)
        successful(client.disable_two_factor_with_request(user_id, {"methodId": found["id"], "code": right}))
        codes = enable(second)["recoveryCodes"]
        successful(client.disable_two_factor(user_id, method(rp, client)["id"], codes[0]))
        assert successful(client.retrieve_user(user_id))["user"]["twoFactor"]["methods"] == []

    await asyncio.to_thread(work)


async def test_the_client_logs_in_with_codes_by_email_and_trusts_a_device(client, rp) -> None:
    user_id = rp.user["id"]

    async def code(count: int) -> str:
        return await two_factor.mailed_code(box, count)

    async def call_in_thread(call: Any, *arguments: Any) -> Any:
        return await asyncio.to_thread(call, *arguments)

    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        address = {"userId": user_id, "method": "email", "email": "second@example.com"}
        successful(await call_in_thread(client.send_two_factor_code_for_enable_disable, address))
        wanted = {"method": "email", "email": "second@example.com", "code": await code(1)}
        successful(await call_in_thread(client.enable_two_factor, user_id, wanted))
        waiting = successful(await call_in_thread(client.login, credentials(rp)), 242)
        (shown,) = waiting["methods"]
        two_factor_id = waiting["twoFactorId"]
        successful(
            await call_in_thread(
                client.send_two_factor_code_for_login_using_method, two_factor_id, {"methodId": shown["id"]}
            )
        )
        answer = await call_in_thread(
            client.two_factor_login, {"twoFactorId": two_factor_id, "code": await code(2), "trustComputer": True}
        )
        trust_id = successful(answer)["twoFactorTrustId"]
        trusted = successful(await call_in_thread(client.login, {**credentials(rp), "twoFactorTrustId": trust_id}))
        assert trusted["user"]["id"] == user_id
        status = successful(await call_in_thread(client.retrieve_two_factor_status, user_id, rp.client_id, trust_id))
        assert status["trusts"][0]["applicationId"] == rp.client_id
        step_up = {"userId": user_id, "action": "stepUp", "twoFactorTrustId": trust_id}
        successful(await call_in_thread(client.retrieve_two_factor_status_with_request, step_up), 242)
        again = successful(await call_in_thread(client.login, credentials(rp)), 242)["twoFactorId"]
        with pytest.deprecated_call():
            successful(await call_in_thread(client.send_two_factor_code_for_login, again))
        assert (
            await call_in_thread(client.two_factor_login, {"twoFactorId": again, "code": await code(3)})
        ).status == 200
        with pytest.deprecated_call():
            successful(await call_in_thread(client.send_two_factor_code, {"userId": user_id, "methodId": shown["id"]}))
        successful(await call_in_thread(client.disable_two_factor, user_id, shown["id"], await code(4)))


async def test_the_client_starts_a_login_by_itself(client, rp) -> None:
    def work() -> None:
        started = successful(client.start_two_factor_login({"userId": rp.user["id"], "applicationId": rp.client_id}))
        body = {"twoFactorId": started["twoFactorId"], "code": started["code"]}
        assert successful(client.two_factor_login(body))["trustToken"]

    await asyncio.to_thread(work)
