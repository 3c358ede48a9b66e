"""/api/report: logins, active users and registrations, counted by hour, day and month."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals, relying_party
from tests.conftest import UNKNOWN_ID
from tests.relying_party import PASSWORD, RelyingParty

HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
async def in_utc(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """Reports whose days are those of UTC."""
    before = (await api.get("/api/system-configuration")).json()
    await api.patch("/api/system-configuration", json={"systemConfiguration": {"reportTimezone": "UTC"}})
    yield
    await api.put("/api/system-configuration", json=before)


async def add_login_record(service: Any, rp: RelyingParty, instant: int, **members: Any) -> None:
    """A login of the past."""
    row = {"instant": instant, "userId": rp.user["id"], "applicationId": rp.client_id, **members}
    await internals.store(service, "login_records").add(rp.tenant["id"], row)


async def report(key: httpx.AsyncClient, name: str, start: int, end: int, **query: Any) -> dict[str, Any]:
    answer = await key.get(f"/api/report/{name}", params={"start": start, "end": end, **query})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def codes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [entry["code"] for found in answer.json()["fieldErrors"].values() for entry in found]


@pytest.mark.requirement("core-14-5", "core-15-29")
async def test_logins_are_counted_hourly_and_filtered(service, key, rp, in_utc) -> None:
    day = 10_000 * DAY
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    for instant in (day, day + HOUR - 1, day + HOUR):
        await add_login_record(service, rp, instant)
    await add_login_record(service, rp, day + HOUR, userId=other["id"])
    await add_login_record(service, rp, day + HOUR, applicationId=new_id())
    await add_login_record(service, rp, day - 1)
    await add_login_record(service, rp, day + DAY)
    found = await report(key, "login", day + 5 * HOUR, day + 6 * HOUR)
    hour = day // HOUR
    counts = [{"interval": hour, "count": 2}, {"interval": hour + 1, "count": 3}]
    assert found == {"hourlyCounts": counts, "total": 5}
    for query, total in (
        ({"applicationId": rp.client_id}, 4),
        ({"userId": other["id"]}, 1),
        ({"loginId": rp.login_id, "applicationId": rp.client_id}, 3),
        ({"loginId": rp.login_id, "loginIdTypes": "username"}, 0),
        ({"loginId": "unknown@example.com"}, 0),
        ({"userId": UNKNOWN_ID}, 0),
    ):
        assert (await report(key, "login", day, day, **query))["total"] == total, query


@pytest.mark.requirement("core-15-29")
async def test_active_users_are_counted_once_per_day_and_month(service, key, rp, in_utc) -> None:
    first = 10_043 * DAY  # 1 July 1997
    other = new_id()
    for day in (0, 0, 1, 31):
        await add_login_record(service, rp, first + day * DAY)
    await add_login_record(service, rp, first, userId=other)
    found = await report(key, "daily-active-user", first, first + 31 * DAY)
    daily = [(one["interval"] - 10_043, one["count"]) for one in found["dailyActiveUsers"]]
    assert (daily, found["total"]) == ([(0, 2), (1, 1), (31, 1)], 4)
    found = await report(key, "monthly-active-user", first, first + 31 * DAY, applicationId=rp.client_id)
    assert found["monthlyActiveUsers"] == [{"interval": 330, "count": 2}, {"interval": 331, "count": 1}]


@pytest.mark.requirement("core-15-29")
async def test_days_follow_report_time_zone(service, key, rp, api, in_utc) -> None:
    midnight = 10_043 * DAY
    await add_login_record(service, rp, midnight)
    await api.patch("/api/system-configuration", json={"systemConfiguration": {"reportTimezone": "America/Denver"}})
    found = await report(key, "daily-active-user", midnight, midnight)
    assert found["dailyActiveUsers"] == [{"interval": 10_042, "count": 1}]
    assert (await report(key, "daily-active-user", midnight + DAY, midnight + DAY))["total"] == 0
    assert (await report(key, "monthly-active-user", midnight, midnight))["monthlyActiveUsers"][0]["interval"] == 329


@pytest.mark.requirement("core-14-5", "core-15-29")
async def test_registrations_and_totals_are_counted(key, rp, clock) -> None:
    await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    await relying_party.make_user(rp.api, rp.tenant["id"])
    now = clock.now()
    found = await report(key, "registration", now - DAY, now)
    assert found["total"] == sum(one["count"] for one in found["hourlyCounts"]) == 2
    assert {one["interval"] for one in found["hourlyCounts"]} <= {now // HOUR - 1, now // HOUR}
    assert (await report(key, "registration", now, now, applicationId=UNKNOWN_ID))["total"] == 0
    body = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    assert (await key.post("/api/login", json=body)).status_code == 200
    totals = (await key.get("/api/report/totals")).json()
    assert (totals["globalRegistrations"], totals["totalGlobalRegistrations"]) == (3, 3)
    counted = {"logins": 3, "registrations": 2, "totalRegistrations": 2}
    assert totals["applicationTotals"] == {rp.client_id: counted}
    without = (await key.get("/api/report/totals", params={"excludes": "applicationTotals"})).json()
    assert without.keys() == {"globalRegistrations", "totalGlobalRegistrations"}


@pytest.mark.requirement("core-15-29")
async def test_missing_and_invalid_members_are_reported(key) -> None:
    for name in ("login", "daily-active-user", "monthly-active-user", "registration"):
        assert codes(await key.get(f"/api/report/{name}")) == ["[missing]end", "[missing]start"]
        wrong = {"start": "x", "end": 10**17}
        assert codes(await key.get(f"/api/report/{name}", params=wrong)) == [
            "[couldNotConvert]end", "[couldNotConvert]start",
        ]  # fmt: skip
        wrong = {"start": 1, "end": 2, "applicationId": "x"}
        assert codes(await key.get(f"/api/report/{name}", params=wrong)) == ["[couldNotConvert]applicationId"]
    wrong = {"start": 1, "end": 2, "userId": "x"}
    assert codes(await key.get("/api/report/login", params=wrong)) == ["[couldNotConvert]userId"]
