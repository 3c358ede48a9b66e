"""Databases of the services that tests start."""

from __future__ import annotations

import pymongo
import redis.asyncio

from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores


class Databases:
    """Hands out empty databases. Used ones are emptied: creating all collections and indexes takes half a second."""

    def __init__(self, stores: EmbeddedStores) -> None:
        self._mongodb: pymongo.AsyncMongoClient[dict[str, object]] = pymongo.AsyncMongoClient(str(stores.mongodb_uri))
        self._redis = redis.asyncio.Redis.from_url(str(stores.redis_url))
        self._empty: list[str] = []

    def take(self) -> str:
        """Return the name of an empty database."""
        return self._empty.pop() if self._empty else f"test_{new_id()[:13].replace('-', '')}"

    async def give_back(self, name: str) -> None:
        """Empty a database that no service uses any more."""
        database = self._mongodb[name]
        for collection in await database.list_collection_names():
            await database[collection].delete_many({})
        async for key in self._redis.scan_iter(match=f"{name}:*", count=10_000):
            await self._redis.delete(key)
        self._empty.append(name)

    async def close(self) -> None:
        await self._mongodb.close()
        await self._redis.aclose()
