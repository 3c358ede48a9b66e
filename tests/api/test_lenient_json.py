"""Conversion of scalars, ignored members, and suggestions for misspelt ones."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT

Document = dict[str, Any]
IGNORED = "X-Ignored-Members"


async def application(api: httpx.AsyncClient, **members: Any) -> httpx.Response:
    return await api.post("/api/application", json={"application": {"name": f"Application {new_id()}", **members}})


@pytest.mark.requirement("audit-b5-json")
async def test_scalars_are_converted_to_schema_type(api: httpx.AsyncClient) -> None:
    answer = await application(
        api,
        name=20_250_101,
        verifyRegistration=" False ",
        jwtConfiguration={"enabled": "TRUE", "timeToLiveInSeconds": "600", "refreshTokenTimeToLiveInMinutes": 90.0},
        data={"kept": "true", "number": "600"},
        oauthConfiguration={"clientSecret": 12345678901234567890 % 10**18},
    )
    assert answer.status_code == 200, answer.text
    made = answer.json()["application"]
    assert (made["name"], made["verifyRegistration"]) == ("20250101", False)
    assert made["jwtConfiguration"]["enabled"] is True
    assert made["jwtConfiguration"]["timeToLiveInSeconds"] == 600
    assert made["data"] == {"kept": "true", "number": "600"}
    assert made["oauthConfiguration"]["clientSecret"] == "345678901234567890"


@pytest.mark.requirement("audit-b5-json")
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("verifyRegistration", "yes"),
        ("verifyRegistration", 1),
        ("verifyRegistration", ""),
        ("name", True),
        ("name", ["x"]),
        ("jwtConfiguration", {"timeToLiveInSeconds": "600s"}),
        ("jwtConfiguration", {"timeToLiveInSeconds": "6.5"}),
        ("jwtConfiguration", {"timeToLiveInSeconds": "9" * 30}),
        ("jwtConfiguration", {"timeToLiveInSeconds": True}),
        ("jwtConfiguration", {"timeToLiveInSeconds": "\u0663"}),
    ],
)
async def test_inconvertible_values_are_refused(api: httpx.AsyncClient, member: str, value: Any) -> None:
    answer = await application(api, **{member: value})
    assert answer.status_code == 400
    codes = {error["code"] for errors in answer.json()["fieldErrors"].values() for error in errors}
    assert codes == {"[invalidJSON]"}


@pytest.mark.requirement("audit-b5-json")
@pytest.mark.parametrize("roles", [["admin", {"name": "user"}], "admin"])
async def test_role_may_be_given_by_name(api: httpx.AsyncClient, roles: Any) -> None:
    made = (await application(api, roles=roles)).json()["application"]
    assert [role["name"] for role in made["roles"]] == (["admin"] if roles == "admin" else ["admin", "user"])
    added = await api.post(f"/api/application/{made['id']}/role", json={"role": "editor"})
    assert added.json()["role"]["name"] == "editor"
    body = {
        "registration": {"applicationId": made["id"], "roles": "admin"},
        "user": {"email": f"{new_id()}@example.com", "password": 1234567890},
    }
    registered = await api.post("/api/user/registration", json={**body, "skipVerification": "true"})
    assert registered.json()["registration"]["roles"] == ["admin"]


@pytest.mark.requirement("audit-c1-ignored")
@pytest.mark.parametrize(
    ("kind", "body", "ignored"),
    [
        (
            "application/json",
            {"application": {"nmae": 1, "data": {"free": 1}}, "eventinfo": {}},
            "application.nmae, eventinfo",
        ),
        (
            "application/json",
            {"application": {"jwtConfiguration": {"enable\r\nd": True}}},
            "application.jwtConfiguration.enable%0D%0Ad",
        ),
        (
            "application/json-patch+json",
            [{"op": "add", "path": "/application/jwtConfiguration/enable", "value": True}],
            "application.jwtConfiguration.enable",
        ),
        ("application/json", {"application": {"verifyRegistration": False, "id": DEFAULT_TENANT}}, None),
    ],
)
async def test_ignored_members_are_listed(api: httpx.AsyncClient, kind: str, body: Any, ignored: str | None) -> None:
    made = (await application(api)).json()["application"]
    headers = {"Content-Type": kind}
    answer = await api.patch(f"/api/application/{made['id']}", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers.get(IGNORED) == ignored


@pytest.mark.requirement("audit-c1-ignored")
async def test_no_header_without_ignored_members_and_at_most_twenty_names(api: httpx.AsyncClient) -> None:
    answer = await application(api, data={"x": 1}, roles=[{"name": "a", "isDefault": True}])
    assert answer.status_code == 200
    assert IGNORED not in answer.headers
    answer = await application(api, **{f"unknown{number}": 1 for number in range(30)})
    assert answer.status_code == 200
    assert len(answer.headers[IGNORED].split(", ")) == 20
    answer = await application(api, roles=[{"name": "a"}, {"name": "b", "isDefalt": True}])
    assert answer.headers[IGNORED] == "application.roles[1].isDefalt"


@pytest.mark.requirement("audit-c1-ignored")
@pytest.mark.parametrize(
    ("path", "body", "field", "hint"),
    [
        (
            "/api/application",
            {"application": {"nmae": "x"}},
            "application.name",
            "[application.nmae]: did you mean [application.name]?",
        ),
        ("/api/application", {"aplication": {"name": "x"}}, "application", "[aplication]: did you mean [application]?"),
        (
            "/api/webhook",
            {"webhook": {"uri": "https://example.com/"}},
            "webhook.url",
            "[webhook.uri]: did you mean [webhook.url]?",
        ),
        ("/api/group", {"group": {"Name": "x"}}, "group.name", "[group.Name]: did you mean [group.name]?"),
        (
            "/api/user/change-password",
            {"loginid": "x", "password": "password"},
            "loginId",
            "[loginid]: did you mean [loginId]?",
        ),
    ],
)
async def test_misspelt_required_member_is_suggested(
    api: httpx.AsyncClient, path: str, body: Document, field: str, hint: str
) -> None:
    answer = await api.post(path, json=body)
    assert answer.status_code == 400, answer.text
    (error,) = answer.json()["fieldErrors"][field]
    assert error["message"].endswith(f"The request has {hint}")
    assert hint.split("]", maxsplit=1)[0].lstrip("[") in answer.headers[IGNORED]


@pytest.mark.requirement("audit-c1-ignored")
async def test_missing_member_without_similar_name_has_no_suggestion(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/application", json={"application": {"zebra": "x"}})
    (error,) = answer.json()["fieldErrors"]["application.name"]
    assert "did you mean" not in error["message"]


@pytest.mark.requirement("audit-c1-ignored")
async def test_ignored_members_of_imported_users_are_listed(api: httpx.AsyncClient) -> None:
    user = {"email": f"{new_id()}@example.com", "pasword": "password", "tenantId": DEFAULT_TENANT}
    answer = await api.post("/api/user/import", json={"users": [user], "validateDBConstraints": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers[IGNORED] == "users[0].pasword, validateDBConstraints"


@pytest.mark.requirement("audit-c1-ignored")
async def test_many_ignored_members_are_cheap(api: httpx.AsyncClient) -> None:
    body = {"application": {f"nam{number}": 1 for number in range(40_000)}}
    answer = await api.post("/api/application", json=body, timeout=10)
    assert answer.status_code == 400
    assert len(answer.headers[IGNORED].split(", ")) == 20
