"""The instance document: the claim of the kickstart, and the release of quiesced processes."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator

import pytest

from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores
from identity.store.instance import INSTANCE_ID, InstanceStore
from identity.store.mongo import Database
from identity.store.vault import Vault, new_key_id
from tests.store.conftest import database_of_its_own


@pytest.fixture
async def database(stores: EmbeddedStores) -> AsyncIterator[Database]:
    """A database with one instance document."""
    async with database_of_its_own(stores) as connected:
        yield connected


@pytest.fixture
async def instance(database: Database) -> InstanceStore:
    """The store, with an instance."""
    store = InstanceStore(database)
    await store.ensure(Vault({new_key_id(): bytes(32)}))
    return store


async def let_the_lease_expire(database: Database) -> None:
    await database.collection("instance").update_one({"_id": INSTANCE_ID}, {"$set": {"kickstart.leaseUntil": 0}})


@pytest.mark.requirement("start-1")
async def test_one_of_many_processes_claims_the_kickstart(instance, database):
    claims = await asyncio.gather(*(instance.claim_kickstart(new_id()) for _ in range(64)))
    assert collections.Counter(claims) == {"mine": 1, "elsewhere": 63}
    await let_the_lease_expire(database)
    claims = await asyncio.gather(*(instance.claim_kickstart(new_id()) for _ in range(64)))
    assert collections.Counter(claims) == {"interrupted": 1, "elsewhere": 63}


@pytest.mark.requirement("start-1")
async def test_process_that_lost_the_claim_changes_nothing(instance, database):
    first, second = new_id(), new_id()
    assert await instance.claim_kickstart(first) == "mine"
    assert await instance.extend_kickstart(first)
    await let_the_lease_expire(database)
    assert await instance.claim_kickstart(second) == "interrupted"
    assert not await instance.extend_kickstart(first)
    await instance.finish_kickstart(first, "done")
    await instance.release_kickstart(first)
    assert await instance.is_kickstart_unfinished()
    await instance.finish_kickstart(second, "done")
    assert await instance.is_kickstarted()
    assert await instance.claim_kickstart(first) == "done"


@pytest.mark.requirement("start-1")
async def test_clearing_keeps_only_the_instance(instance, database):
    await database.collection("users").insert_one({"_id": "user"})
    await instance.clear_database()
    assert await database.collection("users").find_one({}) is None
    assert await instance.find_sealed_fingerprint_key() is not None


@pytest.mark.requirement("start-4")
async def test_releases_are_counted(instance):
    assert await instance.release_count() == 0
    assert await instance.release()
    assert await instance.release_count() == 1
