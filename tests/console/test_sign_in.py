"""Sign-in to the console: who gets in, for how long, and what ends it."""

from __future__ import annotations

import httpx
import pytest

from identity import app
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.operations.pages import console_sessions
from tests import plain_http
from tests.conftest import DEFAULT_TENANT
from tests.console import administrator
from tests.console.administrator import QUIET, Browser, Page
from tests.console.conftest import SignIn


def is_login_page(answer: httpx.Response) -> bool:
    return answer.url.path == "/oauth2/authorize" and 'type="password"' in answer.text


async def test_administrator_signs_in_and_returns_to_the_page_that_was_opened(browser: Browser, api) -> None:
    user = await administrator.make(api, "admin")
    shown = await browser.sign_in(user["email"], "/admin?x=1")
    assert shown.status_code == 200
    assert (shown.url.path, shown.url.query) == ("/admin", b"x=1")
    assert "Ada Lovelace" in Page(shown).text


async def test_user_without_a_role_gets_no_access(browser: Browser, api) -> None:
    user = await administrator.make(api)
    shown = await browser.sign_in(user["email"])
    assert shown.status_code == 403
    assert "no role" in Page(shown).text
    assert "navigation" not in [tag for tag, _ in Page(shown).tags]


async def test_user_who_is_not_registered_gets_no_access(browser: Browser, api) -> None:
    user = await administrator.make(api, "admin")
    await api.delete(f"/api/user/registration/{user['id']}/{ADMINISTRATOR_APPLICATION_ID}")
    shown = await browser.sign_in(user["email"])
    assert shown.status_code in {200, 403}
    assert "Users" not in Page(shown).text


@pytest.mark.parametrize("change", ["role", "registration", "deactivation"])
@pytest.mark.requirement("console-4")
async def test_revocation_takes_effect_at_the_next_request(browser: Browser, api, change: str) -> None:
    user = await administrator.make(api, "admin")
    assert (await browser.sign_in(user["email"])).status_code == 200
    path = f"/api/user/registration/{user['id']}"
    if change == "role":
        body = {"registration": {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": []}}
        assert (await api.put(path, json=body)).status_code == 200
    elif change == "registration":
        assert (await api.delete(f"{path}/{ADMINISTRATOR_APPLICATION_ID}")).status_code == 200
    else:
        assert (await api.delete(f"/api/user/{user['id']}")).status_code == 200
    answer = await browser.http.get("/admin")
    assert answer.status_code in {302, 403}
    assert "Ada" not in answer.text or answer.status_code == 403


async def test_group_gives_its_members_the_role(browser: Browser, api) -> None:
    application = (await api.get(f"/api/application/{ADMINISTRATOR_APPLICATION_ID}")).json()["application"]
    role = next(role for role in application["roles"] if role["name"] == "auditor")
    user = await administrator.make(api)
    headers = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
    group = {"group": {"name": user["id"]}, "roleIds": [role["id"]]}
    group_id = (await api.post("/api/group", json=group, headers=headers)).json()["group"]["id"]
    members = {"members": {group_id: [{"userId": user["id"]}]}}
    assert (await api.post("/api/group/member", json=members, headers=headers)).status_code == 200
    assert (await browser.sign_in(user["email"])).status_code == 200


@pytest.mark.parametrize(("seconds", "ends"), [(1790, False), (1810, True)])
@pytest.mark.requirement("console-5")
async def test_session_ends_after_idle_time(admin: Browser, clock, seconds: int, ends: bool) -> None:
    clock.advance(seconds=seconds)
    assert ((await admin.http.get(QUIET)).status_code == 302) is ends


@pytest.mark.requirement("console-5")
async def test_session_in_use_ends_after_its_absolute_time(admin: Browser, clock) -> None:
    for _ in range(24):
        clock.advance(seconds=1780)
        assert (await admin.http.get(QUIET)).status_code == 200
    clock.advance(seconds=600)
    assert (await admin.http.get(QUIET)).status_code == 302


async def test_sign_out_ends_the_session_of_the_console_and_of_the_provider(admin: Browser) -> None:
    shown = await admin.open("/admin")
    stolen = dict(admin.http.cookies)
    left = await admin.submit(shown, "/admin/sign-out")
    assert left.status_code == 303
    await admin.follow(left)
    assert is_login_page(await admin.open("/admin"))
    admin.http.cookies.update(stolen)
    assert (await admin.http.get("/admin")).status_code == 302


async def test_end_of_the_sso_session_ends_the_session_of_the_console(admin: Browser) -> None:
    await admin.follow(await admin.http.get("/oauth2/logout"))
    assert is_login_page(await admin.open("/admin"))


async def test_callback_is_accepted_in_the_browser_that_started_the_sign_in_only_and_once(
    browser: Browser, service: app.Service, api
) -> None:
    user = await administrator.make(api, "admin")
    shown = await browser.open("/admin")
    form = next(form for form in Page(shown).forms if "password" in form["fields"])
    data = {**form["fields"], "loginId": user["email"], "password": administrator.PASSWORD}
    location = (await browser.http.post("/oauth2/authorize", data=data)).headers["Location"]
    assert "/admin/callback?" in location
    async with plain_http.client(service.base_url) as other:
        assert (await other.get(location)).status_code == 400
        assert not other.cookies
    assert (await browser.http.get(location)).status_code == 302
    assert (await browser.http.get(location)).status_code == 400


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin", "/admin"),
        ("/admin/users?search=a%40b&page=2", "/admin/users?search=a%40b&page=2"),
        ("/administrators", "/admin"),
        ("//evil.example.com", "/admin"),
        ("/admin//evil.example.com", "/admin"),
        ("/admin/\\evil.example.com", "/admin"),
        ("/admin\r\nSet-Cookie: a=b", "/admin"),
        ("https://evil.example.com/admin", "/admin"),
        ("/admin/" + "a" * 2000, "/admin"),
    ],
)
def test_sign_in_returns_to_pages_of_the_console_only(path: str, expected: str) -> None:
    assert console_sessions.safe_target(path) == expected


@pytest.mark.parametrize("token", ["", "wrong"])
@pytest.mark.requirement("console-6")
async def test_form_without_its_token_changes_nothing(admin: Browser, token: str) -> None:
    assert (await admin.http.post("/admin/sign-out", data={"csrf_token": token})).status_code == 403
    assert (await admin.http.get(QUIET)).status_code == 200


@pytest.mark.requirement("console-6")
async def test_form_of_another_origin_changes_nothing(admin: Browser) -> None:
    token = await admin.csrf_token()
    for headers in ({"Origin": "https://evil.example.com"}, {"Sec-Fetch-Site": "same-site"}):
        answer = await admin.http.post("/admin/sign-out", data={"csrf_token": token}, headers=headers)
        assert answer.status_code == 403
    assert (await admin.http.get(QUIET)).status_code == 200


async def test_token_of_another_session_is_refused(admin: Browser, as_role: SignIn) -> None:
    other = await as_role("admin")
    token = await other.csrf_token()
    assert (await admin.http.post("/admin/sign-out", data={"csrf_token": token})).status_code == 403


@pytest.mark.requirement("oauth-12-23")
async def test_page_cannot_be_framed_and_runs_its_own_script_only(admin: Browser) -> None:
    answer = await admin.open("/admin")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-store"
    shown = Page(answer)
    assert not [
        tag for tag, attributes in shown.tags if "style" in attributes or any(n.startswith("on") for n in attributes)
    ]
    for tag, attributes in shown.tags:
        for name in ("src", "href"):
            assert not (attributes.get(name) or "").startswith(("http", "//")), tag


async def test_static_files_are_served_to_anybody_under_the_name_of_their_content(
    http: httpx.AsyncClient, admin
) -> None:
    tags = Page(await admin.open("/admin")).tags
    script = next(attributes["src"] for tag, attributes in tags if tag == "script")
    answer = await http.get(str(script))
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert "immutable" in answer.headers["Cache-Control"]
    for name in ("console.js", "../render.py", "%2e%2e/render.py"):
        assert (await http.get(f"/admin/static/{name}")).status_code == 404


async def test_session_cookie_is_out_of_reach_of_scripts(browser: Browser, api) -> None:
    user = await administrator.make(api, "admin")
    await browser.sign_in(user["email"])
    cookie = next(cookie for cookie in browser.http.cookies.jar if cookie.name == "fusionauth.console")
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Lax"
