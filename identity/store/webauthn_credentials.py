"""The passkeys of users. Each belongs to one user of a tenant; its credential id is unique within the tenant.

Credentials are never cached, so that a deletion and the signature counter take effect immediately.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pymongo import IndexModel

from identity.call import Document
from identity.domain.objects.resource_definition import Unique
from identity.ids import TenantId
from identity.instants import Instant
from identity.store.documents import TenantDocuments
from identity.store.mongo import Session, duplicates

CREDENTIAL_ID = Unique("credentialId", ("tenantId", "credentialId"), "credentialId")
"""The unique index on credential ids: of two concurrent registrations of one, one fails."""


class WebAuthnCredentials(TenantDocuments):
    """The credentials of all tenants."""

    cache_size = 0
    collection_name = "webauthn_credentials"
    unique_indexes = (CREDENTIAL_ID,)

    def indexes(self) -> list[IndexModel]:
        """The unique index, and one by user."""
        return [*super().indexes(), IndexModel([("tenantId", 1), ("userId", 1), ("insertInstant", 1)], name="user")]

    async def find_of_user(self, tenant_id: TenantId, user_id: str) -> list[Document]:
        """The credentials of a user, oldest first."""
        found = await self.find_all(tenant_id, {"userId": user_id})
        return sorted(found, key=lambda credential: credential["insertInstant"])

    async def find_by_credential_id(self, tenant_id: TenantId, credential_id: str) -> Document | None:
        """The credential with an authenticator's credential id."""
        return await self.find_where(tenant_id, {"credentialId": credential_id})

    async def insert_all(
        self, tenant_id: TenantId, credentials: Sequence[Document], session: Session | None = None
    ) -> None:
        """Insert all credentials or none. Raises Duplicate."""
        if session is None:
            await self._database.in_transaction(functools.partial(self.insert_all, tenant_id, credentials))
            return
        rows = [self._encode(tenant_id, credential) for credential in credentials]
        with duplicates():
            await self._collection.insert_many(rows, session=session)

    async def record_use(
        self,
        tenant_id: TenantId,
        passkey_id: str,
        sign_count: int,
        now: Instant,
        session: Session | None = None,
        *,
        is_backed_up: bool,
    ) -> bool:
        """Store the signature counter and the instant of a use; False if the counter did not increase since.

        An authenticator without a counter returns 0 each time.
        """
        earlier = 0 if sign_count == 0 else {"$lt": sign_count}
        change = {"signCount": sign_count, "backedUp": is_backed_up, "lastUseInstant": now, "lastUpdateInstant": now}
        return await self._update_one(tenant_id, passkey_id, {"$set": change}, session, where={"signCount": earlier})
