"""Append-only logs: numbers, tenants, searches and deletion by age."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.domain.objects.resource_definition import SearchRules
from identity.domain.objects.search import Criterion, SearchQuery
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store.append_only_logs import AppendOnlyLog
from identity.store.mongo import Database

SEARCHES = SearchRules({"message": "text"}, {"insertInstant": "insertInstant"}, "insertInstant DESC")


@pytest.fixture
async def logbook(database: Database) -> AppendOnlyLog:
    made = AppendOnlyLog(database, f"log_{new_id()[:8]}", SEARCHES, tenant_scoped=True)
    await made.ensure_indexes()
    return made


def row(number: int, **members: Any) -> dict[str, Any]:
    return {"id": number, "insertInstant": number * 10, "message": f"row {number}", **members}


def query(*criteria: Criterion, start_row: int = 0, number_of_results: int = 25) -> SearchQuery:
    return SearchQuery(criteria, (("insertInstant", -1), ("_id", -1)), start_row, number_of_results)


async def numbers(logbook: AppendOnlyLog, tenant_id: TenantId | None = None) -> list[int]:
    return [found["id"] async for found in logbook.iterate(tenant_id, query())]


@pytest.mark.requirement("core-15-17")
async def test_numbers_are_unique_under_concurrency(logbook: AppendOnlyLog) -> None:
    found = await asyncio.gather(*(logbook.next_id() for _ in range(64)))
    assert sorted(found) == list(range(1, 65))


async def test_each_logbook_counts_by_itself(logbook: AppendOnlyLog, database: Database) -> None:
    await logbook.next_id()
    assert await AppendOnlyLog(database, f"log_{new_id()[:8]}", SEARCHES, tenant_scoped=True).next_id() == 1


@pytest.mark.requirement("design-state-4")
async def test_tenant_sees_only_its_own_rows(logbook: AppendOnlyLog) -> None:
    one, other = TenantId(new_id()), TenantId(new_id())
    await logbook.insert(one, row(1))
    await logbook.insert(other, row(2))
    await logbook.insert(None, row(3))
    assert await logbook.find(one, 1) == row(1, tenantId=one)
    assert await logbook.find(other, 1) is None
    assert await logbook.find(one, 3) is None
    assert await logbook.find(None, 1) == row(1, tenantId=one)
    assert await logbook.search(one, query()) == (1, [row(1, tenantId=one)])
    assert await numbers(logbook, other) == [2]
    assert await numbers(logbook) == [3, 2, 1]


@pytest.mark.requirement("design-state-4")
async def test_search_matches_sorts_and_pages(logbook: AppendOnlyLog) -> None:
    for number in range(1, 6):
        await logbook.insert(None, row(number))
    later = Criterion("insertInstant", "from", 20)
    earlier = Criterion("insertInstant", "until", 40)
    assert await logbook.search(None, query(later, earlier)) == (3, [row(4), row(3), row(2)])
    assert await logbook.search(None, query(later, start_row=1, number_of_results=1)) == (4, [row(4)])
    assert await logbook.search(None, query(Criterion("message", "text", "row 5"))) == (1, [row(5)])
    assert await logbook.search(None, query(number_of_results=0)) == (5, [])


@pytest.mark.requirement("core-15-24")
async def test_newest_rows_are_retained(logbook: AppendOnlyLog) -> None:
    for number in range(1, 6):
        await logbook.insert(None, row(number))
    assert await logbook.keep_newest(5) == 0
    assert await logbook.keep_newest(2) == 3
    assert await numbers(logbook) == [5, 4]


@pytest.mark.requirement("core-15-14")
async def test_older_rows_are_deleted(logbook: AppendOnlyLog) -> None:
    for number in range(1, 4):
        await logbook.insert(None, row(number))
    assert await logbook.delete_before(Instant(30)) == 2
    assert await numbers(logbook) == [3]
    assert await logbook.delete_before(Instant(30)) == 0


@pytest.mark.requirement("design-state-4")
async def test_newest_first_is_read_from_an_index(logbook: AppendOnlyLog, database: Database) -> None:
    plan = await database.motor.command(
        "explain", {"find": logbook.name, "filter": {"$and": [{}]}, "sort": {"insertInstant": -1, "_id": -1}}
    )
    assert "IXSCAN" in str(plan["queryPlanner"]["winningPlan"])
    assert "SORT" not in str(plan["queryPlanner"]["winningPlan"])


@pytest.mark.requirement("personal-1")
async def test_matching_rows_are_rewritten_in_every_tenant(logbook: AppendOnlyLog) -> None:
    one, other = TenantId(new_id()), TenantId(new_id())
    await logbook.insert(one, row(1, message="about ADA@example.com"))
    await logbook.insert(other, row(2, message="about ada@example.com"))
    await logbook.insert(None, row(3, message="about Grace"))

    def erased(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "message": "erased"} if "@" in found["message"] else found

    assert await logbook.rewrite_across_tenants(erased) == 2
    matching = await logbook.find_matching(one, ["reason", "message"], "ERASED|grace", 5)
    assert [found["id"] for found in matching] == [1]
    assert [found["message"] async for found in logbook.iterate(None, query())] == ["about Grace", "erased", "erased"]
    assert await logbook.find(one, 1) == row(1, message="erased", tenantId=one)


async def test_rows_of_one_tenant_are_rewritten(logbook: AppendOnlyLog) -> None:
    one, other = TenantId(new_id()), TenantId(new_id())
    await logbook.insert(one, row(1))
    await logbook.insert(other, row(2))
    assert await logbook.rewrite_of_tenant(one, lambda found: {**found, "message": "erased"}) == 1
    assert (await logbook.find(other, 2) or {})["message"] == "row 2"
