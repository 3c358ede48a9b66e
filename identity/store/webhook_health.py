"""Since when a webhook has been failing without a single success, over all processes."""

from __future__ import annotations

import dataclasses

from pymongo import ReturnDocument

from identity.ids import WebhookId
from identity.instants import Instant
from identity.store.mongo import Collection, Database


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookFailure:
    """A webhook that fails: since when, and how often it was seen to."""

    since: Instant
    failures: int


class WebhookHealth:
    """The collection `webhook_health`: a row for each webhook that is failing now."""

    def __init__(self, database: Database) -> None:
        self._rows: Collection = database.collection("webhook_health")

    async def record_failure(
        self,
        _tenant: None,
        webhook_id: WebhookId,
        at: Instant,
        failures: int,
        forget_before: Instant,
        changed_at: Instant,
    ) -> WebhookFailure:
        """Note failures; a row whose last failure is older than `forget_before` starts anew.

        So does one that began before the webhook was changed (`changed_at`): what was told of it was of that failure.
        """
        old = [{"lastFailure": {"$lt": forget_before}}, {"since": {"$lt": changed_at}}]
        await self._rows.delete_one({"_id": webhook_id, "$or": old})
        change = {"$min": {"since": at}, "$max": {"lastFailure": at}, "$inc": {"failures": failures}}
        row = await self._rows.find_one_and_update(
            {"_id": webhook_id}, change, upsert=True, return_document=ReturnDocument.AFTER
        )
        return WebhookFailure(Instant(row["since"]), row["failures"])

    async def record_success(self, _tenant: None, webhook_id: WebhookId) -> None:
        """A success ends it."""
        await self._rows.delete_one({"_id": webhook_id})

    async def claim_warning(self, _tenant: None, webhook_id: WebhookId, percent: int) -> bool:
        """Whether the caller is the one who is to tell of this percentage: one of all callers is."""
        where = {"_id": webhook_id, "warned": {"$not": {"$gte": percent}}}
        return (await self._rows.update_one(where, {"$set": {"warned": percent}})).modified_count == 1
