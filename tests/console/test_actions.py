"""Tabs and actions of objects: what a button says, the call that it makes, and who may press it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from identity.web.console import layouts
from identity.web.console.actions import filled
from tests import plain_http
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, UNKNOWN_ID
from tests.console import administrator
from tests.console.administrator import Browser, Page
from tests.openapi import served

HEADERS = {"X-FusionAuth-TenantId": DEFAULT_TENANT}


def calls() -> Iterator[tuple[str, str]]:
    """Every call that a layout declares, with its method."""
    for slug in layouts.slugs():
        layout = layouts.load(slug)
        yield from ((action.method, action.path) for action in layout.actions)
        yield from (("GET", panel.path) for tab in layout.tabs for panel in tab.panels)
        yield "GET", layout.search_path
        yield from (("GET", count.path) for count in layout.removes)


@pytest.mark.parametrize(("method", "path"), sorted(set(calls())))
def test_layouts_call_what_the_api_has(method: str, path: str) -> None:
    pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
    assert any(
        pattern.fullmatch(re.sub(r"\{\w+\}", "x", known)) and method.lower() in operations
        for known, operations in served()["paths"].items()
    )


@pytest.mark.parametrize("slug", layouts.slugs())
def test_tabs_name_actions_that_exist(slug: str) -> None:
    layout = layouts.load(slug)
    for tab in layout.tabs:
        for panel in tab.panels:
            for name in (*panel.rows, *panel.above):
                assert layout.action(name) is not None, name
    for action in layout.actions:
        assert not action.in_tab or layout.tab(action.in_tab) is not None


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{number}", 5),
        ("a {text} {number}", "a {number} 5"),
        ({"{text}": ["{number}", "{missing}"], "gone": "{none}"}, {"{number}": [5, None]}),
    ],
)
def test_values_are_never_templates(template: Any, expected: Any) -> None:
    assert filled(template, {"number": 5, "text": "{number}", "none": None}) == expected


@pytest.fixture
async def user(api: httpx.AsyncClient) -> dict[str, Any]:
    """A user of the default tenant who has no role."""
    body = {"email": f"{new_id()}@example.com", "password": "a long password", "firstName": "Grace"}
    answer = await api.post("/api/user", json={"user": body}, headers=HEADERS)
    return dict(answer.json()["user"])


async def press(browser: Browser, path: str, **inputs: Any) -> httpx.Response:
    """Open the page of an action and press its button."""
    shown = await browser.open(path)
    assert shown.status_code == 200, Page(shown).text
    form = next(form for form in Page(shown).forms if form["action"] == "")
    given = {**form["fields"], **{f"input.{name}": value for name, value in inputs.items()}}
    return await browser.http.post(path, data={name: value for name, value in given.items() if value != ""})


@pytest.mark.parametrize("tab", [tab.name for tab in layouts.load("users").tabs])
async def test_every_tab_of_a_user_is_shown(roles: dict[str, Browser], user: dict[str, Any], tab: str) -> None:
    for role in ("admin", "auditor", "user-manager", "tenant-admin"):
        answer = await roles[role].open(f"/admin/users/{user['id']}/tab/{tab}")
        assert answer.status_code == 200, role
        assert "cannot be shown" not in answer.text
        assert len(answer.content) < 60_000
        if role == "auditor":
            assert not [link for link in Page(answer).links if "/do/" in link]


async def test_user_is_managed_from_the_page(
    roles: dict[str, Browser], api: httpx.AsyncClient, user: dict[str, Any]
) -> None:
    browser, screen, path = roles["user-manager"], f"/admin/users/{user['id']}", f"/api/user/{user['id']}"

    async def stored() -> dict[str, Any]:
        return dict((await api.get(path)).json()["user"])

    assert (await press(browser, f"{screen}/do/require-password")).status_code == 303
    assert (await stored())["passwordChangeRequired"] is True
    weak = await press(browser, f"{screen}/do/set-password", password="x")
    assert weak.status_code == 400
    assert "[tooShort]" in weak.text
    assert 'value="x"' not in weak.text
    assert (await press(browser, f"{screen}/do/set-password", password="another long password")).status_code == 303
    login = {"loginId": user["email"], "password": "another long password"}
    assert (await api.post("/api/login", json=login, headers=HEADERS)).status_code in {200, 202, 203}
    assert (await press(browser, f"{screen}/do/deactivate")).status_code == 303
    assert (await stored())["active"] is False
    shown = Page(await browser.open(screen))
    assert f"{screen}/do/reactivate" in shown.links
    assert f"{screen}/do/deactivate" not in shown.links
    assert (await press(browser, f"{screen}/do/reactivate")).status_code == 303
    assert (await stored())["active"] is True
    note = f"Noted {new_id()}"
    done = await press(browser, f"{screen}/do/comment", note=note)
    assert done.headers["Location"] == f"{screen}/tab/actions?done=done"
    assert note in Page(await browser.follow(done)).text


async def test_registrations_and_groups_are_managed_from_the_page(
    roles: dict[str, Browser], api: httpx.AsyncClient, user: dict[str, Any]
) -> None:
    browser, screen = roles["admin"], f"/admin/users/{user['id']}"
    application = {"application": {"name": new_id(), "roles": [{"name": "one"}, {"name": "two"}]}}
    application_id = (await api.post("/api/application", json=application, headers=HEADERS)).json()["application"]["id"]
    group_id = (await api.post("/api/group", json={"group": {"name": new_id()}}, headers=HEADERS)).json()["group"]["id"]
    registered = {"registration": {"applicationId": application_id}}
    assert (await api.post(f"/api/user/registration/{user['id']}", json=registered)).status_code == 200
    shown = await browser.open(f"{screen}/tab/registrations")
    assert application["application"]["name"] in Page(shown).text
    registration = f"/api/user/registration/{user['id']}/{application_id}"
    remove = next(link for link in Page(shown).links if "/do/unregister" in link)
    assert (await press(browser, remove)).status_code == 303
    assert (await api.get(registration)).status_code == 404
    assert (await press(browser, f"{screen}/do/join", groupId=group_id)).status_code == 303
    shown = await browser.open(f"{screen}/tab/groups")
    leave = next(link for link in Page(shown).links if "/do/leave" in link)
    assert group_id in leave
    assert (await press(browser, leave)).status_code == 303
    assert group_id not in (await browser.open(f"{screen}/tab/groups")).text.partition("<main")[2]


async def test_sessions_are_listed_and_revoked(
    roles: dict[str, Browser], as_role: Any, every_tenant: httpx.AsyncClient
) -> None:
    other = await as_role("auditor")
    home = Page(await other.open("/admin"))
    user_id = next(link for link in home.links if re.fullmatch(r"/admin/users/[0-9a-f-]{36}", link)).rpartition("/")[2]
    screen = f"/admin/users/{user_id}"
    shown = Page(await roles["admin"].open(f"{screen}/tab/sessions"))
    revoke = [link for link in shown.links if "/do/revoke" in link]
    assert len(revoke) == 1
    assert (await press(roles["admin"], revoke[0])).status_code == 303
    assert (await other.http.get("/admin")).status_code == 302


async def test_role_cannot_act_on_an_administrator_with_more_permissions(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    victim = await administrator.make(api, "admin")
    screen = f"/admin/users/{victim['id']}"
    for role in ("user-manager", "tenant-admin"):
        for action, inputs in (("set-password", {"password": "another long password"}), ("deactivate", {})):
            refused = await press(roles[role], f"{screen}/do/{action}", **inputs)
            assert refused.status_code == 400
            assert "not permit" in refused.text
        shown = await roles[role].open(f"{screen}/registration?applicationId={ADMINISTRATOR_APPLICATION_ID}")
        refused = await roles[role].submit(shown, "", **{"registration.roles": ["auditor"]})
        assert refused.status_code == 400
        assert "not permit" in refused.text
    assert (await api.get(f"/api/user/{victim['id']}")).json()["user"]["active"] is True


@pytest.mark.parametrize("action", [action.name for action in layouts.load("users").actions if not action.page])
async def test_action_page_is_shown_with_its_call_and_refused_without_a_token(
    roles: dict[str, Browser], user: dict[str, Any], action: str
) -> None:
    declared = layouts.load("users").action(action)
    assert declared is not None
    path = f"/admin/users/{user['id']}/do/{action}?{'&'.join(f'{name}={new_id()}' for name in declared.keys)}"
    shown = await roles["admin"].open(path)
    assert shown.status_code == 200
    assert "curl -X" in shown.text
    assert (await roles["admin"].http.post(path, data={})).status_code == 403
    token = await roles["auditor"].csrf_token()
    refused = await roles["auditor"].http.post(path, data={"csrf_token": token})
    assert refused.status_code == 400
    assert "not permit" in refused.text


async def test_client_secret_is_rotated_and_shown_once(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    body = {"application": {"name": new_id()}}
    made = (await api.post("/api/application", json=body, headers=HEADERS)).json()["application"]
    shown = await press(roles["developer"], f"/admin/applications/{made['id']}/do/rotate-secret")
    stored = (await api.get(f"/api/application/{made['id']}")).json()["application"]["oauthConfiguration"]
    assert stored["clientSecret"] != made["oauthConfiguration"]["clientSecret"]
    assert stored["clientSecret"] in shown.text


async def test_webhook_is_tested_paused_and_resumed(roles: dict[str, Browser], every_tenant: httpx.AsyncClient) -> None:
    webhook = {"url": "http://127.0.0.1:1/", "connectTimeout": 100, "readTimeout": 100}
    webhook["url"] = "https://hooks.invalid/"
    made = (await every_tenant.post("/api/webhook", json={"webhook": webhook})).json()["webhook"]
    screen, browser = f"/admin/webhooks/{made['id']}", roles["developer"]
    assert (await press(browser, f"{screen}/do/pause")).status_code == 303
    assert (await every_tenant.get(f"/api/webhook/{made['id']}")).json()["webhook"]["status"] == "Paused"
    assert f"{screen}/do/resume" in Page(await browser.open(screen)).links
    assert (await press(browser, f"{screen}/do/resume")).status_code == 303
    rotated = await press(browser, f"{screen}/do/secret", overlap="60")
    assert rotated.status_code == 200
    assert (await browser.open(f"{screen}/tab/dead-letters")).status_code == 200


async def test_application_page_has_examples_that_name_the_client(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    name = "https://app.example.com/call'back"
    oauth = {"authorizedRedirectURLs": [name], "clientAuthenticationPolicy": "Required"}
    body = {"application": {"name": new_id(), "oauthConfiguration": oauth}}
    made = (await api.post("/api/application", json=body, headers=HEADERS)).json()["application"]
    answer = await roles["auditor"].open(f"/admin/applications/{made['id']}/connect")
    text = Page(answer).text
    assert answer.status_code == 200
    for language in ("curl", "Python", "Node.js", "Go", "Java", "Spring", "Next.js"):
        assert language in text
    assert text.count(made["id"]) >= 7
    assert made["oauthConfiguration"]["clientSecret"] not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/user", "Yes"),
        ("GET", f"/api/user/{UNKNOWN_ID}", "Yes"),
        ("DELETE", "/api/user", "is not selected"),
        ("GET", "/api/user/search?queryString=x", "is not selected"),
        ("GET", "/api/webhook", "one"),
        ("POST", "/api/api-key", "key manager"),
        ("PUT", "/api/report/login", "no method"),
        ("GET", "/nothing", "no such path"),
    ],
)
async def test_check_says_whether_a_key_would_be_allowed(
    roles: dict[str, Browser], service: Any, method: str, path: str, expected: str
) -> None:
    key = {"permissions": {"endpoints": {"/api/user": ["GET"]}}, "tenantId": DEFAULT_TENANT}
    async with plain_http.client(service.base_url) as http:
        headers = {"Authorization": MANAGER_KEY}
        made = (await http.post("/api/api-key", json={"apiKey": key}, headers=headers)).json()["apiKey"]
    answer = await roles["admin"].http.get(
        f"/admin/api-keys/{made['id']}/check", params={"method": method, "path": path}
    )
    assert answer.status_code == 200
    assert expected in Page(answer).text


async def test_families_of_a_user_are_managed(
    roles: dict[str, Browser], api: httpx.AsyncClient, every_tenant: httpx.AsyncClient
) -> None:
    tenant = {"name": new_id(), "familyConfiguration": {"enabled": True, "allowChildRegistrations": False}}
    tenant_id = (await every_tenant.post("/api/tenant", json={"tenant": tenant})).json()["tenant"]["id"]
    headers = {"X-FusionAuth-TenantId": tenant_id}
    users = []
    for _ in range(2):
        body = {"user": {"username": new_id(), "password": "a long password", "birthDate": "1980-01-01"}}
        users.append((await every_tenant.post("/api/user", json=body, headers=headers)).json()["user"]["id"])
    screen, browser = f"/admin/users/{users[0]}", roles["user-manager"]
    assert (await press(browser, f"{screen}/do/create-family")).status_code == 303
    links = Page(await browser.open(f"{screen}/tab/families")).links
    add = next(link for link in links if "/do/add-to-family" in link)
    added = await press(browser, add, memberId=users[1], role="Adult")
    assert added.status_code == 303, Page(added).text
    shown = Page(await browser.open(f"{screen}/tab/families"))
    assert f"/admin/users/{users[1]}" in shown.links
    remove = next(link for link in shown.links if "/do/remove-from-family" in link and users[1] in link)
    assert (await press(browser, remove)).status_code == 303
    assert f"/admin/users/{users[1]}" not in Page(await browser.open(f"{screen}/tab/families")).links


async def test_roles_and_scopes_of_an_application_are_added_and_removed(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    made = (await api.post("/api/application", json={"application": {"name": new_id()}}, headers=HEADERS)).json()
    screen, browser = f"/admin/applications/{made['application']['id']}", roles["developer"]
    for action, inputs in (("add-role", {"roleName": "editor"}), ("add-scope", {"scopeName": "orders"})):
        done = await press(browser, f"{screen}/do/{action}", **inputs)
        assert done.status_code == 303, Page(done).text
    shown = Page(await browser.open(f"{screen}/tab/roles"))
    assert "editor" in shown.text
    for link in [link for link in shown.links if "/do/remove-" in link]:
        assert (await press(browser, link)).status_code == 303
    stored = (await api.get(f"/api/application/{made['application']['id']}")).json()["application"]
    assert (stored["roles"], stored["scopes"]) == ([], [])
