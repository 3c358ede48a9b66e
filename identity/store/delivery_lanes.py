"""Delivery lanes: the deliveries from one tenant to one webhook. Fair leasing selects lanes at random."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pymongo import IndexModel

from identity.call import Document
from identity.ids import WebhookId
from identity.store.mongo import Collection

INDEX: Final = IndexModel([("state", 1), ("lane", 1), ("nextAttempt", 1)], name="lanes")
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
            pages = self._deliveries.aggregate(lanes_pipeline(is_due, position), hint=INDEX.document["name"])
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
    order = {name: 1 for name, _ in INDEX.document["key"].items()}
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
