"""Name reservations: of two transactions that use a name, the second one sees the writes of the first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity.ids import new_id
from identity.store.mongo import Database, Session
from identity.store.name_reservations import NameReservations


@pytest.mark.requirement("core-10-12")
async def test_of_two_transactions_that_reserve_a_name_one_retries(database, stores) -> None:
    other = Database(str(stores.mongodb_uri), database.motor.name)
    sides = [(database, "one", "other"), (other, "other", "one")]
    for name in ("one", "other"):
        await database.motor[name].replace_one({"_id": "there"}, {}, upsert=True)

    async def claim(where: Database, own: str, foreign: str, name: str) -> bool:
        async def write(session: Session) -> bool:
            # A look before the claim: without it the loser's view would be of later, and there would be no race.
            await where.motor[own].find_one({"_id": "there"}, session=session)
            await asyncio.sleep(0)
            await NameReservations(where).reserve_across_tenants(name, session)
            if await where.motor[foreign].find_one({"_id": name}, session=session) is not None:
                return False
            await where.motor[own].insert_one({"_id": name}, session=session)
            return True

        return await where.in_transaction(write)

    try:
        for _ in range(10):
            name = new_id()
            assert sorted(await asyncio.gather(*(claim(*side, name) for side in sides))) == [False, True]
    finally:
        other.close()


async def test_name_reservations_expire(database) -> None:
    claims = NameReservations(database)
    await claims.ensure_indexes()

    async def write(session: Session) -> Any:
        return await claims.reserve_across_tenants("a name", session)

    await database.in_transaction(write)
    await database.in_transaction(write)
    assert [row["_id"] async for row in database.motor["claims"].find({"_id": "a name"})] == ["a name"]
    found = await database.motor["claims"].index_information()
    assert found["at_1"]["expireAfterSeconds"] == 3600
