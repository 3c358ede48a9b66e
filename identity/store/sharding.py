"""Sharding of the large collections by tenant. Untried on a sharded cluster; docs/scaling.md has the reasons."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.errors import StartupError
from identity.store.mongo import Database

SHARD_KEYS: Final[Mapping[str, Mapping[str, int]]] = {
    name: {"tenantId": 1}
    for name in (
        "identity_provider_links",
        "login_records",
        "scope_consents",
        "two_factor_trusts",
        "users",
        "webauthn_credentials",
    )
}
"""Collection -> shard key. Every unique index begins with it, and every hot query names it, except the reads by id that
fill the cache, which go to all shards."""


def commands(database: str) -> list[Document]:
    """Return the commands of the database `admin` that shard the collections."""
    shard = [{"shardCollection": f"{database}.{name}", "key": dict(key)} for name, key in SHARD_KEYS.items()]
    return [{"enableSharding": database}, *shard]


async def execute(database: Database) -> AsyncIterator[Document]:
    """Run the commands and yield each one; an already sharded collection is left as it is.

    Raises StartupError if the server is not a mongos.
    """
    hello: Mapping[str, Any] = await database.hello()
    if hello.get("msg") != "isdbgrid":
        raise StartupError("mongodb.uri is not the address of a mongos, so that there is nothing to shard")
    for command in commands(database.motor.name):
        await database.run_as_administrator(command)
        yield command
