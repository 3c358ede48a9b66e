"""The state in which every sequence begins: stored objects are put back, past every check."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from identity.app import ADMINISTRATOR_APPLICATION_ID
from tests import internals
from tests.boundary.victims import State
from tests.boundary.world import World
from tests.conftest import DEFAULT_TENANT

Document = dict[str, Any]

_LEFT_OUT: Final = frozenset({"api_keys", "system_configuration", "integrations"})
"""Keys are created for callers; single objects have no tenant and yield nothing."""
_MORE: Final = ("webauthn_credentials", "identity_provider_links")


def _stores(world: World) -> dict[str, Any]:
    """Return the stores of all objects that calls change, by name."""
    found = dict(internals.store(world.service, "collections"))
    found |= {name: internals.store(world.service, name) for name in _MORE}
    return {name: store for name, store in found.items() if name not in _LEFT_OUT}


@dataclasses.dataclass
class Snapshot:
    """What the stores contain before every sequence."""

    documents: dict[str, dict[str, Document]]
    """By store and id."""
    hashes: dict[str, str]
    """The hash of each collection."""
    administrators: State
    console: dict[str, Document]
    key_count: int

    async def restore(self, world: World) -> None:
        """Put back what a sequence changed or deleted, and delete what it created."""
        hashes = await _hashes(world)
        for name, store in _stores(world).items():
            if hashes.get(store.name) != self.hashes.get(store.name):
                await self._restore_store(store, self.documents[name])
        await _forget_attempts(world)
        world.attacker.forget()
        del world.console_box.mails[:-4]

    async def _restore_store(self, store: Any, documents: dict[str, Document]) -> None:
        current = {found["id"]: found for found in await store.find_all_across_tenants({})}
        for document_id, document in documents.items():
            await _put_back(store, document, current.get(document_id))
        for document_id in current.keys() - documents.keys():
            await store.delete(current[document_id].get("tenantId"), document_id)


async def _put_back(store: Any, document: Document, current: Document | None) -> None:
    tenant_id = document.get("tenantId")
    if current is None:
        await store.insert(tenant_id, {**document})
    elif {**current, **_versions(document)} == document:
        return
    elif "lastUpdateInstant" not in current:
        await store.delete(tenant_id, document["id"])
        await store.insert(tenant_id, {**document})
    else:
        fresh = {**_versions(current), "lastUpdateInstant": current["lastUpdateInstant"] + 1}
        await store.replace(tenant_id, {**document, **fresh}, current["lastUpdateInstant"])


def _versions(document: Document) -> Document:
    """Return the members by which a store recognizes a concurrent change."""
    return {name: document[name] for name in ("lastLoginInstant", "lastUpdateInstant") if name in document}


async def take(world: World) -> Snapshot:
    """Return the documents as they are stored now."""
    found = {}
    for name, store in _stores(world).items():
        documents = await store.find_all_across_tenants({})
        found[name] = {document["id"]: document for document in documents}
    await _forget_attempts(world)
    return Snapshot(found, await _hashes(world), await world.victims.state(), await console_of(world),
                    await count_keys(world))  # fmt: skip


async def _hashes(world: World) -> dict[str, str]:
    """Return the hash of each collection, which MongoDB computes."""
    names = [store.name for store in _stores(world).values()]
    found = await internals.database(world.service).motor.command("dbHash", collections=names)
    return dict(found["collections"])


async def _forget_attempts(world: World) -> None:
    """Forget failed logins and limits, and restore the sessions of the administrators."""
    client: Any = internals.redis(world.service).client
    keys = [key async for key in client.scan_iter(match="*limit*", count=5000)]
    keys += [key async for key in client.scan_iter(match="*failed*", count=5000)]
    if keys:
        await client.delete(*keys)
    await world.victims.sign_in()


async def flush(world: World) -> None:
    """Delete what expires: sessions, codes and counters would slow a long run down. Roles sign in again."""
    client: Any = internals.redis(world.service).client
    await client.flushdb()
    await world.victims.sign_in()


async def console_of(world: World) -> dict[str, Document]:
    """Return what decides who enters the console, by id: its application, the groups and providers that name it."""
    collections = internals.store(world.service, "collections")
    enabled = {f"applicationConfiguration.{ADMINISTRATOR_APPLICATION_ID}": {"$exists": True}}
    found = [
        *await collections["applications"].find_all(DEFAULT_TENANT, {"_id": ADMINISTRATOR_APPLICATION_ID}),
        *await collections["groups"].find_all(
            DEFAULT_TENANT, {"private.grants.applicationId": ADMINISTRATOR_APPLICATION_ID}
        ),
        *await collections["identity_providers"].find_all_across_tenants(enabled),
    ]
    return {document["id"]: _without_versions(document) for document in found}


def _without_versions(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in {"lastUpdateInstant", "insertInstant"}}


async def count_keys(world: World) -> int:
    """Return the number of API keys."""
    return int(await internals.database(world.service).motor["api_keys"].count_documents({}))
