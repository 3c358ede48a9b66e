"""Lookups of documents that share commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity import request_facts
from identity.ids import new_id
from identity.request_facts import RequestFacts
from identity.store.document_queries import DocumentLookups
from identity.trace_context import TraceContext

TENANTS = (new_id(), new_id())


class CountedCollection:
    """A collection that counts the commands of lookups."""

    def __init__(self, collection: Any) -> None:
        self.collection = collection
        self.count = 0

    def find(self, where: dict[str, Any]) -> Any:
        self.count += 1
        return self.collection.find(where)

    def find_one(self, where: dict[str, Any]) -> Any:
        self.count += 1
        return self.collection.find_one(where)


@pytest.fixture
async def people(database) -> AsyncIterator[CountedCollection]:
    """The same ten names in each of two tenants."""
    collection = database.collection(f"people_{new_id()}")
    for tenant_id in TENANTS:
        await collection.insert_many(
            [{"_id": new_id(), "tenantId": tenant_id, "name": f"name-{index}"} for index in range(10)]
        )
    yield CountedCollection(collection)
    await collection.drop()


async def test_concurrent_lookups_of_two_tenants_find_their_own_documents(people) -> None:
    lookups = DocumentLookups(people)
    wanted = [(tenant_id, f"name-{index}") for index in range(10) for tenant_id in TENANTS]
    found = await asyncio.gather(*(lookups.find(tenant_id, "name", name) for tenant_id, name in wanted))
    assert [(one["tenantId"], one["name"]) for one in found] == wanted
    assert people.count == 4  # one of each tenant for the first 16, and for the others
    missing = lookups.find(TENANTS[0], "_id", found[1]["_id"]), lookups.find(new_id(), "name", "name-1")
    assert await asyncio.gather(*missing, lookups.find(TENANTS[0], "name", "name-11")) == [None, None, None]


async def test_lookup_finds_what_was_inserted_while_another_one_runs(people) -> None:
    lookups = DocumentLookups(people)
    earlier = asyncio.create_task(lookups.find(TENANTS[0], "name", "late"))
    await asyncio.sleep(0)  # the first command is being sent
    await people.collection.insert_one({"_id": new_id(), "tenantId": TENANTS[0], "name": "late"})
    assert (await lookups.find(TENANTS[0], "name", "late"))["name"] == "late"
    await earlier


async def test_long_values_are_looked_up_alone(people) -> None:
    lookups, long = DocumentLookups(people), "x" * 400
    await people.collection.insert_one({"_id": new_id(), "tenantId": TENANTS[1], "name": long})
    found = await asyncio.gather(
        *(lookups.find(tenant_id, "name", name) for tenant_id in TENANTS for name in (long, "name-1"))
    )
    assert [one is not None for one in found] == [False, True, True, True]
    assert people.count == 4


async def test_traced_request_has_commands_of_its_own(people) -> None:
    lookups = DocumentLookups(people)

    async def traced() -> Any:
        request_facts.begin(RequestFacts(trace=TraceContext("1" * 32, "2" * 16, 1)))
        return await lookups.find(TENANTS[0], "name", "name-1")

    found = await asyncio.gather(*(asyncio.create_task(traced()) for _ in range(3)))
    assert {one["name"] for one in found} == {"name-1"}
    assert people.count == 3
