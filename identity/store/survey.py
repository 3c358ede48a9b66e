"""A look at what an instance holds, for a command line that runs beside the service or without it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from identity.call import Document
from identity.store.documents import plain
from identity.store.guard import within
from identity.store.mongo import BULK_SECONDS, Database

_WITHOUT_SECRETS = {"private": 0, "oauthConfiguration.clientSecret": 0}


async def active_clients_across_tenants(database: Database) -> AsyncIterator[tuple[Document, Document]]:
    """Each active application with its tenant, by tenant and name; their secrets stay where they are."""
    with within(BULK_SECONDS):
        tenants = {}
        async for tenant in database.collection("tenants").find({"state": "Active"}, {"private": 0}):
            tenants[tenant["_id"]] = {**plain(tenant), "id": tenant["_id"]}
        found = database.collection("applications").find({"active": True}, _WITHOUT_SECRETS)
        async for application in found.sort([("tenantId", 1), ("name", 1)]):
            if application["tenantId"] in tenants:
                yield tenants[application["tenantId"]], {**plain(application), "id": application["_id"]}
