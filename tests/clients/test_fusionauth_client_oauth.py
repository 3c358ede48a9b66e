"""The official Python client, unmodified, at the protocol's endpoints: codes, refresh tokens, passwords."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from tests import relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.relying_party import PASSWORD, PKCE, REDIRECT_URI, VERIFIER, RelyingParty

GRANTS = ["authorization_code", "refresh_token", "password"]


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application that need not authenticate: the client has no way to do so at the introspection endpoint."""
    return await relying_party.make(api, clientAuthenticationPolicy="NotRequired", enabledGrants=GRANTS)


@pytest.fixture
def client(service: app.Service) -> FusionAuthClient:
    return FusionAuthClient(SUPER_KEY, service.base_url)


async def test_codes_are_exchanged_in_four_ways(service, rp, client) -> None:
    async with checking_client(service.base_url) as browser:
        plain = [await rp.code(browser) for _ in range(2)]
        proven = [await rp.code(browser, **PKCE) for _ in range(2)]

    def work() -> None:
        asked = {
            "client_id": rp.client_id,
            "client_secret": rp.secret,
            "grant_type": "authorization_code",
            "redirect_uri": REDIRECT_URI,
            "tenantId": None,
        }
        answers = [
            client.exchange_o_auth_code_for_access_token(plain[0], REDIRECT_URI, rp.client_id, rp.secret),
            client.exchange_o_auth_code_for_access_token_with_request(SimpleNamespace(**asked, code=plain[1])),
            client.exchange_o_auth_code_for_access_token_using_pkce(proven[0], REDIRECT_URI, VERIFIER, rp.client_id),
            client.exchange_o_auth_code_for_access_token_using_pkce_with_request(
                SimpleNamespace(**asked, code=proven[1], code_verifier=VERIFIER)
            ),
        ]
        for answer in answers:
            assert successful(answer)["userId"] == rp.user["id"]
        again = client.exchange_o_auth_code_for_access_token(plain[0], REDIRECT_URI, rp.client_id, rp.secret)
        assert (again.status, again.error_response["error"]) == (400, "invalid_grant")

    await asyncio.to_thread(work)


async def test_passwords_and_refresh_tokens_give_tokens_that_are_known(rp, client) -> None:
    def work() -> None:
        scope = "openid offline_access"
        first = successful(
            client.exchange_user_credentials_for_access_token(rp.login_id, PASSWORD, rp.client_id, rp.secret, scope)
        )
        asked = {"client_id": rp.client_id, "client_secret": rp.secret, "tenantId": None, "user_code": None}
        named = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": scope}
        by_request = SimpleNamespace(**asked, **named)
        successful(client.exchange_user_credentials_for_access_token_with_request(by_request))
        value = first["refresh_token"]
        second = successful(client.exchange_refresh_token_for_access_token(value, rp.client_id, rp.secret))
        renewed = SimpleNamespace(**asked, grant_type="refresh_token", refresh_token=value, scope="openid")
        third = successful(client.exchange_refresh_token_for_access_token_with_request(renewed))
        for tokens in (first, second, third):
            known = successful(client.introspect_access_token(rp.client_id, tokens["access_token"]))
            assert (known["active"], known["sub"]) == (True, rp.user["id"])
            userinfo = successful(client.retrieve_user_info_from_access_token(tokens["access_token"]))
            assert userinfo["sub"] == rp.user["id"]
        hinted = SimpleNamespace(
            client_id=rp.client_id, tenantId=None, token=first["id_token"], token_type_hint="id_token"
        )
        assert successful(client.introspect_access_token_with_request(hinted))["active"] is True
        assert successful(client.introspect_access_token(rp.client_id, "x.y.z")) == {"active": False}

    await asyncio.to_thread(work)
