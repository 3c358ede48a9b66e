"""Login records in MongoDB: batches, order, tenants, and deletion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.domain.objects.search import Criterion, SearchQuery
from identity.ids import ApplicationId, TenantId, UserId, new_id
from identity.instants import Instant
from identity.store import mongo
from identity.store.login_records import LoginRecords
from identity.store.mongo import Database


@pytest.fixture
async def records(database: Database) -> LoginRecords:
    made = LoginRecords(database)
    await made.ensure_indexes()
    return made


@pytest.fixture
def tenant_id() -> TenantId:
    return TenantId(new_id())


def row(instant: int, **members: Any) -> dict[str, Any]:
    return {"instant": instant, "userId": new_id(), **members}


def query(*criteria: Criterion, start_row: int = 0, number_of_results: int = 1000) -> SearchQuery:
    return SearchQuery(criteria, (), start_row, number_of_results)


async def instants(records: LoginRecords, tenant_id: TenantId, *criteria: Criterion, **page: int) -> list[int]:
    _, found = await records.search(tenant_id, query(*criteria, **page), with_total=False)
    return [one["instant"] for one in found]


async def test_newest_come_first_and_the_total_is_counted_on_request(records, tenant_id) -> None:
    for instant in (20, 10, 30):
        await records.add(tenant_id, row(instant))
    assert await instants(records, tenant_id) == [30, 20, 10]
    assert await instants(records, tenant_id, start_row=1, number_of_results=1) == [20]
    assert (await records.search(tenant_id, query(number_of_results=0), with_total=True)) == (3, [])
    assert (await records.search(tenant_id, query(number_of_results=0), with_total=False)) == (None, [])


async def test_criteria_filter_and_both_bounds_are_inclusive(records, tenant_id) -> None:
    mine = row(10, applicationId=new_id())
    for one in (mine, row(20), row(30)):
        await records.add(tenant_id, one)
    limits = Criterion("instant", "from", 20), Criterion("instant", "until", 30)
    assert await instants(records, tenant_id, *limits) == [30, 20]
    assert await instants(records, tenant_id, limits[0], Criterion("instant", "until", 29)) == [20]
    for name in ("userId", "applicationId"):
        assert await instants(records, tenant_id, Criterion(name, "exact", mine[name])) == [10]


async def test_tenant_sees_only_its_own_records(records, tenant_id) -> None:
    other = TenantId(new_id())
    await records.add(tenant_id, row(10))
    await records.add(other, row(20))
    assert await instants(records, tenant_id) == [10]
    assert [one["tenantId"] async for one in records.iterate(other, query())] == [other]
    assert {one["tenantId"] async for one in records.iterate(None, query())} >= {tenant_id, other}


async def test_concurrent_records_are_inserted_together_before_the_answer(records, tenant_id, monkeypatch) -> None:
    """Each record is stored when its call returns, even if it was inserted in a batch."""
    batches = []
    inserting = records._rows.insert_many

    def counted(rows: list[Any], **options: Any) -> Any:
        batches.append(len(rows))
        return inserting(rows, **options)

    monkeypatch.setattr(records._rows, "insert_many", counted, raising=False)

    async def add_and_look(instant: int) -> bool:
        await records.add(tenant_id, row(instant))
        return await instants(records, tenant_id, Criterion("instant", "from", instant), number_of_results=1) != []

    assert all(await asyncio.gather(*(add_and_look(instant) for instant in range(1, 201))))
    assert len(await instants(records, tenant_id)) == 200
    assert sum(batches) == 200 and len(batches) < 100


async def test_failed_batch_fails_all_its_callers_and_not_the_next_batch(records, tenant_id, monkeypatch) -> None:
    async def broken(_rows: list[Any], **_options: Any) -> None:
        raise ConnectionError("away")

    with monkeypatch.context() as patch:
        patch.setattr(records._rows, "insert_many", broken, raising=False)
        results = await asyncio.gather(*(records.add(tenant_id, row(1)) for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError] * 5
    await records.add(tenant_id, row(2))
    assert await instants(records, tenant_id) == [2]


async def test_cancelled_caller_does_not_cancel_the_batch(records, tenant_id) -> None:
    first = asyncio.create_task(records.add(tenant_id, row(1)))
    await asyncio.sleep(0)
    second = asyncio.create_task(records.add(tenant_id, row(2)))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert 2 in await instants(records, tenant_id)


async def test_row_of_an_aborted_transaction_is_not_stored(records, tenant_id, database) -> None:
    async def write(session: Any) -> None:
        await records.add(tenant_id, row(1), session)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.in_transaction(write)
    assert await instants(records, tenant_id) == []


@pytest.mark.requirement("users-10-13")
async def test_records_of_a_user_are_deleted_in_steps(records, tenant_id, monkeypatch) -> None:
    monkeypatch.setattr(mongo, "CHUNK", 2)
    user_id, other = UserId(new_id()), UserId(new_id())
    for instant in range(5):
        await records.add(tenant_id, row(instant, userId=user_id))
    await records.add(tenant_id, row(9, userId=other))
    await records.erase(tenant_id, user_id)
    assert await instants(records, tenant_id) == [9]
    await records.erase(TenantId(new_id()), other)
    assert await instants(records, tenant_id) == [9]


async def test_addresses_of_a_user_are_found_in_its_tenant(records, tenant_id) -> None:
    user_id = UserId(new_id())
    for address in ("203.0.113.1", "203.0.113.2", "203.0.113.1"):
        await records.add(tenant_id, row(1, userId=user_id, ipAddress=address))
    await records.add(tenant_id, row(1, userId=UserId(new_id()), ipAddress="203.0.113.3"))
    assert await records.find_ip_addresses(tenant_id, user_id) == {"203.0.113.1", "203.0.113.2"}
    assert await records.find_ip_addresses(TenantId(new_id()), user_id) == set()


async def test_records_of_an_application_and_of_a_tenant_are_deleted(records, tenant_id) -> None:
    application_id = ApplicationId(new_id())
    await records.add(tenant_id, row(1, applicationId=application_id))
    await records.add(tenant_id, row(2))
    await records.delete_of_application(TenantId(new_id()), application_id)
    assert await instants(records, tenant_id) == [2, 1]
    await records.delete_of_application(tenant_id, application_id)
    assert await instants(records, tenant_id) == [2]
    await records.delete_of_tenant(tenant_id)
    assert await instants(records, tenant_id) == []


async def test_older_rows_are_deleted(stores, tenant_id) -> None:
    """In a separate database, because deletion by age affects all tenants."""
    database = Database(str(stores.mongodb_uri), f"test_{new_id()[:13].replace('-', '')}")
    records = LoginRecords(database)
    for instant in (10, 20, 30):
        await records.add(tenant_id, row(instant))
    assert await records.delete_before(Instant(20)) == 1
    assert await instants(records, tenant_id) == [30, 20]
    await database.drop()
    database.close()
