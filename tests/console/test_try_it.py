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


async def send(browser: Browser, path: str, grant_type: str, **fields: str) -> str:
    """Submit the form of a grant; the text of the answer."""
    shown = await browser.open(path)
    token = Page(shown).form("/admin/sign-out")["fields"]["csrf_token"]
    action = path if "/entities/" in path else f"{path}/grant"
    answer = await browser.http.post(action, data={"csrf_token": token, "grant_type": grant_type, **fields})
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.requirement("console-13")
async def test_password_and_refresh_grants_are_performed_without_showing_secrets(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    client_id = await application(
        api,
        enabledGrants=["password", "refresh_token"],
        generateRefreshTokens=True,
        clientAuthenticationPolicy="Required",
    )
    secret = (await api.get(f"/api/application/{client_id}")).json()["application"]["oauthConfiguration"][
        "clientSecret"
    ]
    user = {"username": new_id(), "password": "a long password"}
    assert (await api.post("/api/user", json={"user": user}, headers=HEADERS)).status_code == 200
    path, browser = f"/admin/applications/{client_id}/try", roles["developer"]
    login = {"loginId": user["username"], "password": user["password"], "scope": "openid offline_access"}
    text = await send(browser, path, "password", **login)
    assert "status 200" in text
    assert "Claims of the id_token" in text
    assert "client_secret=…" in text
    assert secret not in text
    assert user["password"] not in text
    wrong = await send(browser, path, "password", **{**login, "password": "wrong"})
    assert "invalid_user_credentials" in wrong
    forms = [
        form["fields"]
        for form in Page(httpx.Response(200, text=text)).forms
        if form["fields"].get("grant_type") == "refresh_token" and form["fields"]["refresh_token"]
    ]
    refreshed = await send(browser, path, "refresh_token", refresh_token=forms[0]["refresh_token"])
    assert "status 200" in refreshed
    assert forms[0]["refresh_token"] not in refreshed.partition("<form")[0]


async def test_device_grant_is_performed_until_the_user_has_to_approve(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    oauth = {"enabledGrants": [grant], "deviceVerificationURL": "https://example.com/device"}
    path = f"/admin/applications/{await application(api, **oauth)}/try"
    text = await send(roles["admin"], path, f"{grant}#start", scope="openid")
    assert "https://example.com/device?user_code=" in text
    form = next(
        form["fields"] for form in Page(httpx.Response(200, text=text)).forms if form["fields"].get("device_code")
    )
    pending = await send(roles["admin"], path, grant, device_code=form["device_code"])
    assert "authorization_pending" in pending
    assert form["device_code"] in pending


async def test_disabled_grant_shows_how_it_is_refused_and_unknown_ones_are_not_sent(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    path = f"/admin/applications/{await application(api, enabledGrants=['authorization_code'])}/try"
    assert "not enabled" in Page(await roles["admin"].open(path)).text
    assert "grant_type_disabled" in await send(roles["admin"], path, "password", loginId="x", password="y")
    token = Page(await roles["admin"].open(path)).form("/admin/sign-out")["fields"]["csrf_token"]
    unknown = await roles["admin"].http.post(f"{path}/grant", data={"csrf_token": token, "grant_type": "other"})
    assert unknown.status_code == 400
    token = Page(await roles["auditor"].open(path)).form("/admin/sign-out")["fields"]["csrf_token"]
    refused = await roles["auditor"].http.post(f"{path}/grant", data={"csrf_token": token, "grant_type": "password"})
    assert refused.status_code == 403


async def test_entity_receives_a_token_for_its_client_credentials(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    kind = (await api.post("/api/entity/type", json={"entityType": {"name": new_id()}})).json()["entityType"]
    body = {"entity": {"name": new_id(), "type": {"id": kind["id"]}}}
    entity = (await api.post("/api/entity", json=body, headers=HEADERS)).json()["entity"]
    text = await send(roles["developer"], f"/admin/entities/{entity['id']}/try", "client_credentials")
    assert "status 200" in text
    assert "Claims of the access_token" in text
    assert entity["clientSecret"] not in text
