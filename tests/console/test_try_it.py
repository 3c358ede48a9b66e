"""The page that tries an application: a real login, with every message, for the administrator who started it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.console.conftest import SignIn

HEADERS = {"X-FusionAuth-TenantId": DEFAULT_TENANT}


async def application(api: httpx.AsyncClient, **oauth: Any) -> str:
    body = {"application": {"name": new_id(), "oauthConfiguration": oauth}}
    return str((await api.post("/api/application", json=body, headers=HEADERS)).json()["application"]["id"])


@pytest.mark.requirement("console-13")
async def test_login_is_performed_and_every_message_shown(as_role: SignIn, api: httpx.AsyncClient) -> None:
    browser = await as_role("developer")
    path = f"/admin/applications/{await application(api)}/try"
    started = await browser.submit(await browser.open(path), path, scope="openid email")
    shown = await browser.follow(started)
    text = Page(shown).text
    assert shown.url.path == path
    for expected in ("code_challenge_method=S256", "4. Token response", "Claims of the id_token", "5. Userinfo"):
        assert expected in text
    assert '"token_type": "Bearer"' in text
    again = await browser.http.get(shown.url)
    assert "was completed already" in Page(again).text


async def test_code_of_another_browser_is_not_exchanged(as_role: SignIn, api: httpx.AsyncClient) -> None:
    one, other = await as_role("admin"), await as_role("admin")
    path = f"/admin/applications/{await application(api)}/try"
    answer = await one.submit(await one.open(path), path)
    while not answer.headers["Location"].partition("?")[0].endswith(path):
        answer = await one.http.get(answer.headers["Location"])
    stolen = await other.http.get(answer.headers["Location"])
    assert "was started elsewhere" in Page(stolen).text
    assert "access_token" not in stolen.text
    assert "Token response" in Page(await one.http.get(answer.headers["Location"])).text


async def test_refusal_is_explained(as_role: SignIn, api: httpx.AsyncClient) -> None:
    browser = await as_role("admin")
    path = f"/admin/applications/{await application(api, requirePushedAuthorizationRequests=True)}/try"
    shown = await browser.submit(await browser.open(path), path)
    assert "requirePushedAuthorizationRequests" in Page(shown).text


@pytest.mark.parametrize("role", ["auditor", "user-manager"])
async def test_roles_that_may_not_change_applications_cannot_try_them(
    roles: dict[str, Browser], api: httpx.AsyncClient, role: str
) -> None:
    path = f"/admin/applications/{await application(api)}/try"
    shown = await roles[role].open(path)
    assert path not in [form["action"] for form in Page(shown).forms]
    token = Page(shown).form("/admin/sign-out")["fields"]["csrf_token"]
    assert (await roles[role].http.post(path, data={"csrf_token": token})).status_code == 403
