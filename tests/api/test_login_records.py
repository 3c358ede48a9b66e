"""Login records: their creation, /api/user/recent-login, /api/system/login-record/search and export."""

from __future__ import annotations

import csv
import io
import uuid
import zipfile
from typing import Any

import httpx
import pytest
from pymongo.errors import AutoReconnect

from identity.ids import new_id
from identity.instants import later
from identity.operations import retention
from identity.operations.configuration import applications, tenants
from tests import internals, relying_party
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client
from tests.operations.test_deletions import call_of
from tests.relying_party import PASSWORD, RelyingParty

Document = dict[str, Any]

RECENT = "/api/user/recent-login"
SEARCH = "/api/system/login-record/search"
EXPORT = "/api/system/login-record/export"


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    return await relying_party.make_for_every_login(api)


async def recent(key: httpx.AsyncClient, **query: Any) -> list[Document]:
    answer = await key.get(RECENT, params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["logins"])


async def log_in(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    answer = await rp.log_in_by_api(client, **members)
    assert answer.status_code in {200, 202}, answer.text
    return dict(answer.json())


def codes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [entry["code"] for found in answer.json()["fieldErrors"].values() for entry in found]


@pytest.mark.requirement("users-10-12")
async def test_record_has_user_instant_location_and_method(key, rp, clock) -> None:
    before = clock.now()
    await log_in(key, rp, ipAddress="203.0.113.7")
    record = (await recent(key, userId=rp.user["id"]))[0]
    assert before <= record.pop("instant") <= clock.now()
    assert record == {
        "applicationId": rp.client_id,
        "applicationName": rp.application["name"],
        "ipAddress": "203.0.113.7",
        "loginId": rp.login_id,
        "loginIdType": "email",
        "userId": rp.user["id"],
    }


@pytest.mark.requirement("users-10-12")
async def test_record_has_used_login_id(key, rp) -> None:
    name = f"name-{new_id()}"
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, username=name)
    await log_in(key, rp, loginId=name.upper())
    record = (await recent(key, userId=user["id"]))[0]
    assert (record["loginId"], record["loginIdType"]) == (name, "username")


@pytest.mark.requirement("users-10-12")
async def test_record_of_login_without_application_has_none(key, rp) -> None:
    await log_in(key, rp, applicationId=None)
    assert "applicationId" not in (await recent(key, userId=rp.user["id"]))[0]


@pytest.mark.requirement("design-state-5", "users-10-11", "users-5-17")
async def test_every_kind_of_login_creates_one_record(key, rp, http, service) -> None:
    """Registration with a token, password, ping, refresh by API and by grant, password grant, passwordless, hosted."""
    user_id = rp.user["id"]

    async def rows() -> int:
        return len(await recent(key, userId=user_id, limit=100))

    count = await rows()
    assert count == 1, "the registration gave a token"

    async def adds_one(answer: httpx.Response) -> httpx.Response:
        nonlocal count
        assert answer.status_code == 200, answer.text
        count += 1
        assert await rows() == count, str(answer.request.url)
        return answer

    credentials = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    logged_in = (await adds_one(await key.post("/api/login", json=credentials))).json()
    await adds_one(await key.put(f"/api/login/{user_id}/{rp.client_id}"))
    await adds_one(await key.put(f"/api/login/{user_id}/{rp.client_id}"))
    await adds_one(await key.post("/api/jwt/refresh", json={"refreshToken": logged_in["refreshToken"]}))
    granted = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": "offline_access"}
    tokens = (await adds_one(await rp.token(http, **granted))).json()
    await adds_one(await rp.refresh(http, tokens["refresh_token"]))
    started = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.login_id})
    await adds_one(await http.post("/api/passwordless/login", json=started.json()))
    async with checking_client(service.base_url) as browser:
        await rp.code(browser)
        assert await rows() == count + 1, "the login page"
        await rp.code(browser)
        assert await rows() == count + 1, "the use of a session within a minute is not noted"


@pytest.mark.requirement("users-10-11")
async def test_refused_login_creates_no_record(key, rp, clock) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, passwordChangeRequired=True)
    for password, status in (("wrong", 404), (PASSWORD, 203)):
        body = {"loginId": user["email"], "password": password, "applicationId": rp.client_id}
        assert (await key.post("/api/login", json=body)).status_code == status
    assert len(await recent(key, userId=user["id"])) == 1, "of the registration alone"


@pytest.mark.requirement("users-10-11")
async def test_session_use_creates_one_record_per_minute(key, rp, service, clock) -> None:
    async with checking_client(service.base_url) as browser:
        await rp.code(browser)
        before = len(await recent(key, userId=rp.user["id"], limit=100))
        for seconds, more in ((0, 0), (61, 1), (1, 1), (61, 2)):
            clock.advance(seconds=seconds)
            await rp.code(browser)
            assert len(await recent(key, userId=rp.user["id"], limit=100)) == before + more


@pytest.mark.requirement("users-10-11")
async def test_every_refresh_is_counted_even_without_record(key, rp) -> None:
    refresh_token = (await log_in(key, rp))["refreshToken"]
    for count in (3, 4):
        assert (await key.post("/api/jwt/refresh", json={"refreshToken": refresh_token})).status_code == 200
        assert len(await recent(key, userId=rp.user["id"])) == count
    key.cookies.clear()
    assert (await key.post("/api/jwt/refresh", json={"refreshToken": "unknown"})).status_code == 400
    assert len(await recent(key, userId=rp.user["id"])) == 4


@pytest.mark.requirement("users-10-14")
async def test_records_are_paged_newest_first(key, rp, clock) -> None:
    for address in ("203.0.113.1", "203.0.113.2", "203.0.113.3"):
        clock.advance(seconds=1)
        await log_in(key, rp, ipAddress=address)
    mine = {"userId": rp.user["id"]}
    assert [one["ipAddress"][-1] for one in (await recent(key, **mine))[:3]] == ["3", "2", "1"]
    assert [one["ipAddress"][-1] for one in await recent(key, offset=1, limit=1, **mine)] == ["2"]
    for _ in range(10):
        await log_in(key, rp)
    assert len(await recent(key, **mine)) == 10
    assert len(await recent(key)) == 10
    assert await recent(key, userId=UNKNOWN_ID) == []


@pytest.mark.requirement("users-10-14")
async def test_invalid_paging_is_refused(key) -> None:
    assert codes(await key.get(RECENT, params={"offset": "x", "limit": -1})) == ["[invalid]limit", "[invalid]offset"]
    assert codes(await key.get(RECENT, params={"userId": "x"})) == ["[couldNotConvert]userId"]


@pytest.mark.requirement("users-10-15")
async def test_search_accepts_every_criterion_in_body_and_query(key, rp, clock) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    clock.advance(seconds=10)
    start = clock.now()
    await log_in(key, rp, ipAddress="203.0.113.1")
    clock.advance(seconds=10)
    end = clock.now()
    await log_in(key, rp, loginId=user["email"], ipAddress="203.0.113.2")
    await log_in(key, rp, applicationId=None, ipAddress="203.0.113.3")
    expected: list[tuple[Document, list[str]]] = [
        ({"userId": user["id"], "start": start}, ["2"]),
        ({"applicationId": rp.client_id, "start": start}, ["2", "1"]),
        ({"start": start, "end": end - 1}, ["1"]),
        ({"start": start, "numberOfResults": 1, "startRow": 1}, ["2"]),
        ({"start": start, "orderBy": "instant DESC"}, ["3", "2", "1"]),
    ]
    for criteria, endings in expected:
        by_body = await key.post(SEARCH, json={"search": criteria})
        by_query = await key.get(SEARCH, params=criteria)
        assert by_body.json() == by_query.json()
        assert by_body.json().keys() == {"logins"}
        assert [one["ipAddress"][-1] for one in by_body.json()["logins"]] == endings, criteria


@pytest.mark.requirement("users-10-15")
async def test_total_is_returned_on_request_only(key, rp) -> None:
    await log_in(key, rp)
    body = {"search": {"userId": rp.user["id"], "numberOfResults": 1}, "retrieveTotal": True}
    found = (await key.post(SEARCH, json=body)).json()
    assert (len(found["logins"]), found["total"]) == (1, 2)
    by_query = await key.get(SEARCH, params={"userId": rp.user["id"], "retrieveTotal": "true"})
    assert by_query.json()["total"] == 2
    assert "total" not in (await key.post(SEARCH, json={**body, "retrieveTotal": False})).json()


@pytest.mark.requirement("users-10-15")
async def test_invalid_searches_are_refused(key) -> None:
    wrong = {"userId": "x", "start": "x", "orderBy": "loginId"}
    assert sorted(codes(await key.get(SEARCH, params=wrong))) == [
        "[couldNotConvert]start", "[couldNotConvert]userId", "[invalid]orderBy",
    ]  # fmt: skip
    assert codes(await key.post(SEARCH, json={"search": {"startRow": -1}})) == ["[invalid]search.startRow"]
    assert codes(await key.post(SEARCH, json={"search": 5})) == ["[invalidJSON]"]


@pytest.mark.requirement("users-10-14")
async def test_tenant_cannot_see_records_of_another(key, rp, api, service) -> None:
    other = await relying_party.make(api)
    assert {one["userId"] for one in await recent(key, limit=100)} == {rp.user["id"]}
    assert await recent(key, userId=other.user["id"]) == []
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        assert [one["userId"] for one in await recent(everywhere, userId=other.user["id"])] == [other.user["id"]]


async def exported(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Disposition"] == 'attachment; filename="login-record.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        text = archive.read("login-record.csv").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.requirement("users-10-16")
async def test_export_holds_every_member(key, rp, clock) -> None:
    info = {"location": {"city": "Berlin", "country": "DE"}}
    start = clock.now()
    await log_in(key, rp, ipAddress="203.0.113.7", eventInfo=info)
    criteria = {"userId": rp.user["id"], "start": start}
    body = {"criteria": criteria, "dateTimeSecondsFormat": "yyyy", "zoneId": "UTC"}
    (row,) = await exported(await key.post(EXPORT, json=body))
    assert len(row.pop("instant")) == 4
    assert row == {
        "userId": rp.user["id"],
        "loginId": rp.login_id,
        "loginIdType": "email",
        "applicationId": rp.client_id,
        "applicationName": rp.application["name"],
        "ipAddress": "203.0.113.7",
        "location": '{"city":"Berlin","country":"DE","displayString":"Berlin, DE"}',
        "tenantId": rp.tenant["id"],
    }
    (again,) = await exported(await key.get(EXPORT, params={**criteria, "dateTimeSecondsFormat": "yyyy"}))
    assert again["loginId"] == rp.login_id
    bad = {"criteria": {"userId": "x"}, "zoneId": "Mars"}
    assert codes(await key.post(EXPORT, json=bad)) == ["[couldNotConvert]criteria.userId", "[invalid]zoneId"]


@pytest.mark.requirement("core-15-10")
async def test_export_cells_are_not_formulas(key, rp) -> None:
    formula = f"=HYPERLINK({new_id()})"
    number = f"+1555{str(uuid.uuid4().int)[:7]}"
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, username=formula, phoneNumber=number)
    for login_id, kind in ((formula, "username"), (number, "phoneNumber")):
        await log_in(key, rp, loginId=login_id, loginIdTypes=[kind])
    rows = await exported(await key.get(EXPORT, params={"userId": user["id"]}))
    shown = {row["loginId"] for row in rows if row["loginIdType"] != "email"}
    assert shown == {f"'{formula}", f"'{number}"}


@pytest.mark.requirement("core-17-6")
async def test_old_records_are_deleted_if_configured(key, rp, api, service, clock) -> None:
    clock.advance(seconds=-10 * 86_400)
    await log_in(key, rp)
    clock.advance(seconds=10 * 86_400)
    await log_in(key, rp)
    before = (await api.get("/api/system-configuration")).json()
    oldest = {"search": {"userId": rp.user["id"], "end": later(clock.now(), seconds=-86_400)}}

    async def configure(**delete: Any) -> None:
        body = {"systemConfiguration": {"loginRecordConfiguration": {"delete": delete}}}
        assert (await api.patch("/api/system-configuration", json=body)).status_code == 200
        await internals.run(service, retention.sweep)

    try:
        await configure(enabled=False, numberOfDaysToRetain=9)
        assert len((await key.post(SEARCH, json=oldest)).json()["logins"]) == 1
        await configure(enabled=True, numberOfDaysToRetain=11)
        assert len((await key.post(SEARCH, json=oldest)).json()["logins"]) == 1
        await configure(enabled=True, numberOfDaysToRetain=9)
        assert (await key.post(SEARCH, json=oldest)).json()["logins"] == []
    finally:
        await api.put("/api/system-configuration", json=before)
    assert len(await recent(key, userId=rp.user["id"])) == 2


@pytest.mark.requirement("users-10-13", "users-2-14")
async def test_records_are_deleted_with_user_application_and_tenant(key, rp, service) -> None:
    gone = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    assert len(await recent(key, userId=gone["id"])) == 1
    assert (await key.delete(f"/api/user/{gone['id']}", params={"hardDelete": "true"})).status_code == 200
    assert await recent(key, userId=gone["id"]) == []
    await log_in(key, rp, applicationId=None)
    inside = call_of(service).within(rp.tenant["id"])
    await internals.run(service, applications.delete, inside, rp.client_id)
    assert [one.get("applicationId") for one in await recent(key, userId=rp.user["id"])] == [None]
    await internals.run(service, tenants.delete, call_of(service), rp.tenant["id"])
    await internals.run(service, tenants.finish_deletions)
    rows = internals.database(service).motor["login_records"]
    assert await rows.count_documents({"tenantId": rp.tenant["id"]}) == 0


async def test_failing_record_does_not_prevent_refresh(key, rp, service, monkeypatch) -> None:
    change = {"jwtConfiguration": {"enabled": True, "refreshTokenUsagePolicy": "OneTimeUse"}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": change})
    value = (await log_in(key, rp))["refreshToken"]
    key.cookies.clear()

    async def away(*_arguments: Any) -> None:
        raise AutoReconnect("away")

    with monkeypatch.context() as patch:
        patch.setattr(internals.store(service, "login_records"), "add", away)
        answer = await key.post("/api/jwt/refresh", json={"refreshToken": value})
    assert answer.status_code == 200
    key.cookies.clear()
    fresh = {"refreshToken": answer.json()["refreshToken"]}
    assert fresh["refreshToken"] != value
    assert (await key.post("/api/jwt/refresh", json=fresh)).status_code == 200
