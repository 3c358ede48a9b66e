"""The official Python client, unmodified, on logins and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests import relying_party
from tests.conftest import SUPER_KEY
from tests.relying_party import PASSWORD, RelyingParty


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.fixture
async def rp(api) -> RelyingParty:
    party = await relying_party.make(api)
    configuration = {"generateRefreshTokens": True, "allowTokenRefresh": True}
    await party.patch(f"/api/application/{party.client_id}", {"application": {"loginConfiguration": configuration}})
    return party


async def with_client(service: app.Service, rp: RelyingParty, work: Callable[[FusionAuthClient], None]) -> None:
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(rp.tenant["id"])
    await asyncio.to_thread(work, client)


def credentials(rp: RelyingParty) -> dict[str, Any]:
    return {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}


async def test_the_client_logs_users_in_and_out_and_says_that_they_are_there(service, rp) -> None:
    def work(client: FusionAuthClient) -> None:
        first, second = [successful(client.login(credentials(rp))) for _ in range(2)]
        assert first["user"]["id"] == rp.user["id"]
        assert successful(client.login_ping(rp.user["id"], rp.client_id))["user"]["id"] == rp.user["id"]
        ping = {"userId": rp.user["id"], "applicationId": rp.client_id}
        assert successful(client.login_ping_with_request(ping))["token"]
        successful(client.logout(False, first["refreshToken"]))
        left = successful(client.retrieve_refresh_tokens(rp.user["id"]))["refreshTokens"]
        assert [record["id"] for record in left] == [second["refreshTokenId"]]
        successful(client.logout_with_request({"global": True, "refreshToken": second["refreshToken"]}))
        assert successful(client.retrieve_refresh_tokens(rp.user["id"]))["refreshTokens"] == []
        assert client.login({**credentials(rp), "password": "wrong"}).status == 404

    await with_client(service, rp, work)


@pytest.mark.requirement("users-6-9")
async def test_the_client_validates_issues_and_vends_tokens(service, rp) -> None:
    def work(client: FusionAuthClient) -> None:
        body = successful(client.login(credentials(rp)))
        assert successful(client.validate_jwt(body["token"]))["jwt"]["sub"] == rp.user["id"]
        made = successful(client.create_application({"application": {"name": f"Application {new_id()}"}}))
        other = made["application"]["id"]
        successful(client.register({"registration": {"applicationId": other}}, rp.user["id"]))
        issued = successful(client.issue_jwt(other, body["token"], body["refreshToken"]))
        assert relying_party.claims(issued["token"])["aud"] == other
        vended = successful(client.vend_jwt({"claims": {"a": 1}, "timeToLiveInSeconds": 60}))["token"]
        assert relying_party.claims(vended)["a"] == 1
        assert client.validate_jwt(vended).status == 401
        fresh = successful(client.exchange_refresh_token_for_jwt({"refreshToken": body["refreshToken"]}))
        assert successful(client.validate_jwt(fresh["token"]))["jwt"]["sid"] == body["refreshTokenId"]

    await with_client(service, rp, work)


async def test_the_client_reads_and_revokes_refresh_tokens_in_every_form(service, rp) -> None:
    def work(client: FusionAuthClient) -> None:
        def fresh() -> dict[str, Any]:
            return successful(client.login(credentials(rp)))

        body = fresh()
        found = successful(client.retrieve_refresh_token_by_id(body["refreshTokenId"]))["refreshToken"]
        assert found["token"] == body["refreshToken"]
        forms: list[Callable[[dict[str, Any]], Any]] = [
            lambda one: client.revoke_refresh_token(token=one["refreshToken"]),
            lambda one: client.revoke_refresh_token_by_id(one["refreshTokenId"]),
            lambda one: client.revoke_refresh_token_by_token(one["refreshToken"]),
            lambda _: client.revoke_refresh_tokens_by_application_id(rp.client_id),
            lambda _: client.revoke_refresh_tokens_by_user_id(rp.user["id"]),
            lambda _: client.revoke_refresh_tokens_by_user_id_for_application(rp.user["id"], rp.client_id),
            lambda one: client.revoke_refresh_tokens_with_request({"token": one["refreshToken"]}),
        ]
        for form in forms:
            body = fresh()
            successful(form(body))
            assert client.retrieve_refresh_token_by_id(body["refreshTokenId"]).status == 404

    await with_client(service, rp, work)
