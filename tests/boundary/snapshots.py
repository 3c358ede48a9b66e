"""The state in which every sequence begins: stored objects are put back, past every check."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from tests import internals
from tests.boundary.world import World
from tests.conftest import DEFAULT_TENANT

Document = dict[str, Any]

_STORES: Final = (
    "users", "groups", "families", "user_consents", "entities", "entity_grants", "entity_types", "tenants",
    "applications", "keys", "lambdas", "themes", "identity_providers", "consents", "user_actions",
    "user_action_reasons", "webhooks", "email_templates", "message_templates", "messengers",
    "ip_access_control_lists", "webauthn_credentials", "identity_provider_links",
)  # fmt: skip


@dataclasses.dataclass
class Snapshot:
    """The documents of the stores, by id."""

    documents: dict[str, dict[str, Document]]

    async def restore(self, world: World) -> None:
        """Put back what a sequence changed or deleted, and delete what it created."""
        for name, documents in self.documents.items():
            store = internals.store(world.service, name)
            current = {found["id"]: found for found in await store.find_all_across_tenants({})}
            for document_id, document in documents.items():
                await _put_back(store, document, current.get(document_id))
            for document_id in current.keys() - documents.keys():
                await store.delete(current[document_id].get("tenantId"), document_id)
        await _forget_attempts(world)
        world.attacker.forget()
        del world.console_box.mails[:-4]


async def _put_back(store: Any, document: Document, current: Document | None) -> None:
    tenant_id = document.get("tenantId")
    if current is None:
        await store.insert(tenant_id, {**document})
    elif {**current, **_versions(document)} != document:
        fresh = {**_versions(current), "lastUpdateInstant": current["lastUpdateInstant"] + 1}
        await store.replace(tenant_id, {**document, **fresh}, current["lastUpdateInstant"])


def _versions(document: Document) -> Document:
    """Return the members by which a store recognizes a concurrent change."""
    return {name: document[name] for name in ("lastLoginInstant", "lastUpdateInstant") if name in document}


async def take(world: World) -> Snapshot:
    """Return the documents as they are stored now."""
    found = {}
    for name in _STORES:
        documents = await internals.store(world.service, name).find_all_across_tenants({})
        found[name] = {document["id"]: document for document in documents}
    return Snapshot(found)


async def _forget_attempts(world: World) -> None:
    """Forget failed logins and limits, and end the sessions of administrators that recipes began."""
    client: Any = internals.redis(world.service).client
    keys = [key async for key in client.scan_iter(match="*limit*", count=1000)]
    keys += [key async for key in client.scan_iter(match="*failed*", count=1000)]
    if keys:
        await client.delete(*keys)
    for user_id in world.victims.ids:
        await internals.store(world.service, "sso_sessions").end_of_user(DEFAULT_TENANT, user_id)
        await internals.store(world.service, "refresh_tokens").revoke_user(DEFAULT_TENANT, user_id)


async def count_keys(world: World) -> int:
    """Return the number of API keys."""
    return len(await internals.store(world.service, "api_keys").find_all(None))
