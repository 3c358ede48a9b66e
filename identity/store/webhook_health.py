"""How long each webhook has been failing without a success, across all processes."""

from __future__ import annotations

import dataclasses

from pymongo import ReturnDocument

from identity.ids import WebhookId
from identity.instants import Instant
from identity.store.mongo import Collection, Database


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookFailure:
    """The begin of the failure of a webhook and the number of failed attempts."""

    since: Instant
    failures: int


class WebhookHealth:
    """The collection `webhook_health`, with a document for each failing webhook."""

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
        """Add failures to the current failure of a webhook, and return it.

        A new failure begins if the last one is older than `forget_before` or began before the webhook was changed
        (`changed_at`). Its warnings start anew.
        """
        old = [{"lastFailure": {"$lt": forget_before}}, {"since": {"$lt": changed_at}}]
        await self._rows.delete_one({"_id": webhook_id, "$or": old})
        change = {"$min": {"since": at}, "$max": {"lastFailure": at}, "$inc": {"failures": failures}}
        row = await self._rows.find_one_and_update(
            {"_id": webhook_id}, change, upsert=True, return_document=ReturnDocument.AFTER
        )
        return WebhookFailure(Instant(row["since"]), row["failures"])

    async def record_success(self, _tenant: None, webhook_id: WebhookId) -> None:
        """End the failure of a webhook."""
        await self._rows.delete_one({"_id": webhook_id})

    async def claim_warning(self, _tenant: None, webhook_id: WebhookId, percent: int) -> bool:
        """Whether the caller has to send the warning for a percentage; True for only one of several callers."""
        where = {"_id": webhook_id, "warned": {"$not": {"$gte": percent}}}
        return (await self._rows.update_one(where, {"$set": {"warned": percent}})).modified_count == 1
