"""Queries for the command line, which runs with or without the service."""

from __future__ import annotations

from identity.call import Document
from identity.domain.configuration import key_rotation
from identity.errors import StartupError
from identity.store.documents import plain
from identity.store.mongo import BULK_SECONDS, STORE_ERRORS, Database
from identity.store.store_circuit_breaker import time_limit

_WITHOUT_SECRETS = {"private": 0, "oauthConfiguration.clientSecret": 0}


async def active_clients_across_tenants(database: Database) -> list[tuple[Document, Document, str | None]]:
    """The tenant of each active application, the application without its secrets, and its ID tokens' algorithm.

    They are sorted by tenant and name. The algorithm is None where a client secret signs. Raises StartupError when
    MongoDB does not let them be read.
    """
    try:
        with time_limit(BULK_SECONDS):
            tenants = {
                tenant["_id"]: tenant async for tenant in database.collection("tenants").find({"state": "Active"})
            }
            found = database.collection("applications").find({"active": True}, _WITHOUT_SECRETS)
            applications = [application async for application in found.sort([("tenantId", 1), ("name", 1)])]
            keys = database.collection("keys").find({}, {"algorithm": 1})
            algorithms = {key["_id"]: key["algorithm"] async for key in keys}
    except STORE_ERRORS as error:
        reason = str(error).partition(", full error")[0]
        raise StartupError(f"MongoDB does not let applications be read (mongodb.uri): {reason}") from error
    clients = [
        (_plain(tenants[application["tenantId"]]), _plain(application))
        for application in applications
        if application["tenantId"] in tenants
    ]
    return [(*client, algorithms.get(key_rotation.setting(*client, "idTokenKeyId"))) for client in clients]


async def tenants(database: Database) -> list[Document]:
    """The id, name and issuer of each tenant, by name. Raises StartupError when MongoDB does not let them be read."""
    try:
        with time_limit(BULK_SECONDS):
            found = database.collection("tenants").find({}, {"name": 1, "issuer": 1}).sort([("name", 1)])
            return [_plain(tenant) async for tenant in found]
    except STORE_ERRORS as error:
        reason = str(error).partition(", full error")[0]
        raise StartupError(f"MongoDB does not let tenants be read (mongodb.uri): {reason}") from error


def _plain(stored: Document) -> Document:
    return {**plain(stored), "id": stored["_id"]}
