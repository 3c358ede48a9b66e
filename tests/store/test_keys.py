"""The public halves of keys: read once, without secrets, until a key changes."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import new_id
from identity.operations.configuration.keys import RESOURCE
from identity.store.cache import ChangeStreamStatus
from identity.store.keys import Keys


@pytest.fixture
def keys(database, vault) -> Keys:
    stream_status = ChangeStreamStatus()
    stream_status.is_streaming = True
    return Keys(database, RESOURCE.collection, vault, stream_status, tenant_scoped=False, sealed=("privateKey",))


async def inserted(keys: Keys, **members) -> str:
    key = {"id": new_id(), "kid": new_id(), "algorithm": "RS256", "publicKey": "PEM", "privateKey": "secret"}
    await keys.insert(None, {**key, "insertInstant": 1, "lastUpdateInstant": 1, **members})
    return key["id"]


async def test_public_halves_have_no_secrets_and_keep_the_order_of_the_ids(keys):
    ids = [await inserted(keys) for _ in range(3)]
    found = await keys.public_halves(None, [ids[2], new_id(), ids[0], ids[1]])
    assert [key["id"] for key in found] == [ids[2], ids[0], ids[1]]
    assert all(key["publicKey"] == "PEM" and not {"privateKey", "secret"} & key.keys() for key in found)


async def test_only_a_changed_key_is_read_again(keys):
    ids = [await inserted(keys) for _ in range(2)]
    before = await keys.public_halves(None, ids)
    await keys.replace(None, {**(await keys.get(None, ids[0])), "publicKey": "another"}, 1)
    after = await keys.public_halves(None, ids)
    assert after[0]["publicKey"] == "another"
    assert after[1] is before[1]
    keys.invalidate_all()
    assert (await keys.public_halves(None, ids))[1] is not before[1]
    await keys.delete(None, ids[0])
    assert [key["id"] for key in await keys.public_halves(None, ids)] == [ids[1]]


async def test_many_keys_of_concurrent_callers(keys):
    ids = [await inserted(keys) for _ in range(20)]
    found = await asyncio.gather(*(keys.public_halves(None, ids[start:]) for start in range(10)))
    assert [[key["id"] for key in each] for each in found] == [ids[start:] for start in range(10)]
