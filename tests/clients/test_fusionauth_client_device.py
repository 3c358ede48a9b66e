"""The official Python client, unmodified, at the device grant's endpoints."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from tests.conftest import SUPER_KEY
from tests.oauth2.devices import DEVICE_GRANT, device_client
from tests.relying_party import PASSWORD, RelyingParty


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


def refused(answer: Any, status: int, reason: str) -> None:
    assert (answer.status, answer.error_response["error_reason"]) == (status, reason)


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application with devices, whose secret is asked for."""
    return await device_client(api, clientAuthenticationPolicy="Required")


@pytest.fixture
def client(service: app.Service) -> FusionAuthClient:
    return FusionAuthClient(SUPER_KEY, service.base_url)


@pytest.mark.requirement("contract-device-5")
async def test_device_is_begun_looked_at_and_approved(service, rp, client, http) -> None:
    named = {"client_id": rp.client_id, "client_secret": rp.secret, "tenantId": rp.tenant["id"]}

    def work() -> list[str]:
        first = successful(client.device_authorize(rp.client_id, rp.secret, "openid email"))
        second = successful(client.device_authorize_with_request(SimpleNamespace(**named, scope="openid")))
        refused(client.device_authorize("unknown"), 400, "invalid_client_id")
        token = successful(
            client.exchange_user_credentials_for_access_token(rp.login_id, PASSWORD, rp.client_id, rp.secret, "openid")
        )["access_token"]
        about = successful(
            client.retrieve_user_code_with_request(SimpleNamespace(**named, user_code=first["user_code"]))
        )
        assert (about["client_id"], about["scope"], about["tenantId"]) == (rp.client_id, "email", rp.tenant["id"])
        # The client sends no API key along, whatever the name of the method says.
        asked = SimpleNamespace(tenantId=rp.tenant["id"], user_code=first["user_code"])
        refused(client.retrieve_user_code_using_api_key_with_request(asked), 400, "missing_client_id")
        validated = client.validate_device(first["user_code"], rp.client_id)
        assert (validated.status, validated.success_response) == (200, None)
        wanted = SimpleNamespace(client_id=rp.client_id, tenantId=None, user_code=second["user_code"])
        assert client.validate_device_with_request(wanted).status == 200
        refused(client.validate_device("XXXXXX", rp.client_id), 400, "invalid_user_code")
        approved = successful(client.approve_device(token, first["user_code"], rp.client_id, rp.secret))
        assert (approved["deviceGrantStatus"], approved["userId"]) == ("Approved", rp.user["id"])
        by_request = SimpleNamespace(**named, token=token, user_code=second["user_code"])
        assert successful(client.approve_device_with_request(by_request))["deviceGrantStatus"] == "Approved"
        assert client.approve_device(token, first["user_code"], rp.client_id, "wrong").status == 401
        return [first["device_code"], second["device_code"]]

    for device_code in await asyncio.to_thread(work):
        answer = await rp.token(http, grant_type=DEVICE_GRANT, device_code=device_code)
        assert answer.json()["userId"] == rp.user["id"]
