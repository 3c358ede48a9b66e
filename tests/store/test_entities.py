"""Entities and grants in MongoDB, and separation of tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.domain.entities.entities import FIELDS
from identity.domain.objects.index_search import read
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.operations.entities import entities as entity_operations
from identity.operations.entities import entity_grants as grant_operations
from identity.store.cache import ChangeStreamStatus
from identity.store.entities import Entities, EntityGrants
from identity.store.mongo import Database
from identity.store.vault import Vault

ONE, OTHER = TenantId(new_id()), TenantId(new_id())
NOW = Instant(1_700_000_000_000)


@pytest.fixture
async def both(database: Database, vault: Vault) -> AsyncIterator[tuple[Entities, EntityGrants]]:
    rows = (entity_operations.RESOURCE, grant_operations.RESOURCE)
    kept = [
        {"tenant_scoped": True, "sealed": row.sealed, "unique": row.unique, "searches": row.search_rules}
        for row in rows
    ]
    found = (
        Entities(database, "entities", vault, ChangeStreamStatus(), **kept[0]),
        EntityGrants(database, "entity_grants", vault, ChangeStreamStatus(), **kept[1]),
    )
    for documents in found:
        await documents.ensure_indexes()
    yield found
    for name in ("entities", "entity_grants"):
        await database.collection(name).delete_many({})


def entity(tenant_id: str, **members: Any) -> dict[str, Any]:
    entity_id = new_id()
    stamps = {"insertInstant": 1, "lastUpdateInstant": 1}
    own = {"id": entity_id, "tenantId": tenant_id, "clientId": entity_id, "clientSecret": "secret", **stamps}
    return {"name": "One", "type": {"id": new_id()}, "private": {"terms": ["one"]}, **own, **members}


def grant(tenant_id: str, entity_id: str, **members: Any) -> dict[str, Any]:
    stamps = {"insertInstant": 1, "lastUpdateInstant": 1}
    own = {"id": new_id(), "tenantId": tenant_id, "entityId": entity_id, **stamps}
    return {"permissions": ["read", "write"], "private": {"entityName": "One", "typeId": "t"}, **own, **members}


async def add(documents: Any, *rows: dict[str, Any]) -> None:
    for row in rows:
        await documents.insert(row["tenantId"], row)


async def test_search_finds_those_of_the_tenant(both) -> None:
    entities, _ = both
    one, other = entity(ONE), entity(OTHER)
    await add(entities, one, other)
    for text in ("*", "one", "name:one"):
        query = read(FIELDS, {"queryString": text}, "", NOW)
        assert await entities.search_index(ONE, query) == (1, [one])
        assert await entities.search_index(OTHER, query) == (1, [other])
        assert (await entities.search_index_across_tenants(query))[0] == 2
    by_id = read(FIELDS, {"ids": [one["id"]]}, "", NOW)
    assert await entities.search_index(OTHER, by_id) == (0, [])


async def test_secret_is_sealed_and_opened(both, database) -> None:
    entities, _ = both
    one = entity(ONE)
    await add(entities, one)
    assert (await database.collection("entities").find_one({}))["clientSecret"] != "secret"
    assert await entities.get(ONE, one["id"]) == one


async def test_grants_of_an_entity_go_in_its_tenant_only(both) -> None:
    _, grants = both
    target, recipient = new_id(), new_id()
    on, of = grant(ONE, target, userId=new_id()), grant(ONE, recipient, recipientEntityId=target)
    left = grant(ONE, recipient, userId=new_id())
    await add(grants, on, of, left)
    await grants.delete_of_entity(OTHER, target, None)
    assert await grants.count(ONE) == 3
    await grants.delete_of_entity(ONE, target, None)
    assert await grants.find_all(ONE) == [left]


async def test_grants_of_a_user_go_in_the_user_s_tenant_only(both) -> None:
    _, grants = both
    user_id = new_id()
    await add(grants, grant(ONE, new_id(), userId=user_id), grant(ONE, new_id(), recipientEntityId=user_id))
    await grants.delete_of_user(OTHER, user_id, None)
    assert await grants.count(ONE) == 2
    await grants.delete_of_user(ONE, user_id, None)
    assert [found.get("userId") for found in await grants.find_all(ONE)] == [None]


async def test_grants_follow_their_target_in_its_tenant_only(both) -> None:
    _, grants = both
    target = {"id": new_id(), "name": "Two", "type": {"id": "u"}}
    made = grant(ONE, target["id"], userId=new_id())
    await add(grants, made)
    await grants.update_target(OTHER, target, ["write"], None)
    assert await grants.find_all(ONE) == [made]
    await grants.update_target(ONE, target, ["write"], None)
    (followed,) = await grants.find_all(ONE)
    assert followed["permissions"] == ["write"]
    assert followed["private"] == {"entityName": "Two", "typeId": "u"}


async def test_permission_is_renamed_and_removed_in_every_tenant(both) -> None:
    _, grants = both
    await add(grants, *(grant(tenant_id, new_id(), userId=new_id()) for tenant_id in (ONE, OTHER)))
    foreign = grant(ONE, new_id(), userId=new_id(), private={"entityName": "One", "typeId": "another"})
    await add(grants, foreign)
    await grants.rename_permission_across_tenants("t", "read", "see")
    await grants.rename_permission_across_tenants("t", "write", None)
    assert await grants.find_all(OTHER, {"private.typeId": "t"}) == await grants.find_all(OTHER)
    for tenant_id in (ONE, OTHER):
        (found,) = await grants.find_all(tenant_id, {"private.typeId": "t"})
        assert found["permissions"] == ["see"]
    assert await grants.find_all(ONE, {"private.typeId": "another"}) == [foreign]


async def test_lists_and_look_ups_stay_in_the_tenant(both) -> None:
    entities, _ = both
    one, other = entity(ONE), entity(OTHER)
    await add(entities, one, other)
    assert [found async for found in entities.iterate(ONE)] == [one]
    assert [found["id"] async for found in entities.iterate_across_tenants({"_id": other["id"]})] == [other["id"]]
    assert await entities.find_unordered(ONE, {"name": "One"}) == [one]
    assert await entities.find_unordered(ONE, {"_id": other["id"]}) == []
    assert [found async for found in entities.iterate(OTHER, {"_id": one["id"]})] == []


async def _must_not_load(*_: object) -> None:
    raise AssertionError("the document is in the cache")


async def test_document_is_cached_by_its_unique_members(both, monkeypatch) -> None:
    entities, grants = both
    entities._cache._stream_status.is_streaming = grants._cache._stream_status.is_streaming = True
    one, other = entity(ONE, clientId="one"), entity(OTHER, clientId="other")
    of = {"entityId": one["id"], "recipientEntityId": other["id"]}
    made = grant(ONE, one["id"], recipientEntityId=other["id"])
    await add(entities, one, other)
    await add(grants, made)
    for _ in range(2):
        assert await entities.find_cached_where_across_tenants({"clientId": "one"}) == one
        assert entities.peek_where({"clientId": "one"}) == one
        assert await entities.find_cached_where(ONE, {"clientId": "one"}) == one
        assert await grants.find_cached_where(ONE, of) == made
        monkeypatch.setattr(entities, "_load", _must_not_load)
    monkeypatch.undo()
    assert await entities.find_cached_where(OTHER, {"clientId": "one"}) is None
    assert await grants.find_cached_where(OTHER, of) is None
    renamed = {**one, "clientId": "two", "lastUpdateInstant": 2}
    await entities.replace(ONE, renamed, 1)
    assert entities.peek_where({"clientId": "one"}) is None
    assert await entities.find_cached_where_across_tenants({"clientId": "one"}) is None
    await entities.replace(OTHER, {**other, "clientId": "one", "lastUpdateInstant": 2}, 1)
    assert (await entities.find_cached_where_across_tenants({"clientId": "one"}) or {})["id"] == other["id"]
    assert await entities.find_cached_where_across_tenants({"clientId": "two"}) == renamed
    await grants.delete(ONE, made["id"])
    assert await grants.find_cached_where(ONE, of) is None


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entities, "cache_size", 2)


async def test_cache_of_ids_is_bounded(small_cache, both) -> None:
    entities, _ = both
    for number in range(4):
        await add(entities, entity(ONE, clientId=f"client {number}"))
        assert await entities.find_cached_where_across_tenants({"clientId": f"client {number}"}) is not None
    assert len(entities._ids_by_members) == 2
