"""The collection of groups, in which SCIM clients look for their own ids."""

from __future__ import annotations

from typing import Final

from pymongo import IndexModel

from identity.store.documents import Documents

_EXTERNAL_ID: Final = "private.externalId"


class Groups(Documents):
    """The collection of groups."""

    def indexes(self) -> list[IndexModel]:
        """The indexes of searches, and that of the `externalId` of SCIM clients, which few groups have."""
        where = {_EXTERNAL_ID: {"$exists": True}}
        keys = [("tenantId", 1), (_EXTERNAL_ID, 1)]
        return [*super().indexes(), IndexModel(keys, name="externalId", partialFilterExpression=where)]
