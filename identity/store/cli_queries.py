"""Queries of the command line, which runs with or without the service, and the sharding of large collections.

Sharding is untried on a sharded cluster; docs/scaling.md has the reasons.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.configuration.token_settings import ID_MEMBER, effective_keys
from identity.errors import StartupError
from identity.store.documents import plain
from identity.store.mongo import BULK_SECONDS, STORE_ERRORS, Database
from identity.store.store_circuit_breaker import time_limit

_WITHOUT_SECRETS = {"private": 0, "oauthConfiguration.clientSecret": 0}

_SHARDED = (
    "identity_provider_links", "login_records", "scope_consents", "two_factor_trusts", "users", "webauthn_credentials",
)  # fmt: skip
SHARD_KEYS: Final[Mapping[str, Mapping[str, int]]] = {name: {"tenantId": 1} for name in _SHARDED}
"""Collection -> shard key. Every unique index begins with it, and every hot query names it, except the reads by id that
fill the cache, which go to all shards."""


async def active_clients_across_tenants(database: Database) -> list[tuple[Document, Document, str | None]]:
    """The tenant of each active application, the application without its secrets, and its ID token algorithm.

    In the order of tenants and names. The algorithm is None if a client secret signs. Raises StartupError if MongoDB
    refuses the query.
    """
    with reading("applications"):
        cursor = database.collection("tenants").find({"state": "Active"})
        tenants = {tenant["_id"]: _plain(tenant) async for tenant in cursor}
        found = database.collection("applications").find({"active": True}, _WITHOUT_SECRETS)
        applications = [_plain(application) async for application in found.sort([("tenantId", 1), ("name", 1)])]
        keys = database.collection("keys").find({}, {"algorithm": 1})
        algorithms = {key["_id"]: key["algorithm"] async for key in keys}
    clients = [(tenants[one["tenantId"]], one) for one in applications if one["tenantId"] in tenants]
    return [(*client, algorithms.get(effective_keys(*client).get(ID_MEMBER))) for client in clients]


async def tenants(database: Database) -> list[Document]:
    """The id, name and issuer of each tenant, by name. Raises StartupError if MongoDB refuses the query."""
    with reading("tenants"):
        found = database.collection("tenants").find({}, {"name": 1, "issuer": 1}).sort([("name", 1)])
        return [_plain(tenant) async for tenant in found]


async def themes(database: Database) -> list[Document]:
    """The themes, by name. Raises StartupError if MongoDB refuses the query."""
    with reading("themes"):
        return [_plain(theme) async for theme in database.collection("themes").find({}).sort([("name", 1)])]


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Translate a failure of MongoDB in the block to StartupError."""
    try:
        with time_limit(BULK_SECONDS):
            yield
    except STORE_ERRORS as error:
        reason = str(error).partition(", full error")[0]
        raise StartupError(f"MongoDB does not let {what} be read (mongodb.uri): {reason}") from error


def _plain(stored: Document) -> Document:
    return {**plain(stored), "id": stored["_id"]}


def sharding_commands(database: str) -> list[Document]:
    """Return the commands of the database `admin` that shard the collections by tenant."""
    collections = [{"shardCollection": f"{database}.{name}", "key": dict(key)} for name, key in SHARD_KEYS.items()]
    return [{"enableSharding": database}, *collections]


async def shard(database: Database) -> AsyncIterator[Document]:
    """Run the commands and yield each one; an already sharded collection is left as it is.

    Raises StartupError if the server is not a mongos.
    """
    hello: Mapping[str, Any] = await database.hello()
    if hello.get("msg") != "isdbgrid":
        raise StartupError("mongodb.uri is not the address of a mongos, so that there is nothing to shard")
    for command in sharding_commands(database.motor.name):
        await database.run_as_administrator(command)
        yield command
