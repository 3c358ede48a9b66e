"""Order, where a webhook asks for it: its deliveries about one object go one after the other, by their sequence.

The first about an object goes. The second is looked at again when the lease of the first has run out, and all others
far later: whoever ends lets the next one go, so one look at each is enough, however many of them wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pymongo import IndexModel, UpdateMany, UpdateOne

from identity.call import Document
from identity.ids import WebhookId
from identity.instants import Instant, later
from identity.store.mongo import Collection

INDEX: Final = IndexModel(
    [("webhookId", 1), ("linkedObjectId", 1), ("sequence", 1)],
    name="order",
    partialFilterExpression={"isOrdered": True, "state": "due"},
)
_WAITS: Final = {"state": "due", "waits": True}
WAITING: Final = IndexModel([("state", 1), ("waits", 1)], name="waiting", partialFilterExpression=_WAITS)
_FAR_SECONDS: Final = 3600
"""How long one waits that is neither the first nor the second about its object."""


class DeliveryOrder:
    """The ordered ones among the rows of `deliveries`; one that `waits` was put off for one before it."""

    def __init__(self, deliveries: Collection) -> None:
        self._deliveries = deliveries

    async def unblocked(self, candidates: Sequence[Document], now: Instant, until: Instant) -> list[str]:
        """The ids of those that may go: of ordered deliveries the first about each object, when its time has come.

        All later ones about that object are put off, so that those of other objects come to the front. `until` is the
        end of the leases that are taken now.
        """
        free = [row["_id"] for row in candidates if not row.get("isOrdered")]
        latest: dict[tuple[str, str], int] = {}
        for row in candidates:
            if row.get("isOrdered"):
                key = (row["webhookId"], row["linkedObjectId"])
                latest[key] = max(latest.get(key, 0), row["sequence"])
        for key, sequence in latest.items():
            rest = _in_order(*key)
            members = {"nextAttempt": 1, "sequence": 1, "waits": 1}
            queue = await self._deliveries.find(rest, members).sort("sequence", 1).limit(2).to_list(None)
            if queue and queue[0]["nextAttempt"] <= now:
                free.append(queue[0]["_id"])
            if len(queue) > 1:
                first, second = queue
                again = first["nextAttempt"] + 1 if first["nextAttempt"] > now else until
                await self._put_off(rest, second, now, again, behind=sequence > second["sequence"])
        return free

    async def _put_off(self, rest: Document, second: Document, now: Instant, again: Instant, *, behind: bool) -> None:
        """Let the second wait until `again` and, where one `behind` it has come to be looked at, all others for long.

        One whose own time is still to come is left alone, unless it only waits: it may be leased, or be tried again
        then, where the first was asked for once more.
        """
        writes: list[UpdateOne | UpdateMany] = []
        far = later(now, seconds=_FAR_SECONDS)
        if behind:
            waiting = {**rest, "sequence": {"$gt": second["sequence"]}, "nextAttempt": {"$lte": now}}
            writes.append(UpdateMany(waiting, {"$set": {"nextAttempt": far, "waits": True}}))
        again = min(again, far)
        if second["nextAttempt"] <= now or (second.get("waits") and second["nextAttempt"] > again):
            # As it was read: it may go, or be on its way, by now.
            as_read = {"_id": second["_id"], "state": "due", "nextAttempt": second["nextAttempt"]}
            writes.append(UpdateOne(as_read, {"$set": {"nextAttempt": again, "waits": True}}))
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)

    async def let_follow(self, ended: Mapping[tuple[WebhookId, str | None], Instant]) -> bool:
        """Let the next about each of these objects go, at its instant, where it waits only for those that have ended.

        Answers whether there was any. A process that dies before it says so leaves it to wait until the lease of the
        one before would have run out.
        """
        writes = []
        for (webhook_id, object_id), instant in ended.items():
            rest = _in_order(webhook_id, object_id)
            first = await self._deliveries.find_one(rest, {"waits": 1}, sort=[("sequence", 1)])
            if first is not None and first.get("waits"):
                change = {"$set": {"nextAttempt": instant}, "$unset": {"waits": ""}}
                writes.append(UpdateOne({"_id": first["_id"], "state": "due", "waits": True}, change))
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)
        return bool(writes)

    async def waiting(self, most: int) -> int:
        """How many wait for one before them, `most` for as many or more; from the index of those alone."""
        return await self._deliveries.count_documents(_WAITS, limit=most, hint=WAITING.document["name"])


def _in_order(webhook_id: str, object_id: str | None) -> Document:
    """The deliveries to a webhook that follow each other because they are about the same object."""
    return {"webhookId": webhook_id, "linkedObjectId": object_id, "isOrdered": True, "state": "due"}
