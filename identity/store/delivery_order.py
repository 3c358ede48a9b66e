"""Ordered delivery: an ordered webhook receives the events about one object one after the other, by sequence number.

Only the first delivery about an object is unblocked. The second is examined again when the lease of the first expires;
all later ones are postponed much further. The end of a delivery makes the next one due, so that each is examined about
once, however many are waiting.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pymongo import IndexModel, UpdateMany, UpdateOne

from identity.call import Document
from identity.ids import WebhookId
from identity.instants import Instant, later
from identity.store.mongo import Collection

_Object = tuple[WebhookId, str | None]
"""The ids of a webhook and of the object that an event is about."""
_Write = UpdateOne | UpdateMany

INDEX: Final = IndexModel(
    [("webhookId", 1), ("linkedObjectId", 1), ("sequence", 1)],
    name="order",
    partialFilterExpression={"isOrdered": True, "state": "due"},
)
_IS_WAITING: Final = {"state": "due", "waits": True}
WAITING: Final = IndexModel([("state", 1), ("waits", 1)], name="waiting", partialFilterExpression=_IS_WAITING)
_OBJECTS_PER_QUERY: Final = 100
_POSTPONE_SECONDS: Final = 3600
"""How long a delivery is postponed that is neither the first nor the second about its object."""


class DeliveryOrder:
    """The ordered deliveries; `waits` marks those that were postponed because of an earlier one."""

    def __init__(self, deliveries: Collection) -> None:
        self._deliveries = deliveries

    async def find_unblocked(self, candidates: Sequence[Document], now: Instant, until: Instant) -> list[str]:
        """The ids of the candidates that may be leased until `until`.

        Of ordered deliveries that is the first about each object, if it is due. Later ones about the object are
        postponed, so that the next query finds other objects.
        """
        unblocked = [row["_id"] for row in candidates if not row.get("isOrdered")]
        last_sequence: dict[_Object, int] = {}
        for row in candidates:
            if row.get("isOrdered"):
                key = (row["webhookId"], row["linkedObjectId"])
                last_sequence[key] = max(last_sequence.get(key, 0), row["sequence"])
        writes: list[_Write] = []
        for key, queue in (await self._find_first(list(last_sequence), 2)).items():
            if queue[0]["nextAttempt"] <= now:
                unblocked.append(queue[0]["_id"])
            if len(queue) > 1:
                first, second = queue
                retry_at = first["nextAttempt"] + 1 if first["nextAttempt"] > now else until
                later_ones = last_sequence[key] > second["sequence"]
                writes += _postponements(_same_object(*key), second, now, retry_at, later_ones=later_ones)
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)
        return unblocked

    async def _find_first(self, objects: Sequence[_Object], count: int) -> dict[_Object, list[Document]]:
        """The first due deliveries about each of these objects that has any, by one query for many objects."""
        found: dict[_Object, list[Document]] = collections.defaultdict(list)
        for start in range(0, len(objects), _OBJECTS_PER_QUERY):
            first, *others = (_first(key, count) for key in objects[start : start + _OBJECTS_PER_QUERY])
            unions = [{"$unionWith": {"coll": self._deliveries.name, "pipeline": branch}} for branch in others]
            for row in await self._deliveries.aggregate([*first, *unions]).to_list(None):
                found[row["webhookId"], row.get("linkedObjectId")].append(row)
        return found

    async def unblock_next(self, ended: Mapping[_Object, Instant]) -> bool:
        """Make the next waiting delivery about each object due at the instant its predecessor ended; True if any was.

        If a process dies before this, the next delivery waits until the lease of its predecessor would have expired.
        """
        writes = []
        for key, (first,) in (await self._find_first(list(ended), 1)).items():
            if first.get("waits"):
                change = {"$set": {"nextAttempt": ended[key]}, "$unset": {"waits": ""}}
                writes.append(UpdateOne({"_id": first["_id"], **_IS_WAITING}, change))
        if writes:
            await self._deliveries.bulk_write(writes, ordered=False)
        return bool(writes)

    async def count_waiting(self, limit: int) -> int:
        """The number of waiting deliveries, at most `limit`; reads only their index."""
        return await self._deliveries.count_documents(_IS_WAITING, limit=limit, hint=WAITING.document["name"])


def _postponements(
    same_object: Document, second: Document, now: Instant, retry_at: Instant, *, later_ones: bool
) -> Iterator[_Write]:
    """Yield the writes that postpone the second delivery until `retry_at` and, if `later_ones`, those after it.

    A delivery that is not due, and not waiting, remains as it is: it may be leased, or be due for a retry.
    """
    far = later(now, seconds=_POSTPONE_SECONDS)
    if later_ones:
        due = {**same_object, "sequence": {"$gt": second["sequence"]}, "nextAttempt": {"$lte": now}}
        yield UpdateMany(due, {"$set": {"nextAttempt": far, "waits": True}})
    retry_at = min(retry_at, far)
    if second["nextAttempt"] <= now or (second.get("waits") and second["nextAttempt"] > retry_at):
        # Compare and set: another process may have leased it since it was read.
        as_read = {"_id": second["_id"], "state": "due", "nextAttempt": second["nextAttempt"]}
        yield UpdateOne(as_read, {"$set": {"nextAttempt": retry_at, "waits": True}})


def _first(key: _Object, count: int) -> list[Document]:
    """The pipeline of the first due deliveries about an object."""
    members = dict.fromkeys(("webhookId", "linkedObjectId", "nextAttempt", "sequence", "waits"), 1)
    return [{"$match": _same_object(*key)}, {"$sort": {"sequence": 1}}, {"$limit": count}, {"$project": members}]


def _same_object(webhook_id: WebhookId, object_id: str | None) -> Document:
    """The filter of the due ordered deliveries to a webhook about one object."""
    return {"webhookId": webhook_id, "linkedObjectId": object_id, "isOrdered": True, "state": "due"}
