"""Dynamic client registration: initial access tokens, and the registrations of clients.

Of both kinds of tokens only a fingerprint is stored. Neither collection is cached.
"""

from __future__ import annotations

from typing import Any

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import TenantId, same_secret
from identity.instants import Instant, as_datetime
from identity.store.documents import ExpiringDocuments, TenantDocuments
from identity.store.mongo import TTL_INDEX, Session


class InitialAccessTokens(ExpiringDocuments):
    """The initial access tokens of all tenants (RFC 7591 section 3)."""

    cache_size = 0
    collection_name = "initial_access_tokens"

    def indexes(self) -> list[IndexModel]:
        """The index by expiry, and the unique one of the token."""
        keys = [("tenantId", 1), ("private.fingerprint", 1)]
        return [TTL_INDEX, IndexModel(keys, name="fingerprint", unique=True)]

    async def add(self, tenant_id: TenantId, document: Document, token: str) -> None:
        """Store a new token."""
        stored = {**document, "tenantId": tenant_id, "private": {"fingerprint": self._vault.fingerprint(token)}}
        await self.insert(tenant_id, {**stored, "expiresAt": as_datetime(document["expiresAt"])})

    async def find_live(self, tenant_id: TenantId, token: str, now: Instant) -> Document | None:
        """The token with this value, if it can still be used."""
        fingerprint = {"private.fingerprint": self._vault.fingerprint(token)}
        return await self.find_where(tenant_id, {**fingerprint, **_live(now)})

    async def consume(self, tenant_id: TenantId, token_id: str, now: Instant, session: Session | None = None) -> bool:
        """Use a token once, by one atomic command; False if it is used up or expired."""
        change = {"$inc": {"remainingUses": -1}}
        return await self._update_one(tenant_id, token_id, change, session, where=_live(now))


class ClientRegistrations(TenantDocuments):
    """The registrations of all tenants, each with the id of its client."""

    cache_size = 0
    collection_name = "client_registrations"
    unique_indexes = (Unique("fingerprint", ("tenantId", "private.fingerprint"), "registration_access_token"),)

    async def add(
        self, tenant_id: TenantId, registration: Document, token: str, session: Session | None = None
    ) -> None:
        """Store a new registration."""
        private = {"fingerprint": self._vault.fingerprint(token)}
        await self.insert(tenant_id, {**registration, "tenantId": tenant_id, "private": private}, session)

    async def find_by_token(self, tenant_id: TenantId, client_id: str, token: str) -> Document | None:
        """The registration of a client, if this is its registration access token."""
        found = await self.find(tenant_id, client_id)
        fingerprint = self._vault.fingerprint(token)
        return found if found is not None and same_secret(found["private"]["fingerprint"], fingerprint) else None

    async def rotate(
        self,
        tenant_id: TenantId,
        registration: Document,
        metadata: Document,
        token: str,
        session: Session | None = None,
    ) -> bool:
        """Replace the metadata and the token, unless another request did since the registration was read."""
        fresh: dict[str, Any] = {"metadata": metadata, "private.fingerprint": self._vault.fingerprint(token)}
        unchanged = {"private.fingerprint": registration["private"]["fingerprint"]}
        return await self._update_one(tenant_id, registration["id"], {"$set": fresh}, session, where=unchanged)


def _live(now: Instant) -> dict[str, Any]:
    return {"remainingUses": {"$gt": 0}, "expiresAt": {"$gt": as_datetime(now)}}
