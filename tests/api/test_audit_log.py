"""/api/system/audit-log: rows of any JSON, masking, search, export, and audited API calls."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from identity.operations import retention
from identity.operations.objects import csv_exports
from tests import internals, plain_http, scim
from tests.conftest import DEFAULT_TENANT, EMAIL_TEMPLATE, MANAGER_KEY, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.receiver import receiving, until
from tests.subscriber import check_event

PATH = "/api/system/audit-log"


@pytest.fixture
async def glob(service: app.Service) -> Any:
    """A client with the super key, which names no tenant."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        yield client


async def make(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    wanted = {"insertUser": "ada@example.com", "message": f"Something {new_id()}", **members}
    answer = await client.post(PATH, json={"auditLog": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["auditLog"])


def errors(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {path: [e["code"] for e in entries] for path, entries in answer.json().get("fieldErrors", {}).items()}


async def search(client: httpx.AsyncClient, **criteria: Any) -> list[str]:
    """The messages found by both forms of the search."""
    posted = await client.post(f"{PATH}/search", json={"search": criteria})
    assert posted.status_code == 200, posted.text
    got = await client.get(f"{PATH}/search", params=criteria)
    assert got.json() == posted.json()
    found = posted.json()
    assert found["total"] >= len(found["auditLogs"])
    return [row["message"] for row in found["auditLogs"]]


# Rows


@pytest.mark.requirement("core-15-1", "core-15-5")
async def test_created_row_is_returned_as_sent(service: app.Service, glob: httpx.AsyncClient) -> None:
    before = internals.now(service)
    wanted = {
        "insertUser": " ada@example.com ",
        "message": "Changed a thing",
        "oldValue": {"a": [1, 2.5, {"b": "c"}], "$dotted.name": True},
        "newValue": "just text",
        "reason": "Ticket 5",
        "data": {"ticket": 5},
    }
    made = await make(glob, **wanted, id=987_654_321, insertInstant=1)
    assert 0 < made["id"] != 987_654_321
    assert before <= made["insertInstant"] <= internals.now(service)
    assert made == {**wanted, "insertUser": "ada@example.com", "id": made["id"], "insertInstant": made["insertInstant"]}
    again = await glob.get(f"{PATH}/{made['id']}")
    assert again.json() == {"auditLog": made}


@pytest.mark.requirement("core-15-2")
@pytest.mark.parametrize("value", [{}, [], [1, "two", [3]], 5, 0, False, True, "", 2.5, {"deep": {"er": []}}])
async def test_values_may_be_any_json(glob: httpx.AsyncClient, value: Any) -> None:
    made = await make(glob, oldValue=value, newValue=value)
    found = (await glob.get(f"{PATH}/{made['id']}")).json()["auditLog"]
    assert (found["oldValue"], found["newValue"]) == (value, value)
    assert (type(found["oldValue"]), type(found["newValue"])) == (type(value), type(value))


@pytest.mark.requirement("core-15-1")
async def test_ids_increase(glob: httpx.AsyncClient) -> None:
    first, second = await make(glob), await make(glob)
    assert second["id"] > first["id"]


@pytest.mark.requirement("core-15-1")
async def test_members_not_sent_are_omitted(glob: httpx.AsyncClient) -> None:
    made = await make(glob, reason="  ", oldValue=None)
    assert made.keys() == {"data", "id", "insertInstant", "insertUser", "message"}
    assert made["data"] == {}


@pytest.mark.requirement("core-15-4")
async def test_missing_members_are_reported_together(api: httpx.AsyncClient) -> None:
    blank = {
        "auditLog.insertUser": ["[blank]auditLog.insertUser"],
        "auditLog.message": ["[blank]auditLog.message"],
    }
    assert errors(await api.post(PATH, json={"auditLog": {}})) == blank
    assert errors(await api.post(PATH, json={"auditLog": {"insertUser": " ", "message": ""}})) == blank
    assert errors(await api.post(PATH, json={})) == {"auditLog": ["[missing]auditLog"]}
    assert errors(await api.post(PATH, json={"auditLog": []})) == {"auditLog": ["[invalidJSON]"]}
    answer = await api.post(PATH, json={"auditLog": {"tenantId": new_id()}})
    assert errors(answer) == {**blank, "auditLog.tenantId": ["[invalid]auditLog.tenantId"]}


@pytest.mark.requirement("core-15-4")
async def test_wrong_types_and_overlong_texts_are_refused(api: httpx.AsyncClient) -> None:
    wanted = {"insertUser": "x" * 256, "message": [], "reason": [], "data": "x", "tenantId": "nonsense"}
    assert errors(await api.post(PATH, json={"auditLog": wanted})) == {
        "auditLog.data": ["[invalidJSON]"],
        "auditLog.insertUser": ["[tooLong]auditLog.insertUser"],
        "auditLog.message": ["[invalidJSON]"],
        "auditLog.reason": ["[invalidJSON]"],
        "auditLog.tenantId": ["[couldNotConvert]auditLog.tenantId"],
    }


@pytest.mark.requirement("core-15-11")
async def test_secrets_are_masked_before_they_are_stored(service: app.Service, glob: httpx.AsyncClient) -> None:
    secret = f"hush {new_id()}"
    value = {
        "user": {"password": secret, "email": "ada@example.com", "twoFactor": {"recoveryCodes": [secret]}},
        "oauthConfiguration": {"clientSecret": secret, "clientId": "shown"},
        "tokens": {"google": secret},
        "passwordChangeRequired": True,
    }
    made = await make(glob, oldValue=value, newValue=[value], data={"apiKey": secret, "note": "shown"})
    masked = {
        "user": {"password": "*****", "email": "ada@example.com", "twoFactor": {"recoveryCodes": ["*****"]}},
        "oauthConfiguration": {"clientSecret": "*****", "clientId": "shown"},
        "tokens": {"google": "*****"},
        "passwordChangeRequired": True,
    }
    assert (made["oldValue"], made["newValue"]) == (masked, [masked])
    assert made["data"] == {"apiKey": "*****", "note": "shown"}
    stored = await internals.database(service).collection("audit_logs").find_one({"_id": made["id"]})
    assert secret not in str(stored)


@pytest.mark.requirement("core-15-5")
@pytest.mark.parametrize("number", ["nonsense", "-1", "1.5", UNKNOWN_ID, "1" * 19])
async def test_invalid_id_is_refused(api: httpx.AsyncClient, number: str) -> None:
    assert errors(await api.get(f"{PATH}/{number}")) == {"auditLogId": ["[couldNotConvert]auditLogId"]}


@pytest.mark.requirement("core-15-5")
async def test_unknown_id_is_404_and_missing_id_an_error(api: httpx.AsyncClient) -> None:
    assert (await api.get(f"{PATH}/999999999999")).status_code == 404
    assert errors(await api.get(PATH)) == {"auditLogId": ["[missing]auditLogId"]}


@pytest.mark.requirement("core-15-5")
async def test_rows_are_immutable(glob: httpx.AsyncClient) -> None:
    made = await make(glob)
    for method in ("PUT", "PATCH", "DELETE"):
        answer = await glob.request(method, f"{PATH}/{made['id']}", json={"auditLog": {}})
        assert answer.status_code == 405
        assert answer.headers["Allow"] == "GET, HEAD"
    assert (await glob.put(PATH, json={})).headers["Allow"] == "GET, HEAD, POST"


# Tenants


@pytest.mark.requirement("core-15-3")
async def test_row_belongs_to_tenant_of_call_or_named_tenant(
    glob: httpx.AsyncClient, tenant_api: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    assert "tenantId" not in await make(glob)
    assert (await make(tenant_api))["tenantId"] == tenant["id"]
    assert (await make(glob, tenantId=tenant["id"].upper()))["tenantId"] == tenant["id"]
    assert (await make(tenant_api, tenantId=tenant["id"]))["tenantId"] == tenant["id"]
    wanted = {"auditLog": {"insertUser": "a", "message": "b", "tenantId": DEFAULT_TENANT}}
    assert errors(await tenant_api.post(PATH, json=wanted)) == {"auditLog.tenantId": ["[invalid]auditLog.tenantId"]}


@pytest.mark.requirement("core-15-3")
async def test_tenants_see_only_own_rows(
    service: app.Service, manager: httpx.AsyncClient, glob: httpx.AsyncClient, tenant: dict[str, Any]
) -> None:
    key = (await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})).json()["apiKey"]["key"]
    mark = new_id()
    of_instance = await make(glob, message=f"{mark} instance")
    of_other = await make(glob, message=f"{mark} other", tenantId=DEFAULT_TENANT)
    async with checking_client(service.base_url, headers={"Authorization": key}) as scoped:
        own = await make(scoped, message=f"{mark} own")
        assert own["tenantId"] == tenant["id"]
        assert await search(scoped, message=mark) == [f"{mark} own"]
        assert await search(scoped, message=mark, tenantId=DEFAULT_TENANT) == []
        assert (await scoped.get(f"{PATH}/{own['id']}")).status_code == 200
        for foreign in (of_instance, of_other):
            assert (await scoped.get(f"{PATH}/{foreign['id']}")).status_code == 404
        assert [row["message"] for row in await exported(scoped, criteria={"message": mark})] == [f"{mark} own"]
    assert await search(glob, message=mark) == [f"{mark} own", f"{mark} other", f"{mark} instance"]
    assert await search(glob, message=mark, tenantId=tenant["id"]) == [f"{mark} own"]


# Search


@pytest.mark.requirement("core-15-6")
async def test_every_criterion_filters(service: app.Service, glob: httpx.AsyncClient, clock: Any) -> None:
    mark = new_id()
    first = await make(
        glob,
        message=f"{mark} FIRST",
        insertUser="Ada@Example.com",
        oldValue={"colour": "Red"},
        newValue={"colour": "blue", "n": [1, 2]},
        reason="Because",
    )
    clock.advance(seconds=10)
    second = await make(glob, message=f"{mark} second", insertUser="bob@example.com", newValue="100% red*")
    one, two = first["message"], second["message"]
    assert await search(glob, message=mark) == [two, one]
    assert await search(glob, message=f"{mark} first") == [one]
    assert await search(glob, message=f"{mark}*d") == [two]
    assert await search(glob, message=f"*{mark}") == []
    for criteria, found in (
        ({"user": "ADA@"}, [one]),
        ({"user": "*@example.com"}, [two, one]),
        ({"oldValue": "red"}, [one]),
        ({"newValue": '"n":[1,2]'}, [one]),
        ({"newValue": "red**"}, [two]),
        ({"reason": "because"}, [one]),
        ({"reason": "other"}, []),
        ({"start": second["insertInstant"]}, [two]),
        ({"end": first["insertInstant"]}, [one]),
        ({"start": first["insertInstant"], "end": second["insertInstant"]}, [two, one]),
        ({"start": first["insertInstant"] + 1, "end": second["insertInstant"] - 1}, []),
        ({"tenantId": new_id()}, []),
    ):
        assert await search(glob, message=mark, **criteria) == found, criteria


@pytest.mark.requirement("core-15-7")
async def test_search_is_sorted_and_paged(glob: httpx.AsyncClient) -> None:
    mark = new_id()
    for name in ("b", "a", "c"):
        await make(glob, message=f"{mark} {name}", insertUser=f"user {name}")
    names = [f"{mark} {name}" for name in "abc"]
    assert await search(glob, message=mark, orderBy="message ASC") == names
    assert await search(glob, message=mark, orderBy="message DESC") == names[::-1]
    assert await search(glob, message=mark, orderBy="tenant, insertUser DESC") == names[::-1]
    assert await search(glob, message=mark, orderBy="insertInstant, message") == [names[1], names[0], names[2]]
    assert await search(glob, message=mark, orderBy="message", startRow=1, numberOfResults=1) == names[1:2]
    answer = await glob.get(f"{PATH}/search", params={"message": mark, "numberOfResults": 0})
    assert answer.json() == {"total": 3, "auditLogs": []}


@pytest.mark.requirement("core-15-6")
async def test_invalid_searches_are_refused(glob: httpx.AsyncClient) -> None:
    wanted = {"start": "x", "end": True, "tenantId": "y", "orderBy": "newValue", "message": 5, "startRow": -1}
    assert errors(await glob.post(f"{PATH}/search", json={"search": wanted})) == {
        "search.end": ["[couldNotConvert]search.end"],
        "search.message": ["[invalid]search.message"],
        "search.orderBy": ["[invalid]search.orderBy"],
        "search.start": ["[couldNotConvert]search.start"],
        "search.startRow": ["[invalid]search.startRow"],
        "search.tenantId": ["[couldNotConvert]search.tenantId"],
    }
    answer = await glob.get(f"{PATH}/search", params={"orderBy": "id", "start": "later"})
    assert errors(answer) == {"orderBy": ["[invalid]orderBy"], "start": ["[couldNotConvert]start"]}
    assert errors(await glob.post(f"{PATH}/search", json={"search": []})) == {"search": ["[invalidJSON]"]}
    assert (await glob.post(f"{PATH}/search", json={})).json()["total"] > 0


# Export


async def exported(client: httpx.AsyncClient, **body: Any) -> list[dict[str, str]]:
    answer = await client.post(f"{PATH}/export", json=body)
    return rows_of(answer)


def rows_of(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit-log.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.namelist() == ["audit-log.csv"]
        text = archive.read("audit-log.csv").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.requirement("core-15-8")
async def test_export_holds_every_member_of_every_row(
    glob: httpx.AsyncClient, tenant: dict[str, Any], clock: Any
) -> None:
    mark = new_id()
    value = {"a": ["b", 1]}
    full = await make(
        glob,
        message=f'{mark}, "quoted"\nline',
        oldValue=value,
        newValue="x",
        reason="r",
        data=value,
        tenantId=tenant["id"],
    )
    clock.advance(seconds=1)
    bare = await make(glob, message=f"{mark} bare")
    first, second = await exported(glob, criteria={"message": mark}, zoneId="UTC", dateTimeSecondsFormat="yyyy")
    year = first["insertInstant"]
    assert second == {
        "id": str(full["id"]),
        "insertInstant": year,
        "insertUser": "ada@example.com",
        "message": f'{mark}, "quoted"\nline',
        "reason": "r",
        "oldValue": '{"a":["b",1]}',
        "newValue": '"x"',
        "data": '{"a":["b",1]}',
        "tenantId": tenant["id"],
    }
    assert (first["id"], first["oldValue"], first["data"], first["tenantId"]) == (str(bare["id"]), "", "{}", "")


@pytest.mark.requirement("core-15-8")
async def test_export_by_query_accepts_same_parameters(glob: httpx.AsyncClient) -> None:
    mark = new_id()
    await make(glob, message=f"{mark} a")
    await make(glob, message=f"{mark} b")
    params = {"message": mark, "orderBy": "message", "dateTimeSecondsFormat": "'at' yyyy", "zoneId": "Asia/Tokyo"}
    rows = rows_of(await glob.get(f"{PATH}/export", params=params))
    assert [row["message"] for row in rows] == [f"{mark} a", f"{mark} b"]
    assert rows[0]["insertInstant"].startswith("at 20")
    assert [row["message"] for row in await exported(glob, search={"message": mark, "orderBy": "message DESC"})] == [
        f"{mark} b",
        f"{mark} a",
    ]


@pytest.mark.requirement("core-15-8")
async def test_large_export_is_complete_and_not_paged(service: app.Service, glob: httpx.AsyncClient) -> None:
    mark = new_id()
    rows = [
        {"_id": -number, "insertInstant": number, "insertUser": mark, "message": "x" * 2000, "data": {}}
        for number in range(1, 1001)
    ]
    await internals.database(service).collection("audit_logs").insert_many(rows)
    found = await exported(glob, criteria={"user": mark, "numberOfResults": 5, "orderBy": "insertInstant"})
    assert [row["id"] for row in found] == [f"'{-number}" for number in range(1, 1001)]
    assert all(row["message"] == "x" * 2000 for row in found)
    await internals.database(service).collection("audit_logs").delete_many({"insertUser": mark})


@pytest.mark.requirement("core-15-9", "core-17-8")
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "11/21/2026 03:03:05 AM MST"),
        ({"zoneId": "UTC"}, "11/21/2026 10:03:05 AM UTC"),
        (
            {"zoneId": "Europe/Paris", "dateTimeSecondsFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
            "2026-11-21T11:03:05.250+01:00",
        ),
        (
            {"zoneId": "Asia/Tokyo", "dateTimeSecondsFormat": "EEEE, d MMMM yy, h 'o''clock' a"},
            "Saturday, 21 November 26, 7 o'clock PM",
        ),
    ],
)
async def test_instants_follow_requested_format(
    service: app.Service, glob: httpx.AsyncClient, params: dict[str, str], expected: str
) -> None:
    mark = new_id()
    made = await make(glob, message=mark)
    change = {"$set": {"insertInstant": 1_795_255_385_250}}
    await internals.database(service).collection("audit_logs").update_one({"_id": made["id"]}, change)
    (row,) = rows_of(await glob.get(f"{PATH}/export", params={"message": mark, **params}))
    assert row["insertInstant"] == expected


@pytest.mark.requirement("core-15-10")
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "  =", "\uff1d"])
async def test_cells_are_not_formulas(service: app.Service, glob: httpx.AsyncClient, start: str) -> None:
    mark, formula = new_id(), f"{start}cmd|' /C calc'!A0"
    row = {"insertInstant": 1, "insertUser": formula, "message": mark, "reason": f"x{formula}", "newValue": "-5"}
    rows = internals.database(service).collection("audit_logs")
    await rows.insert_one({"_id": -abs(hash(mark)), "data": {}, "oldValue": "'=1", **row})
    (found,) = await exported(glob, criteria={"message": mark})
    assert found["insertUser"] == f"'{formula}"
    # Programs take one mark away from each cell, and have what was there.
    assert found["oldValue"] == "''=1"
    assert found["newValue"] == "'-5"
    assert found["reason"] == f"x{formula}"
    await rows.delete_one({"message": mark})


@pytest.mark.requirement("core-15-9")
async def test_invalid_exports_are_refused(glob: httpx.AsyncClient) -> None:
    wanted = {"criteria": {"start": "x"}, "zoneId": "Mars/Base", "dateTimeSecondsFormat": "yyyy-QQQQQQ"}
    assert errors(await glob.post(f"{PATH}/export", json=wanted)) == {
        "criteria.start": ["[couldNotConvert]criteria.start"],
        "dateTimeSecondsFormat": ["[invalid]dateTimeSecondsFormat"],
        "zoneId": ["[invalid]zoneId"],
    }
    for zone in ("../../etc/passwd", "/etc/passwd", "America", "x\x00"):
        assert errors(await glob.get(f"{PATH}/export", params={"zoneId": zone})) == {"zoneId": ["[invalid]zoneId"]}
    assert errors(await glob.post(f"{PATH}/export", json={"criteria": 5})) == {"criteria": ["[invalidJSON]"]}


@pytest.mark.requirement("core-15-8")
async def test_failure_during_export_leaves_no_partial_file(
    service: app.Service, glob: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_row: Any) -> str:
        raise ValueError("no such value")

    await make(glob)
    monkeypatch.setattr(csv_exports, "_harmless", broken)
    async with plain_http.client(service.base_url, timeout=30) as plain:
        answer = await plain.get(f"{PATH}/export", headers={"Authorization": SUPER_KEY})
    assert (answer.status_code, answer.content) == (500, b"")


@pytest.mark.requirement("core-15-8")
async def test_disconnect_during_export_is_harmless(service: app.Service, glob: httpx.AsyncClient) -> None:
    mark = new_id()
    noise = [
        {
            "_id": -number,
            "insertInstant": number,
            "insertUser": mark,
            "message": "".join(new_id() for _ in range(200)),
            "data": {},
        }
        for number in range(2001, 3001)
    ]
    await internals.database(service).collection("audit_logs").insert_many(noise)
    try:
        async with plain_http.client(service.base_url, timeout=60) as client:
            path = f"{PATH}/export?user={mark}"
            async with client.stream("GET", path, headers={"Authorization": SUPER_KEY}) as answer:
                assert answer.status_code == 200
        assert (await glob.get("/api/system/version")).status_code == 200
    finally:
        await internals.database(service).collection("audit_logs").delete_many({"insertUser": mark})


# Event and retention


@pytest.mark.requirement("audit-d2-audit-log", "core-15-12", "event-audit-log.create")
async def test_every_row_emits_event(api: httpx.AsyncClient, glob: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    async with receiving() as receiver:
        hook = {
            "url": receiver.url,
            "connectTimeout": 1000,
            "readTimeout": 1000,
            "global": True,
            "eventsEnabled": {"audit-log.create": True},
        }
        webhook = (await api.post("/api/webhook", json={"webhook": hook})).json()["webhook"]
        try:
            wanted = {
                "insertUser": "ada@example.com",
                "message": "Did it",
                "newValue": {"password": "hush", "a": [1, None, {"b": [None]}]},
                "oldValue": "old",
                "reason": "r",
                "tenantId": tenant["id"],
            }
            body = {"auditLog": wanted, "eventInfo": {"ipAddress": "198.51.100.7"}}
            made = (await glob.post(PATH, json=body)).json()["auditLog"]
            await until(lambda: receiver.requests)
        finally:
            await api.delete(f"/api/webhook/{webhook['id']}")
    (event,) = [request.event for request in receiver.requests]
    assert event["type"] == "audit-log.create"
    check_event(event)
    assert event["info"]["ipAddress"] == "198.51.100.7"
    assert event["auditLog"] == made
    assert event["auditLog"]["newValue"] == {"a": [1, None, {"b": [None]}], "password": "*****"}
    assert event["tenantId"] == tenant["id"]


@pytest.mark.requirement("audit-d2-audit-log")
async def test_event_of_instance_row_has_no_tenant(api: httpx.AsyncClient, glob: httpx.AsyncClient) -> None:
    async with receiving() as receiver:
        hook = {"url": receiver.url, "connectTimeout": 1000, "readTimeout": 1000, "global": True}
        hook["eventsEnabled"] = {"audit-log.create": True}
        webhook = (await api.post("/api/webhook", json={"webhook": hook})).json()["webhook"]
        try:
            row = {"insertUser": "ada@example.com", "message": "Did it"}
            assert (await glob.post(PATH, json={"auditLog": row})).status_code == 200
            await until(lambda: receiver.requests)
        finally:
            await api.delete(f"/api/webhook/{webhook['id']}")
    assert "tenantId" not in receiver.requests[0].event


@pytest.mark.requirement("core-15-14", "core-17-4")
async def test_old_rows_are_deleted_if_configured(
    service: app.Service, api: httpx.AsyncClient, glob: httpx.AsyncClient, clock: Any
) -> None:
    old = await make(glob)
    clock.advance(seconds=2 * 86_400)
    new = await make(glob)
    before = (await api.get("/api/system-configuration")).json()

    async def configure(**delete: Any) -> None:
        body = {"systemConfiguration": {"auditLogConfiguration": {"delete": delete}}}
        assert (await api.patch("/api/system-configuration", json=body)).status_code == 200

    try:
        await configure(enabled=False, numberOfDaysToRetain=1)
        await internals.run(service, retention.sweep)
        assert (await glob.get(f"{PATH}/{old['id']}")).status_code == 200
        await configure(enabled=True, numberOfDaysToRetain=3)
        await internals.run(service, retention.sweep)
        assert (await glob.get(f"{PATH}/{old['id']}")).status_code == 200
        await configure(enabled=True, numberOfDaysToRetain=1)
        await internals.run(service, retention.sweep)
    finally:
        await api.put("/api/system-configuration", json=before)
    assert (await glob.get(f"{PATH}/{old['id']}")).status_code == 404
    assert (await glob.get(f"{PATH}/{new['id']}")).status_code == 200


# The service's own rows


async def own_rows(client: httpx.AsyncClient, **criteria: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"{PATH}/search", json={"search": {"orderBy": "insertInstant", **criteria}})
    return list(answer.json()["auditLogs"])


@pytest.mark.requirement("core-15-13")
async def test_api_writes_are_audited_if_enabled(build: Any) -> None:
    async with build(audit__api_writes="true") as audited:
        headers = {"Authorization": SUPER_KEY, "X-Forwarded-For": "203.0.113.7"}
        async with checking_client(audited.base_url, headers=headers) as client:
            user = {"user": {"username": "ada", "password": "a secret password"}}
            user_id = (await client.post("/api/user", json=user)).json()["user"]["id"]
            await client.delete(f"/api/user/{user_id}", params={"hardDelete": "true"})
            hook = {"url": "https://example.com", "connectTimeout": 1, "readTimeout": 1}
            await client.post("/api/webhook", json={"webhook": hook})
            # What changes nothing leaves no row: reading, searching, what was refused, and the audit log itself.
            await client.get("/api/tenant")
            await client.post("/api/user/search", json={"search": {"queryString": "*"}})
            await client.post("/api/user", json={"user": {}})
            await client.delete(f"/api/user/{new_id()}")
            await client.post(PATH, json={"auditLog": {"insertUser": "me", "message": "my own"}})
            rows = await own_rows(client)
            directory = await scim.make_client(audited.base_url, client)
            provisioned = await directory.make_user()
            await directory.ask("POST", "/Users/.search", {})
            await directory.send("DELETE", f"/Users/{provisioned['id']}")
            of_scim = await own_rows(client, message="*/api/scim/*")
            await scim.close(directory)
        async with checking_client(audited.base_url, headers={"Authorization": MANAGER_KEY}) as manager:
            made = (await manager.post("/api/api-key", json={"apiKey": {}})).json()["apiKey"]
        async with checking_client(audited.base_url, headers={"Authorization": made["key"]}) as nameless:
            await nameless.patch("/api/system-configuration", json={"systemConfiguration": {"data": {"a": 1}}})
            more = await own_rows(nameless, message="*/api/api-key") + await own_rows(nameless, user=made["id"])
    assert rows[0]["message"].startswith("PATCH /api/tenant/")  # the kickstart calls the API, too
    rows = rows[-4:]
    assert [row["message"] for row in rows] == [
        "POST /api/user",
        f"DELETE /api/user/{user_id}",
        "POST /api/webhook",
        "my own",
    ]
    first, second, third, _ = rows
    assert first["insertUser"] == "super key"
    assert first["reason"] == "A call of the management API"
    assert first["tenantId"] == DEFAULT_TENANT
    assert (
        first["data"].items()
        >= {"method": "POST", "path": "/api/user", "status": 200, "ipAddress": "203.0.113.7"}.items()
    )
    assert first["data"].keys() == {"apiKeyId", "ipAddress", "method", "path", "requestId", "status"}
    assert "newValue" not in first
    assert second["data"]["parameters"] == {"hardDelete": "true"}
    assert "tenantId" not in third
    assert "a secret password" not in json.dumps(rows)
    path = f"{scim.ROOT}/Users"
    assert [row["message"] for row in of_scim] == [f"POST {path}", f"DELETE {path}/{provisioned['id']}"]
    assert {row["tenantId"] for row in of_scim} == {directory.tenant["id"]}
    assert {(row["insertUser"], row["data"]["entityId"]) for row in of_scim} == {
        (directory.entity["name"], directory.entity["id"])
    }
    assert [(row["insertUser"], row["message"]) for row in more] == [
        ("key manager", "POST /api/api-key"),
        (made["id"], "PATCH /api/system-configuration"),
    ]


@pytest.mark.requirement("core-15-13")
async def test_audited_call_masks_secret_in_path(build: Any) -> None:
    async with (
        build(audit__api_writes="true") as audited,
        checking_client(audited.base_url, headers={"Authorization": SUPER_KEY}) as client,
    ):
        verifies = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
        await client.patch(f"/api/tenant/{DEFAULT_TENANT}", json={"tenant": {"emailConfiguration": verifies}})
        user = {"email": "ada@example.com", "password": "a secret password"}
        secret = (await client.post("/api/user", json={"user": user})).json()["emailVerificationId"]
        assert (await client.post(f"/api/user/verify-email/{secret}")).status_code == 200
        rows = await own_rows(client)
    assert rows[-1]["message"] == "POST /api/user/verify-email/{verificationId}"
    assert rows[-1]["data"]["path"] == "/api/user/verify-email/{verificationId}"
    assert secret not in json.dumps(rows)


@pytest.mark.requirement("core-15-13")
async def test_api_writes_are_not_audited_by_default(glob: httpx.AsyncClient) -> None:
    name = new_id()
    made = (await glob.post("/api/tenant", json={"tenant": {"name": name}})).json()["tenant"]
    await glob.patch(f"/api/tenant/{made['id']}", json={"tenant": {"data": {"a": 1}}})
    assert await own_rows(glob, message=made["id"]) == []


@pytest.mark.requirement("core-15-13")
async def test_audit_failure_does_not_prevent_change(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> int:
        raise RuntimeError("no numbers")

    async with build(audit__api_writes="true") as audited:
        monkeypatch.setattr(internals.store(audited, "audit_logs"), "next_id", broken)
        async with checking_client(audited.base_url, headers={"Authorization": SUPER_KEY}) as client:
            answer = await client.post("/api/tenant", json={"tenant": {"name": "made"}})
            assert answer.status_code == 200
            found = await client.get(f"/api/tenant/{answer.json()['tenant']['id']}")
            assert found.json()["tenant"]["name"] == "made"
