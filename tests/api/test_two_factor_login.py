"""Logging in with a second factor over HTTP: challenged, sent a code, completed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests import relying_party, two_factor
from tests.conftest import SUPER_KEY, checking_client
from tests.relying_party import PASSWORD, RelyingParty

Document = dict[str, Any]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    await change(found, loginConfiguration={"generateRefreshTokens": True, "requireAuthentication": False})
    await add_methods(found, two_factor.authenticator())
    return found


@pytest.fixture
async def key(service, rp: RelyingParty) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with an API key and the relying party's tenant."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


async def change(rp: RelyingParty, **members: Any) -> None:
    await rp.patch(f"/api/application/{rp.client_id}", {"application": members})


async def add_methods(rp: RelyingParty, *methods: Document, codes: tuple[str, ...] = ()) -> None:
    body = {"user": {"twoFactor": {"methods": list(methods), "recoveryCodes": list(codes)}}}
    await rp.patch(f"/api/user/{rp.user['id']}", body)


async def log_in(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> httpx.Response:
    body = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id, **members}
    return await client.post("/api/login", json={name: value for name, value in body.items() if value is not None})


async def challenged(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    answer = await log_in(client, rp, **members)
    assert answer.status_code == 242, answer.text
    return answer.json()


async def complete(client: httpx.AsyncClient, two_factor_id: str, code: str, **members: Any) -> httpx.Response:
    return await client.post("/api/two-factor/login", json={"twoFactorId": two_factor_id, "code": code, **members})


async def test_a_code_of_the_authenticator_completes_the_login(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    assert waiting.keys() == {"twoFactorId", "methods"}
    assert [method["method"] for method in waiting["methods"]] == ["authenticator"]
    answer = await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["user"]["id"] == rp.user["id"]
    assert body.keys() >= {"token", "refreshToken", "trustToken"}
    claims = relying_party.claims(body["token"])
    assert (claims["sub"], claims["aud"], claims["authenticationType"]) == (rp.user["id"], rp.client_id, "PASSWORD")
    assert {cookie.name for cookie in answer.cookies.jar} == {"access_token", "refresh_token"}
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now(), steps=1))).status_code == 404


async def test_a_wrong_code_is_421_and_an_unknown_challenge_404(http, rp, clock) -> None:
    waiting = await challenged(http, rp)
    wrong = await complete(http, waiting["twoFactorId"], two_factor.wrong_code(clock.now()))
    assert (wrong.status_code, wrong.content) == (421, b"")
    assert (await complete(http, "no-such-challenge", two_factor.code(clock.now()))).status_code == 404
    assert (await complete(http, waiting["twoFactorId"], two_factor.code(clock.now()))).status_code == 200
