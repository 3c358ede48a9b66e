"""Import and export of users on the console, failed logins, and the removal of second factors."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import plain_http
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.console.test_actions import press
from tests.receiver import until

HEADERS = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
PATH = "/admin/users/import"


async def upload(browser: Browser, text: str, **fields: str) -> httpx.Response:
    shown = await browser.open(PATH)
    given = {**Page(shown).form("")["fields"], "console.tenantId": DEFAULT_TENANT, **fields}
    given.pop("file", None)
    return await browser.http.post(PATH, data=given, files={"file": ("users.csv", text.encode("utf-8-sig"))})


async def found(api: httpx.AsyncClient, query: str) -> list[dict[str, Any]]:
    answer = await api.get("/api/user/search", params={"queryString": query, "numberOfResults": 500})
    return list(answer.json()["users"])


@pytest.mark.requirement("console-16")
async def test_valid_users_are_imported_and_the_others_listed_with_their_lines(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    mark = new_id()[:8]
    made = (await api.post("/api/application", json={"application": {"name": new_id()}}, headers=HEADERS)).json()
    application_id = made["application"]["id"]
    lines = [f"{mark}-{number:03},User {number},{number}" for number in range(300)]
    lines[7] = f"{mark}-007,<b>x</b>,{'9' * 20_000}"
    lines[9] = f"{mark}-003,again,9"
    lines[260] = ",unknown,1"
    text = "\n".join(["username,fullName,data.number", *lines])
    answer = await upload(roles["user-manager"], text, applicationId=application_id)
    assert answer.status_code == 200
    shown = " ".join(Page(answer).text.split())
    assert "250 of 300 users" in shown
    assert "300 of 300 users" in shown
    assert "Line 11" in shown
    assert "Line 262" in shown
    users = await found(api, f"{mark}*")
    assert f"{len(users)} imported, {300 - len(users)} not" in shown
    assert 297 <= len(users) <= 298
    one = next(user for user in users if user["username"] == f"{mark}-001")
    assert one["active"] is True
    assert one["data"] == {"number": "1"}
    assert [registration["applicationId"] for registration in one["registrations"]] == [application_id]


@pytest.mark.parametrize(
    ("text", "expected"), [("", "no user"), ("shoeSize\n44", "no shoeSize"), ("[{}", "not a JSON list")]
)
async def test_unreadable_file_changes_nothing(roles: dict[str, Browser], text: str, expected: str) -> None:
    answer = await upload(roles["admin"], text)
    assert answer.status_code == 400
    assert expected in Page(answer).text


@pytest.mark.requirement("console-16")
async def test_large_file_is_accepted_from_those_who_may_import_only(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    mark = new_id()[:8]
    users = [{"username": f"{mark}-{number:02}", "data": {"x": "y" * 100_000}} for number in range(30)]
    answer = await upload(roles["user-manager"], json.dumps(users))
    assert answer.status_code == 200
    assert "30 imported, 0 not" in " ".join(Page(answer).text.split())
    assert len(await found(api, f"{mark}*")) == 30
    deep = [{"username": f"{mark}-deep", "data": json.loads('{"a":' * 300 + "1" + "}" * 300)}]
    assert "nested too deeply" in Page(await upload(roles["admin"], json.dumps(deep))).text
    file = {"file": ("users.csv", "username\n" + f"{mark}-other,\n" * 200_000)}
    token = await roles["auditor"].csrf_token()
    assert (await roles["auditor"].http.post(PATH, data={"csrf_token": token}, files=file)).status_code == 413
    async with plain_http.client(roles["admin"].http.base_url) as anonymous:
        assert (await anonymous.post(PATH, files=file)).status_code == 413
    assert await found(api, f"{mark}-other") == []


async def test_import_needs_a_token_and_a_permission(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    name = new_id()
    file = {"file": ("users.csv", f"username\n{name}")}
    assert (await roles["admin"].http.post(PATH, data={"csrf_token": "x"}, files=file)).status_code == 403
    assert (await roles["admin"].http.post(PATH, data={}, files=file)).status_code == 403
    shown = await roles["auditor"].open("/admin/users")
    assert PATH not in Page(shown).links
    token = Page(shown).form("/admin/sign-out")["fields"]["csrf_token"]
    assert (await roles["auditor"].http.post(PATH, data={"csrf_token": token}, files=file)).status_code == 403
    malformed = {"Content-Type": "multipart/form-data; boundary=x"}
    assert (await roles["admin"].http.post(PATH, content=b"--x\r\n", headers=malformed)).status_code == 403
    assert (await roles["admin"].http.post("/admin/users/new", files=file)).status_code == 400
    assert await found(api, name) == []


@pytest.mark.requirement("console-17")
async def test_export_contains_every_user_that_the_list_finds(
    roles: dict[str, Browser], api: httpx.AsyncClient
) -> None:
    mark = new_id()[:8]
    users = [{"username": f"{mark}-{number:03}", "fullName": "=1+1"} for number in range(501)]
    answer = await api.post("/api/user/import", json={"users": users}, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    shown = Page(await roles["auditor"].open(f"/admin/users?q={mark}*"))
    links = {link.partition("?")[0].rpartition(".")[2]: link for link in shown.links if "/export." in link}
    exported = await roles["auditor"].http.get(links["csv"])
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    assert sorted(row["username"] for row in rows) == sorted(user["username"] for user in users)
    assert {row["fullName"] for row in rows} == {"'=1+1"}
    assert "attachment" in exported.headers["Content-Disposition"]
    as_json = json.loads((await roles["auditor"].http.get(links["json"])).content)
    assert len(as_json["users"]) == 501
    assert json.loads((await roles["auditor"].http.get(f"/admin/users/export.json?q={new_id()}")).content) == {
        "users": []
    }
    assert (await roles["developer"].open("/admin/users/export.csv")).status_code == 403


async def test_failed_login_is_shown_with_reason_and_address(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    user = {"username": new_id(), "password": "a long password"}
    user_id = (await api.post("/api/user", json={"user": user}, headers=HEADERS)).json()["user"]["id"]
    body = {"loginId": user["username"], "password": "wrong"}
    assert (await api.post("/api/login", json=body, headers=HEADERS)).status_code == 404

    async def is_recorded() -> bool:
        return bool((await api.get(f"/api/user/failed-login/{user_id}")).json()["failedLogins"])

    await until(is_recorded)
    failed = (await api.get(f"/api/user/failed-login/{user_id}")).json()["failedLogins"]
    assert [(row["reason"], row["authenticationType"], row["ipAddress"]) for row in failed] == [
        ("credentials", "PASSWORD", "127.0.0.1")
    ]
    assert "credentials" in Page(await roles["auditor"].open(f"/admin/users/{user_id}/tab/logins")).text
    assert "wrong" not in json.dumps(failed)
    assert (await api.delete(f"/api/user/{user_id}", params={"hardDelete": "true"})).status_code == 200
    assert (await api.get(f"/api/user/failed-login/{user_id}")).status_code == 404


async def test_second_factors_of_a_user_are_removed(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    methods = [{"method": "email", "email": f"{name}@example.com"} for name in ("one", "two", "three")]
    user = {"username": new_id(), "password": "a long password", "twoFactor": {"methods": methods}}
    made = await api.post("/api/user", json={"user": user}, headers=HEADERS)
    assert made.status_code == 200, made.text
    user_id = made.json()["user"]["id"]
    tab = f"/admin/users/{user_id}/tab/second-factors"

    async def left() -> list[str]:
        stored = (await api.get(f"/api/user/{user_id}")).json()["user"]["twoFactor"]["methods"]
        return [method["email"].partition("@")[0] for method in stored]

    links = [link for link in Page(await roles["user-manager"].open(tab)).links if "/do/remove-method?" in link]
    assert (await press(roles["user-manager"], links[1])).status_code == 303
    assert await left() == ["one", "three"]
    assert (await press(roles["user-manager"], links[2])).status_code == 400
    assert (await press(roles["user-manager"], f"/admin/users/{user_id}/do/remove-methods")).status_code == 303
    assert await left() == []


@pytest.mark.requirement("personal-3")
async def test_data_of_a_user_are_downloaded_by_permission(roles: dict[str, Browser], api: httpx.AsyncClient) -> None:
    user = {"email": f"{new_id()}@example.com", "password": "a long password"}
    user_id = (await api.post("/api/user", json={"user": user}, headers=HEADERS)).json()["user"]["id"]
    screen = f"/admin/users/{user_id}"
    assert f'href="{screen}/data.json"' in (await roles["user-manager"].open(screen)).text
    file = await roles["user-manager"].http.get(f"{screen}/data.json")
    assert file.headers["Content-Disposition"] == f'attachment; filename="user-{user_id}.json"'
    assert file.json()["user"]["email"] == user["email"]
    assert (await roles["developer"].http.get(f"{screen}/data.json")).status_code == 403
    assert (await roles["user-manager"].http.get(f"/admin/users/{new_id()}/data.json")).status_code == 404
