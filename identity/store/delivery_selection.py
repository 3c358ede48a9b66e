"""Selection of the due deliveries to lease: lanes at random, for fairness, and ordered deliveries by sequence number.

A lane is the deliveries from one tenant to one webhook. An ordered webhook receives the events about one object one
after the other.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pymongo import IndexModel, UpdateMany, UpdateOne

from identity.call import Document
from identity.ids import WebhookId
from identity.instants import Instant, later
from identity.store.mongo import Collection

LANES_INDEX: Final = IndexModel([("state", 1), ("lane", 1), ("nextAttempt", 1)], name="lanes")
_LANES_PER_LEASE = 100
_LANES_PER_PAGE = 2000
"""The number of lanes per query; all of them may exceed the maximum size of a MongoDB reply."""
_PAGES_PER_LEASE = 8
"""The number of pages to read until one contains a webhook with capacity."""
LEASED_FIELDS: Final = {
    "_id": 1, "eventId": 1, "webhookId": 1, "attempts.id": 1, "base": 1, "asked": 1, "isManual": 1, "insertInstant": 1,
    "isOrdered": 1, "linkedObjectId": 1,
}  # fmt: skip
"""The members of a delivery that a lease contains."""

_Object = tuple[WebhookId, str | None]
"""The ids of a webhook and of the object that an event is about."""
_Write = UpdateOne | UpdateMany

ORDER_INDEX: Final = IndexModel(
    [("webhookId", 1), ("linkedObjectId", 1), ("sequence", 1)],
    name="order",
    partialFilterExpression={"isOrdered": True, "state": "due"},
)
_IS_WAITING: Final = {"state": "due", "waits": True}
WAITING_INDEX: Final = IndexModel([("state", 1), ("waits", 1)], name="waiting", partialFilterExpression=_IS_WAITING)
_OBJECTS_PER_QUERY: Final = 100
_POSTPONE_SECONDS: Final = 3600
"""How long a delivery is postponed that is neither the first nor the second about its object."""


def lane_of(webhook_id: str, tenant_id: str | None) -> str:
    """The lane of deliveries to a webhook from a tenant, or from the instance."""
    return f"{webhook_id}:{tenant_id or ''}"


LANE_EXPRESSION: Final = {"$concat": ["$webhookId", ":", {"$ifNull": ["$tenantId", ""]}]}
"""`lane_of` as an aggregation expression over a stored delivery."""


@dataclasses.dataclass(frozen=True, slots=True)
class DueLanes:
    """Lanes with due deliveries by webhook, and the capacity of each webhook that has any.

    `has_rows_without_lane`: processes of an earlier version insert deliveries without a lane.
    """

    lanes: Mapping[WebhookId, Sequence[str]]
    capacities: Mapping[WebhookId, int]
    has_rows_without_lane: bool


class DeliveryLanes:
    """Finds lanes with due deliveries. If there are very many, consecutive calls return consecutive pages."""

    def __init__(self, deliveries: Collection) -> None:
        self._deliveries = deliveries
        self._positions: dict[frozenset[str], str] = {}

    async def find_due(self, is_due: Document, capacity_of: Callable[[WebhookId], int]) -> DueLanes:
        """A page of lanes that match `is_due`, with at least one webhook that has capacity, if there is any.

        Lanes of webhooks without capacity are skipped. Live events and the backlog, which differ in the operators of
        `is_due`, have separate positions.
        """
        kind = frozenset(is_due["nextAttempt"])
        position, has_rows_without_lane = self._positions.get(kind, ""), False
        has_restarted = not position
        lanes: Mapping[WebhookId, Sequence[str]] = {}
        capacities: Mapping[WebhookId, int] = {}
        for _ in range(_PAGES_PER_LEASE):
            pages = self._deliveries.aggregate(lanes_pipeline(is_due, position), hint=LANES_INDEX.document["name"])
            found: list[str | None] = [row["_id"] for row in await pages.to_list(None)]
            has_rows_without_lane |= None in found
            lanes = _by_webhook([lane for lane in found if lane is not None])
            capacities = {webhook: capacity for webhook in lanes if (capacity := capacity_of(webhook)) > 0}
            position = "" if len(found) < _LANES_PER_PAGE else _next_position(found[-1], capacities)
            if capacities or (has_restarted and not position):
                break
            has_restarted |= not position
        self._positions[kind] = position
        return DueLanes(lanes, capacities, has_rows_without_lane)

    async def find_candidates(self, is_due: Document, due_lanes: DueLanes, limit: int) -> list[Document]:
        """The oldest deliveries of random lanes: of as many webhooks as possible, then of as many tenants of each."""
        lanes, capacities = due_lanes.lanes, due_lanes.capacities
        chosen = random.sample(list(capacities), min(len(capacities), _LANES_PER_LEASE, max(limit, 0)))
        if not chosen:
            return []
        share = -(-limit // len(chosen))
        lanes_per_webhook = _LANES_PER_LEASE // len(chosen)
        remaining = {webhook: min(capacities[webhook], share) for webhook in chosen}
        branches: list[list[Document]] = []
        for webhook, capacity in remaining.items():
            count = min(len(lanes[webhook]), lanes_per_webhook, capacity)
            branches += [_oldest(is_due, lane, -(-capacity // count)) for lane in random.sample(lanes[webhook], count)]
        unions = [{"$unionWith": {"coll": self._deliveries.name, "pipeline": branch}} for branch in branches[1:]]
        candidates = []
        # The shares of the lanes were rounded up: enforce the capacity of each webhook again.
        for row in await self._deliveries.aggregate([*branches[0], *unions]).to_list(None):
            if remaining[row["webhookId"]] > 0:
                remaining[row["webhookId"]] -= 1
                candidates.append(row)
        return candidates[:limit]


def lanes_pipeline(is_due: Document, position: str) -> list[Document]:
    """The pipeline that lists the lanes after `position`, reading one index entry per lane."""
    where = {**is_due, "lane": {"$gt": position}} if position else is_due
    order = {name: 1 for name, _ in LANES_INDEX.document["key"].items()}
    return [{"$match": where}, {"$sort": order}, {"$group": {"_id": "$lane"}}, {"$limit": _LANES_PER_PAGE}]


def _next_position(lane: str | None, capacities: Mapping[WebhookId, int]) -> str:
    """The position after a lane, or after all lanes of its webhook if that has no capacity."""
    webhook = WebhookId((lane or "").partition(":")[0])
    return f"{lane}" if webhook in capacities else f"{webhook};"  # the character after the colon


def _by_webhook(lanes: Sequence[str]) -> dict[WebhookId, list[str]]:
    found: dict[WebhookId, list[str]] = collections.defaultdict(list)
    for lane in lanes:
        found[WebhookId(lane.partition(":")[0])].append(lane)
    return found


def _oldest(is_due: Document, lane: str, count: int) -> list[Document]:
    return [
        {"$match": {**is_due, "lane": lane}},
        {"$sort": {"nextAttempt": 1}},
        {"$limit": count},
        {"$project": {**LEASED_FIELDS, "sequence": 1}},
    ]


class DeliveryOrder:
    """The ordered deliveries; `waits` marks those that were postponed because of an earlier one.

    Only the first delivery about an object is unblocked. The second is examined again when the lease of the first
    expires; all later ones are postponed much further. The end of a delivery makes the next one due, so that each is
    examined about once, however many are waiting.
    """

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
        return await self._deliveries.count_documents(_IS_WAITING, limit=limit, hint=WAITING_INDEX.document["name"])


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
