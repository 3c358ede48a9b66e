"""Searches and lists of two thousand documents: an index finds them, an index counts them, an index sorts them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from identity import collections
from identity.domain.entities import entities
from identity.domain.objects import name_suffixes, search, search_indexes
from identity.domain.objects.index_search import read as read_index_search
from identity.domain.objects.resource_definition import Resource
from identity.domain.objects.search import SearchQuery
from identity.domain.objects.search_expressions import Fields
from identity.domain.users import users
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.document_queries import conditions
from identity.store.documents import Documents
from identity.store.entities import Entities
from identity.store.index_search import IndexSearched
from identity.store.mongo import Database
from identity.store.users import Users
from identity.store.vault import Vault
from tests import internals

COUNT = 2000
NOW = Instant(1_700_000_000_000)
RARE, COMMON = "ue 0000", "value"
ONE, OTHER = TenantId("5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a1111"), TenantId("5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a2222")
KEPT = {"tenantId", "insertInstant"}

RESOURCES = {row.collection: row for row in collections.STORED_RESOURCES if row.search_rules.order_by}


def put(document: dict[str, Any], member: str, value: Any) -> None:
    *holders, last = member.split(".")
    for holder in holders:
        document = document.setdefault(holder, {})
    document[last] = value


def rows(resource: Resource) -> Iterator[dict[str, Any]]:
    """Documents with exactly the members that are searched or sorted."""
    rules = resource.search_rules
    members = {*rules.order_by.values(), *(rules.members.get(name, name) for name in rules.criteria)}
    members |= {key for unique in resource.unique for key in unique.keys}
    for index in range(COUNT):
        row: dict[str, Any] = {"_id": new_id(), "tenantId": OTHER if index % 2 else ONE, "insertInstant": index}
        for member in members - {"_id", "tenantId", "insertInstant"}:
            put(row, member, f"Value {index:05}")
        for name, kind in rules.criteria.items():
            if kind == "exact" and not name.endswith("Id"):
                put(row, rules.members.get(name, name), f"value {index % 4 // 2}")
            if kind == "tenants":
                row |= {"tenantIds": [ONE] if index % 10 == 0 else [], "global": index % 20 == 3}
        if search_indexes.has_name_suffixes(rules):
            put(row, name_suffixes.MEMBER, name_suffixes.of(row["name"]))
        yield row


@pytest.fixture(scope="module")
async def filled(stores: Any) -> AsyncIterator[dict[str, Documents]]:
    """Every collection that a declared resource searches, with its indexes."""
    database = Database(str(stores.mongodb_uri), f"test_{new_id()[:13].replace('-', '')}")
    vault, found = Vault({"test": bytes(32)}, bytes(32)), {}
    for name, row in RESOURCES.items():
        kept = {"tenant_scoped": row.tenant_scoped, "unique": row.unique, "searches": row.search_rules}
        found[name] = Documents(database, name, vault, ChangeStreamStatus(), **kept)
        await found[name].ensure_indexes()
        await database.collection(name).insert_many(list(rows(row)))
    yield found
    await database.drop()
    database.close()


def stages(plan: Any) -> Iterator[str]:
    """The names of all stages of a plan."""
    if isinstance(plan, dict):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        for name, value in plan.items():
            if name != "rejectedPlans":
                yield from stages(value)
        yield from (name for name in plan if name == "$sort")
    elif isinstance(plan, list):
        for item in plan:
            yield from stages(item)


async def plan_of(documents: Documents, command: dict[str, Any]) -> set[str]:
    explained = await documents._database.motor.command({"explain": command, "verbosity": "queryPlanner"})
    return set(stages({name: explained[name] for name in ("queryPlanner", "stages") if name in explained}))


class Recorded:
    """A fake collection that records the requested operations as commands."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self.commands: list[dict[str, Any]] = []

    def find(self, where: dict[str, Any], projection: dict[str, int] | None = None, **options: Any) -> Any:
        cursor = self._collection.find(where, projection, **options)
        command = {"find": self._collection.name, "filter": where}
        self.commands.append(command)
        recorded = self

        class Cursor:
            def __getattr__(self, name: str) -> Any:
                def chain(value: Any) -> Any:
                    nonlocal cursor
                    cursor = getattr(cursor, name)(value)
                    command[name] = dict(value) if name == "sort" else value
                    return self

                return chain

            async def __aiter__(self) -> AsyncIterator[Any]:
                async for row in cursor:
                    yield row

        assert recorded.commands
        return Cursor()

    def aggregate(self, pipeline: list[dict[str, Any]], **options: Any) -> Any:
        self.commands.append({"aggregate": self._collection.name, "pipeline": pipeline, "cursor": {}})
        return self._collection.aggregate(pipeline, **options)

    async def count_documents(self, where: dict[str, Any], **options: Any) -> int:
        pipeline = [{"$match": where}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
        if "limit" in options:
            pipeline.insert(1, {"$limit": options["limit"]})
        hint = {name: value for name, value in options.items() if name == "hint"}
        self.commands.append({"aggregate": self._collection.name, "pipeline": pipeline, "cursor": {}, **hint})
        return int(await self._collection.count_documents(where, **options))


async def plans(documents: Documents, run_query: Any) -> list[set[str]]:
    """The query plans of a search."""
    collection = documents._collection
    documents._collection = documents._totals._collection = recorded = Recorded(collection)  # type: ignore[assignment]
    documents.invalidate_all()
    try:
        await run_query(documents)
    finally:
        documents._collection = documents._totals._collection = collection
    return [await plan_of(documents, command) for command in recorded.commands]


async def run_search(
    documents: Documents, tenant_id: TenantId | None, query: SearchQuery
) -> tuple[int, list[dict[str, Any]]]:
    if tenant_id is None and documents.is_tenant_scoped:
        return await documents.search_across_tenants(query)
    return await documents.search(tenant_id, query)


async def run(documents: Documents, tenant_id: TenantId | None, request: dict[str, Any]) -> tuple[int, int]:
    """Search, assert that nothing is scanned, and return the total and the length of the page."""
    found: list[tuple[int, int]] = []

    async def run_query(documents: Documents) -> None:
        query = search.read(RESOURCES[documents.name].search_rules, request, "")
        total, page = await run_search(documents, tenant_id, query)
        found.append((total, len(page)))

    for plan in await plans(documents, run_query):
        assert "COLLSCAN" not in plan, request
        assert plan & {"IXSCAN", "COUNT_SCAN"}, request
        if is_in_order(RESOURCES[documents.name], request):
            assert not plan & {"SORT", "$sort"}, request
    return found[0]


def is_in_order(resource: Resource, request: dict[str, Any]) -> bool:
    """Whether an index has exactly this order; the few documents with a rare name may be sorted."""
    has_rare_name = request.get("name") == RARE and search_indexes.has_name_suffixes(resource.search_rules)
    return not has_rare_name and ("orderBy" not in request or not request.keys() - {"orderBy"})


SCOPES = [
    (name, tenant_id)
    for name, row in RESOURCES.items()
    for tenant_id in ((ONE, None) if row.tenant_scoped else (None,))
]


@pytest.mark.requirement("core-12-4", "core-12-9", "core-18-groups-13", "management-1")
@pytest.mark.parametrize(("name", "tenant_id"), SCOPES, ids=lambda part: "tenant" if part == ONE else part or "all")
async def test_every_order_is_that_of_an_index(filled, name, tenant_id) -> None:
    """In both directions, alone and as the default; the total is counted in an index."""
    expected = COUNT // 2 if tenant_id else COUNT
    orders = [
        f"{field} {direction}" for field in RESOURCES[name].search_rules.order_by for direction in ("ASC", "DESC")
    ]
    for request in ({}, *({"orderBy": order} for order in orders)):
        assert await run(filled[name], tenant_id, request) == (expected, 25)


@pytest.mark.requirement("core-12-4", "core-12-9")
@pytest.mark.parametrize(("name", "tenant_id"), SCOPES, ids=lambda part: "tenant" if part == ONE else part or "all")
async def test_every_criterion_is_found_in_an_index(filled, name, tenant_id) -> None:
    """Exact criteria in the default order require no sort; in any other order they still require no scan."""
    rules = RESOURCES[name].search_rules
    for criterion, kind in rules.criteria.items():
        if kind == "exact" and criterion.endswith("Id") and criterion != "tenantId":
            continue  # a made-up value is refused; the next test has them
        if kind == "flag":
            continue  # read with the rows of the default order
        value = ONE if kind == "tenants" or criterion == "tenantId" else "value 0" if kind == "exact" else RARE
        total, length = await run(filled[name], tenant_id, {criterion: value})
        assert total
        assert length == min(total, 25)
        for order in rules.order_by:
            assert await run(filled[name], tenant_id, {criterion: value, "orderBy": order}) == (total, length)


NAMED = [
    (name, tenant_id) for name, tenant_id in SCOPES if search_indexes.has_name_suffixes(RESOURCES[name].search_rules)
]


@pytest.mark.requirement("core-12-9", "management-1")
@pytest.mark.parametrize(("name", "tenant_id"), NAMED, ids=lambda part: "tenant" if part == ONE else part or "all")
async def test_search_by_a_part_of_a_name_uses_the_index(filled, name, tenant_id) -> None:
    rules = RESOURCES[name].search_rules
    assert await run(filled[name], tenant_id, {"name": COMMON}) == (COUNT // 2 if tenant_id else COUNT, 25)
    for text, matches in ((RARE, 10), ("E 01", COUNT // 2), ("*00042", 1), ("v*00042", 1), ("value 0012*", 10)):
        query = search.read(rules, {"name": text}, "")
        scope = {"tenantId": tenant_id} if tenant_id else {}
        total, _ = await run_search(filled[name], tenant_id, query)
        assert total in ({matches, matches // 2} if tenant_id else {matches}), text
        if matches > 25:
            continue
        where = {"$and": [scope, *conditions(query, has_suffixes=True)]}
        command = {"find": name, "filter": where, "sort": dict(query.order), "limit": 25}
        explained = await filled[name]._database.motor.command({"explain": command, "verbosity": "executionStats"})
        assert explained["executionStats"]["totalKeysExamined"] <= 12, text
        assert explained["executionStats"]["totalDocsExamined"] <= 10, text


async def test_exact_criterion_that_is_an_id_is_found_in_an_index(filled) -> None:
    documents = filled["entity_grants"]
    for first, criterion in enumerate(("entityId", "userId")):
        some_id, some = new_id(), {"insertInstant": {"$gte": 100 * first, "$lt": 100 * first + 40}}
        await documents._collection.update_many(some, {"$set": {criterion: some_id}})
        assert await run(documents, ONE, {criterion: some_id}) == (20, 20)
        assert await run(documents, None, {criterion: some_id}) == (40, 25)


@pytest.mark.requirement("core-12-11")
@pytest.mark.parametrize(("name", "tenant_id"), SCOPES, ids=lambda part: "tenant" if part == ONE else part or "all")
async def test_list_of_everything_comes_in_the_order_of_an_index(filled, name, tenant_id) -> None:
    async def run_query(documents: Documents) -> None:
        if tenant_id is None and documents.is_tenant_scoped:
            found = documents.iterate_across_tenants({})
        else:
            found = documents.iterate(tenant_id)
        instants = [document["insertInstant"] async for document in found]
        assert instants == sorted(instants, reverse=True)
        assert len(instants) == (COUNT // 2 if tenant_id else COUNT)

    (plan,) = await plans(filled[name], run_query)
    assert "IXSCAN" in plan
    assert not plan & {"SORT", "COLLSCAN"}


# The index search of users and entities


@pytest.fixture(scope="module")
async def searched(stores: Any) -> AsyncIterator[dict[str, IndexSearched]]:
    """Users and entities."""
    database = Database(str(stores.mongodb_uri), f"test_{new_id()[:13].replace('-', '')}")
    vault = Vault({"test": bytes(32)}, bytes(32))
    unique = next(row.unique for row in collections.STORED_RESOURCES if row.collection == "entities")
    found: dict[str, IndexSearched] = {
        "users": Users(database, vault, ChangeStreamStatus()),
        "entities": Entities(database, "entities", vault, ChangeStreamStatus(), tenant_scoped=True, unique=unique),
    }
    for documents in found.values():
        await documents.ensure_indexes()
        await documents._collection.insert_many([indexed_row(documents.fields, n) for n in range(COUNT)])
    yield found
    await database.drop()
    database.close()


def indexed_row(fields: Fields, index: int) -> dict[str, Any]:
    row: dict[str, Any] = {"_id": new_id(), "tenantId": OTHER if index % 2 else ONE, "insertInstant": index}
    for member in set(fields.sort.values()) - {"_id", "tenantId", "insertInstant"}:
        if member not in fields.optional or index % 3:
            put(row, member, f"value {index:05}")
    put(row, "private.terms", [f"value {index:05}"])
    return row


FIELDS = {"entities": entities.FIELDS, "users": users.INDEX_FIELDS}
SORTS = [
    (name, field, tenant_id)
    for name, fields in FIELDS.items()
    for field, member in fields.sort.items()
    for tenant_id in (ONE, None)
    if member in {"users": Users, "entities": Entities}[name].sorted_by
]


@pytest.mark.requirement("core-12-9")
@pytest.mark.parametrize(("name", "field", "tenant_id"), SORTS)
async def test_index_search_sorts_by_an_index(searched, name, field, tenant_id) -> None:
    expected = COUNT // 2 if tenant_id else COUNT
    for order, missing, start in itertools.product(("asc", "desc"), ("_first", "_last"), (0, 900)):
        criteria = {"sortFields": [{"name": field, "order": order, "missing": missing}], "startRow": start}
        query = read_index_search(FIELDS[name], criteria, "", NOW)
        found: list[Any] = []

        async def run_query(documents: IndexSearched) -> None:
            if tenant_id is None:
                found.append(await documents.search_index_across_tenants(query))  # noqa: B023
            else:
                found.append(await documents.search_index(tenant_id, query))  # noqa: B023

        for plan in await plans(searched[name], run_query):
            assert not plan & {"SORT", "COLLSCAN", "$sort"}, criteria
        total, page = found[0]
        assert (total, len(page)) == (expected, 25)


@pytest.mark.requirement("core-12-9")
@pytest.mark.parametrize("name", ["entities", "users"])
@pytest.mark.parametrize("tenant_id", [ONE, None], ids=["tenant", "all"])
async def test_one_term_is_found_in_an_index(searched, name, tenant_id) -> None:
    for text in ("value 00042", "value 0004*", "*0042"):
        query = read_index_search(FIELDS[name], {"queryString": text}, "", NOW)

        async def run_query(documents: IndexSearched) -> None:
            if tenant_id is None:
                total, _ = await documents.search_index_across_tenants(query)  # noqa: B023
            else:
                total, _ = await documents.search_index(tenant_id, query)  # noqa: B023
            assert total

        for plan in await plans(searched[name], run_query):
            assert plan & {"IXSCAN", "COUNT_SCAN"}
            assert "COLLSCAN" not in plan


# Totals


@pytest.mark.requirement("core-12-10")
async def test_total_is_cached_until_a_document_changes(service, tenant_api, tenant) -> None:
    applications = internals.store(service, "applications")
    query = search.read(applications.searches, {"numberOfResults": 0}, "")

    async def counted() -> tuple[int, int]:
        found: list[int] = []

        async def run_query(documents: Documents) -> None:
            found.append((await documents.search(tenant["id"], query))[0])

        collection = applications._collection
        applications._collection = applications._totals._collection = recorded = Recorded(collection)
        try:
            await run_query(applications)
        finally:
            applications._collection = applications._totals._collection = collection
        return found[0], sum("aggregate" in command for command in recorded.commands)

    applications.invalidate_all()
    assert await counted() == (0, 1)
    assert await counted() == (0, 0)
    made = await tenant_api.post("/api/application", json={"application": {"name": "One"}})
    assert await counted() == (1, 1)
    await tenant_api.delete(f"/api/application/{made.json()['application']['id']}?hardDelete=true")
    assert (await counted())[0] == 0


def test_indexes_are_few_and_none_twice() -> None:
    for row in RESOURCES.values():
        wanted = search_indexes.of_searches(row.search_rules, row.unique, tenant_scoped=row.tenant_scoped)
        assert len(set(wanted)) == len(wanted) <= 24, row.collection
        for keys, other in itertools.permutations(wanted, 2):
            assert other[: len(keys)] != keys, (row.collection, keys, other)
