"""The official Python client, unmodified, on forgotten and changed passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from tests.conftest import SUPER_KEY
from tests.password_reset import NEW_PASSWORD, PasswordReset, password_reset
from tests.relying_party import PASSWORD


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.fixture
async def scenario(service, api):
    async with password_reset(service, api) as found:
        yield found


async def with_client(scenario: PasswordReset, work: Callable[[FusionAuthClient], None]) -> None:
    client = FusionAuthClient(SUPER_KEY, scenario.service.base_url)
    client.set_tenant_id(scenario.tenant_id)
    await asyncio.to_thread(work, client)


@pytest.mark.requirement("users-7-33")
async def test_the_client_resets_a_password_by_an_id(scenario: PasswordReset) -> None:
    def work(client: FusionAuthClient) -> None:
        request = {"loginId": scenario.rp.login_id, "sendForgotPasswordEmail": False, "state": {"a": "b"}}
        ids = [successful(client.forgot_password(request))["changePasswordId"] for _ in range(2)]
        found = successful(client.retrieve_user_by_change_password_id(ids[0]))
        assert found["user"]["id"] == scenario.rp.user["id"]
        successful(client.check_change_password_using_id(ids[0]))
        successful(client.check_change_password_using_id_and_ip_address(ids[0], "192.0.2.7"))
        answer = successful(client.change_password(ids[0], {"password": NEW_PASSWORD}))
        assert answer["state"] == {"a": "b"}
        login = {"oneTimePassword": answer["oneTimePassword"], "applicationId": scenario.rp.client_id}
        assert successful(client.login(login))["user"]["id"] == scenario.rp.user["id"]
        assert client.check_change_password_using_id(ids[1]).status == 404
        last = successful(client.forgot_password(request))["changePasswordId"]
        successful(client.change_password(None, {"changePasswordId": last, "password": "a third battery"}))
        assert client.change_password(last, {"password": "a fourth battery"}).status == 404
        assert client.forgot_password({"loginId": "unknown@example.com"}).status == 404

    await with_client(scenario, work)


@pytest.mark.requirement("users-7-33", "users-7-9")
async def test_the_client_changes_a_password_by_login_id_and_by_token(scenario: PasswordReset) -> None:
    def work(client: FusionAuthClient) -> None:
        login_id = scenario.rp.login_id
        successful(client.check_change_password_using_login_id(login_id))
        successful(client.check_change_password_using_login_id_and_ip_address(login_id, "192.0.2.7"))
        successful(client.check_change_password_using_login_id_and_login_id_types(login_id, ["email"]))
        checked = client.check_change_password_using_login_id_and_login_id_types_and_ip_address
        successful(checked(login_id, ["email"], "192.0.2.7"))
        assert checked(login_id, ["username"], "192.0.2.7").status == 404
        successful(client.change_password_by_identity({"loginId": login_id, "password": NEW_PASSWORD}))
        credentials = {"loginId": login_id, "applicationId": scenario.rp.client_id}
        token = successful(client.login({**credentials, "password": NEW_PASSWORD}))["token"]
        successful(client.check_change_password_using_jwt(token))
        successful(client.check_change_password_using_jwt_and_ip_address(token, "192.0.2.7"))
        wrong = client.change_password_using_jwt(token, {"currentPassword": "wrong", "password": PASSWORD})
        assert wrong.error_response["fieldErrors"].keys() == {"currentPassword"}
        own = {"currentPassword": NEW_PASSWORD, "password": PASSWORD}
        assert successful(client.change_password_using_jwt(token, own))["oneTimePassword"]
        token = successful(client.login({**credentials, "password": PASSWORD}))["token"]
        back = {"currentPassword": PASSWORD, "password": NEW_PASSWORD}
        with pytest.warns(DeprecationWarning, match="renamed"):
            assert successful(client.change_password_by_jwt(token, back))["oneTimePassword"]

    await with_client(scenario, work)
