"""Login intents in Redis: logins that continue after the user submits a page. Each is consumed once.

The key contains the SHA-256 of a secret that only the browser's cookie contains. The member `answers` of an intent,
what the user entered in a registration form, is encrypted, because it may contain a password.
"""

from __future__ import annotations

import json
from typing import Any, Final

from identity.call import Document
from identity.ids import Secret, TenantId, fingerprint, new_secret
from identity.store.redis import SealedRedisStore, parse_document

_ANSWERS: Final = "answers"


class LoginIntents(SealedRedisStore):
    """The login intents of all tenants."""

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
