"""/api/system/event-log: reading and searching; retention; what OAuth and failing webhooks write."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from identity.operations import retention
from identity.operations.objects import event_logs
from tests import internals
from tests.conftest import SUPER_KEY, checking_client
from tests.receiver import answers, receiving, until
from tests.subscriber import check_event

PATH = "/api/system/event-log"


async def record(service: app.Service, kind: Any, message: str) -> None:
    call = internals.call(service)
    await internals.run(service, event_logs.record, call, kind, message)


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


async def search(api: httpx.AsyncClient, **criteria: Any) -> list[dict[str, Any]]:
    """The rows found by both forms of the search."""
    posted = await api.post(f"{PATH}/search", json={"search": criteria})
    assert posted.status_code == 200, posted.text
    assert (await api.get(f"{PATH}/search", params=criteria)).json() == posted.json()
    assert posted.json()["total"] >= len(posted.json()["eventLogs"])
    return list(posted.json()["eventLogs"])


@pytest.mark.requirement("core-15-15")
async def test_row_is_retrieved_by_id(service: app.Service, api: httpx.AsyncClient) -> None:
    mark = new_id()
    before = internals.now(service)
    await record(service, "Information", f"{mark} happened")
    (row,) = await search(api, message=mark)
    assert (row["type"], row["message"]) == ("Information", f"{mark} happened")
    assert before <= row["insertInstant"] <= internals.now(service)
    assert row.keys() == {"id", "insertInstant", "message", "type"}
    assert (await api.get(f"{PATH}/{row['id']}")).json() == {"eventLog": row}


@pytest.mark.requirement("core-15-15")
async def test_unknown_or_invalid_id(api: httpx.AsyncClient) -> None:
    assert (await api.get(f"{PATH}/999999999999")).status_code == 404
    assert errors(await api.get(f"{PATH}/{new_id()}")) == {"eventLogId": ["[couldNotConvert]eventLogId"]}
    assert (await api.get(PATH)).status_code == 404


@pytest.mark.requirement("core-15-15")
async def test_rows_are_read_only(api: httpx.AsyncClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await api.request(method, f"{PATH}/1", json={"eventLog": {"message": "x", "type": "Error"}})
        assert answer.status_code == 405
        assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.requirement("core-15-16")
async def test_every_criterion_filters(service: app.Service, api: httpx.AsyncClient, clock: Any) -> None:
    mark = new_id()
    await record(service, "Error", f"{mark} FIRST")
    clock.advance(seconds=10)
    await record(service, "Debug", f"{mark} second")
    await record(service, "Debug", f"{mark} third")
    rows = await search(api, message=mark)
    texts = [row["message"].removeprefix(f"{mark} ") for row in rows]
    assert texts == ["third", "second", "FIRST"]
    late, early = rows[1]["insertInstant"], rows[2]["insertInstant"]
    for criteria, found in (
        ({"message": f"{mark} first"}, ["FIRST"]),
        ({"message": f"{mark}*D"}, ["third", "second"]),
        ({"type": "Debug"}, ["third", "second"]),
        ({"type": "Error"}, ["FIRST"]),
        ({"type": "Information"}, []),
        ({"start": late}, ["third", "second"]),
        ({"end": early}, ["FIRST"]),
        ({"start": early + 1, "end": late - 1}, []),
        ({"orderBy": "id"}, ["FIRST", "second", "third"]),
        ({"orderBy": "type ASC, message DESC"}, ["third", "second", "FIRST"]),
        ({"orderBy": "insertInstant"}, ["FIRST", "second", "third"]),
        ({"startRow": 1, "numberOfResults": 1}, ["second"]),
    ):
        got = await search(api, **{"message": mark, **criteria})
        assert [row["message"].removeprefix(f"{mark} ") for row in got] == found, criteria


@pytest.mark.requirement("core-15-16")
async def test_invalid_searches_are_refused(api: httpx.AsyncClient) -> None:
    wanted = {"start": "x", "end": [], "orderBy": "user", "type": 5}
    assert errors(await api.post(f"{PATH}/search", json={"search": wanted})) == {
        "search.end": ["[couldNotConvert]search.end"],
        "search.orderBy": ["[invalid]search.orderBy"],
        "search.start": ["[couldNotConvert]search.start"],
        "search.type": ["[invalid]search.type"],
    }
    for kind in ("Warning", "debug"):
        answer = await api.get(f"{PATH}/search", params={"type": kind})
        assert errors(answer) == {"type": ["[couldNotConvert]type"]}


@pytest.mark.requirement("core-15-24", "core-17-5")
async def test_oldest_rows_are_evicted(build: Any) -> None:
    async with build() as fresh, checking_client(fresh.base_url, headers={"Authorization": SUPER_KEY}) as client:
        body = {"systemConfiguration": {"eventLogConfiguration": {"numberToRetain": 3}}}
        assert (await client.patch("/api/system-configuration", json=body)).status_code == 200
        for number in range(3):
            await record(fresh, "Debug", f"row {number}")
        await internals.run(fresh, retention.sweep)
        assert [row["message"] for row in await search(client)] == ["row 2", "row 1", "row 0"]
        for number in range(3, 5):
            await record(fresh, "Debug", f"row {number}")
        await internals.run(fresh, retention.sweep)
        assert [row["message"] for row in await search(client)] == ["row 4", "row 3", "row 2"]


@pytest.mark.requirement("core-15-21", "event-event-log.create")
async def test_failing_webhook_is_logged(
    service: app.Service, api: httpx.AsyncClient, tenant: dict[str, Any], tenant_api: httpx.AsyncClient
) -> None:
    enabled = {"eventConfiguration": {"events": {"user.create": {"enabled": True, "transactionType": "None"}}}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": enabled})).status_code == 200
    times = {"connectTimeout": 1000, "readTimeout": 1000}
    async with receiving(answers(418)) as receiver, receiving() as listener:
        hook = {
            "url": f"{receiver.url}?token=hush",
            "tenantIds": [tenant["id"]],
            "eventsEnabled": {"user.create": True},
            **times,
        }
        webhook = (await api.post("/api/webhook", json={"webhook": hook})).json()["webhook"]
        everywhere = {"url": listener.url, "global": True, "eventsEnabled": {"event-log.create": True}, **times}
        log_webhook = (await api.post("/api/webhook", json={"webhook": everywhere})).json()["webhook"]
        try:
            body = {"user": {"username": "ada", "password": "password"}}
            assert (await tenant_api.post("/api/user", json=body)).status_code == 200

            async def is_reported() -> bool:
                found = await api.get(f"{PATH}/search", params={"message": webhook["id"]})
                received = any(webhook["id"] in request.body.decode() for request in listener.requests)
                return received and bool(found.json()["eventLogs"])

            await until(is_reported)
        finally:
            for one in (webhook, log_webhook):
                await api.delete(f"/api/webhook/{one['id']}")
    (row,) = await search(api, message=webhook["id"])
    (event,) = [request.event for request in listener.requests if webhook["id"] in request.body.decode()]
    check_event(event)
    assert event["type"] == "event-log.create"
    assert {name: event["eventLog"][name] for name in ("id", "message", "type")} == {
        name: row[name] for name in ("id", "message", "type")
    }
    assert row["type"] == "Error"
    assert "Event [user.create]" in row["message"]
    assert row["message"].endswith("was not delivered and will be tried again: the receiver answered 418.")
    assert "hush" not in row["message"]


# OAuth


async def application(api: httpx.AsyncClient, **oauth: Any) -> dict[str, Any]:
    wanted = {"name": f"App {new_id()}", "oauthConfiguration": {"enabledGrants": ["authorization_code"], **oauth}}
    answer = await api.post("/api/application", json={"application": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


async def fail(http: httpx.AsyncClient, made: dict[str, Any], secret: str | None = None) -> None:
    form = {
        "grant_type": "authorization_code",
        "code": "a-secret-code",
        "redirect_uri": "https://example.com",
        "client_id": made["id"],
        "client_secret": secret or made["oauthConfiguration"]["clientSecret"],
    }
    assert (await http.post("/oauth2/token", data=form)).status_code in {400, 401}


@pytest.mark.requirement("core-15-22")
async def test_token_failures_are_logged_if_configured(api: httpx.AsyncClient, http: httpx.AsyncClient) -> None:
    made = await application(api, debug=True)
    await fail(http, made)
    await fail(http, made, secret="a-wrong-secret")
    wrong, unknown = await search(api, message=made["id"])
    assert {wrong["type"], unknown["type"]} == {"Debug"}
    assert made["name"] in unknown["message"]
    assert "grant_type [authorization_code]: invalid_grant, " in unknown["message"]
    assert "invalid_client, " in wrong["message"]
    assert unknown["message"].endswith("[client_id, client_secret, code, grant_type, redirect_uri].")
    for row in (wrong, unknown):
        assert "a-secret-code" not in row["message"]
        assert "a-wrong-secret" not in row["message"]
        assert made["oauthConfiguration"]["clientSecret"] not in row["message"]


@pytest.mark.requirement("core-15-22")
async def test_token_failures_are_not_logged_by_default(api: httpx.AsyncClient, http: httpx.AsyncClient) -> None:
    made = await application(api)
    await fail(http, made)
    assert await search(api, message=made["id"]) == []


@pytest.mark.requirement("core-15-25")
@pytest.mark.parametrize("path", [f"{PATH}/1", f"{PATH}/search"])
async def test_tenant_keys_cannot_read_event_log(
    service: app.Service, manager: httpx.AsyncClient, tenant: dict[str, Any], path: str
) -> None:
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})).json()["apiKey"]["key"]
    async with checking_client(service.base_url, headers={"Authorization": key}) as scoped:
        assert (await scoped.get(path)).status_code == 401
