"""The state of logins that continue later, in Redis: login intents, federation states and pending links.

Each is consumed once. Keys contain the SHA-256 of a secret or an id.
"""

from __future__ import annotations

import json
from typing import Any, Final

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_secret
from identity.store.redis import Redis, SealedRedisStore, parse_document
from identity.store.vault import Vault

_ANSWERS: Final = "answers"


class LoginIntents(SealedRedisStore):
    """The login intents of all tenants: logins that continue after the user submits a page.

    Only the browser's cookie contains the secret. The member `answers` of an intent, what the user entered in a
    registration form, is encrypted, because it may contain a password.
    """

    async def issue(self, tenant_id: TenantId, intent: Document, ttl_seconds: int) -> Secret:
        """Store an intent and return its new secret."""
        secret = new_secret()
        await self._redis.client.set(self._key(tenant_id, secret), self._dump(secret, intent), ex=ttl_seconds)
        return secret

    async def find(self, tenant_id: TenantId, secret: str) -> Document | None:
        """The intent with this secret."""
        return self._load(secret, await self._redis.client.get(self._key(tenant_id, secret)))

    async def consume(self, tenant_id: TenantId, secret: str) -> Document | None:
        """Atomically read and delete an intent; only one of several callers receives it."""
        return self._load(secret, await self._redis.client.getdel(self._key(tenant_id, secret)))

    async def replace(self, tenant_id: TenantId, secret: str, intent: Document) -> bool:
        """Replace an intent and keep its TTL; False if it no longer exists."""
        key, value = self._key(tenant_id, secret), self._dump(secret, intent)
        return bool(await self._redis.client.set(key, value, xx=True, keepttl=True))

    def _dump(self, secret: str, intent: Document) -> str:
        if _ANSWERS in intent:
            intent = {**intent, _ANSWERS: self._seal(intent[_ANSWERS], _context(secret))}
        return json.dumps(intent)

    def _load(self, secret: str, text: Any) -> Document | None:
        intent = parse_document(text)
        if intent is None or _ANSWERS not in intent:
            return intent
        return {**intent, _ANSWERS: self._unseal(intent[_ANSWERS], _context(secret))}

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._redis.key("login-intent", tenant_id, fingerprint(secret))


def _context(secret: str) -> str:
    return f"login_intents.{fingerprint(secret)}"


class FederationStates(SealedRedisStore):
    """The states of authorization requests while the browser is at another party, of one kind.

    Ids of different kinds are not interchangeable. A state belongs to one tenant and one browser: a caller without the
    browser's secret can neither read nor consume it. The value is encrypted.
    """

    def __init__(self, redis: Redis, vault: Vault, kind: str) -> None:
        super().__init__(redis, vault)
        self._kind = kind

    async def issue(
        self, tenant_id: TenantId, state_id: str, browser_secret: str, state: Document, ttl_seconds: int
    ) -> None:
        """Store a state for the browser with this secret."""
        sealed = self._seal(state, self._context(state_id))
        fields = {"tenant": tenant_id, "browser": fingerprint(browser_secret), "detour": sealed}
        await self._redis.set_hash(self._key(state_id), fields, ttl_seconds)

    async def find_across_tenants(self, state_id: str, browser_secret: str) -> tuple[TenantId, Document] | None:
        """The tenant and the state, if it belongs to the browser; the id determines the tenant."""
        fields: Any = self._redis.client.hmget(self._key(state_id), ["tenant", "detour", "browser"])
        tenant_id, sealed, owner = await fields
        is_owner = sealed is not None and owner == fingerprint(browser_secret)
        return self._opened(state_id, tenant_id, sealed) if is_owner else None

    async def consume_across_tenants(self, state_id: str, browser_secret: str) -> tuple[TenantId, Document] | None:
        """As `find_across_tenants`, and delete the state; only one of several callers receives it."""
        found: Any = await self._redis.run(
            "federation_state_consume", [self._key(state_id)], fingerprint(browser_secret)
        )
        return None if found is None else self._opened(state_id, *found)

    def _opened(self, state_id: str, tenant_id: str, sealed: str) -> tuple[TenantId, Document]:
        return TenantId(tenant_id), self._unseal(sealed, self._context(state_id))

    def _key(self, state_id: str) -> str:
        return self._redis.key("detour", self._kind, fingerprint(state_id))

    def _context(self, state_id: str) -> str:
        return f"detours.{self._kind}.{fingerprint(state_id)}"


class PendingLinks(SealedRedisStore):
    """Identity provider links to be completed by a login; each is consumed by its own tenant.

    The value is encrypted, because it may contain a token of the provider.
    """

    async def issue(self, tenant_id: TenantId, link: Document, ttl_seconds: int) -> Secret:
        """Store a link and return the id that completes it."""
        pending_id = new_secret()
        sealed = self._seal(link, self._context(pending_id))
        await self._redis.set_hash(self._key(pending_id), {"tenant": tenant_id, "link": sealed}, ttl_seconds)
        return pending_id

    async def find(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """The link with this id, if it belongs to the tenant."""
        found = await self.find_across_tenants(pending_id)
        return None if found is None or found[0] != tenant_id else found[1]

    async def find_across_tenants(self, pending_id: str) -> tuple[TenantId, Document] | None:
        """The tenant and the link; the id determines the tenant."""
        fields: Any = self._redis.client.hmget(self._key(pending_id), ["tenant", "link"])
        tenant_id, sealed = await fields
        return None if sealed is None else (TenantId(tenant_id), self._unseal(sealed, self._context(pending_id)))

    async def consume(self, tenant_id: TenantId, pending_id: str) -> Document | None:
        """Atomically read and delete a link; only one of several callers receives it."""
        sealed = await self._redis.run("pending_link_consume", [self._key(pending_id)], tenant_id)
        return None if sealed is None else self._unseal(sealed, self._context(pending_id))

    def _key(self, pending_id: str) -> str:
        return self._redis.key("pending-link", fingerprint(pending_id))

    def _context(self, pending_id: str) -> str:
        return f"pending_links.{fingerprint(pending_id)}"
