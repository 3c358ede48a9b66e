"""Lanes: the deliveries to one webhook from one tenant, of which those that are due are taken fairly."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from identity.call import Document
from identity.ids import WebhookId
from identity.store.mongo import Collection

_LANES_PER_LEASE = 100
LEASED_FIELDS: Final = {
    "_id": 1, "eventId": 1, "webhookId": 1, "attempts.id": 1, "base": 1, "isManual": 1, "insertInstant": 1,
    "isOrdered": 1, "linkedObjectId": 1,
}  # fmt: skip
"""What is read of a delivery to lease it."""


def lane_of(webhook_id: str, tenant_id: str | None) -> str:
    """Deliveries to one webhook from one tenant, or from the instance, are served one after the other."""
    return f"{webhook_id}:{tenant_id or ''}"


LANE_OF_ROW: Final = {"$concat": ["$webhookId", ":", {"$ifNull": ["$tenantId", ""]}]}
"""The same for a row that is stored already."""


def by_webhook(lanes: Sequence[str]) -> dict[WebhookId, list[str]]:
    """These lanes, under the webhook that each is of."""
    found: dict[WebhookId, list[str]] = {}
    for lane in lanes:
        found.setdefault(WebhookId(lane.partition(":")[0]), []).append(lane)
    return found


async def candidates(
    deliveries: Collection,
    is_due: Document,
    lanes: Mapping[WebhookId, Sequence[str]],
    rooms: Mapping[WebhookId, int],
    limit: int,
) -> list[Document]:
    """The oldest of some lanes: of as many webhooks as can be, and then of as many tenants of each."""
    chosen = random.sample(list(rooms), min(len(rooms), _LANES_PER_LEASE, max(limit, 0)))
    if not chosen:
        return []
    share = -(-limit // len(chosen))
    lanes_of_each = _LANES_PER_LEASE // len(chosen)
    branches: list[list[Document]] = []
    for webhook in chosen:
        room = min(rooms[webhook], share)
        some = random.sample(list(lanes[webhook]), min(len(lanes[webhook]), lanes_of_each, room))
        branches += [_oldest(is_due, lane, -(-room // len(some))) for lane in some]
    unions = [{"$unionWith": {"coll": deliveries.name, "pipeline": branch}} for branch in branches[1:]]
    found = await deliveries.aggregate([*branches[0], *unions]).to_list(None)
    return _within_room(found, {webhook: min(rooms[webhook], share) for webhook in chosen})[:limit]


def _within_room(found: Sequence[Document], rooms: Mapping[WebhookId, int]) -> list[Document]:
    """No more of each webhook than there is room for: the shares of its lanes were rounded up."""
    left = dict(rooms)
    kept = []
    for row in found:
        if left[row["webhookId"]] > 0:
            left[row["webhookId"]] -= 1
            kept.append(row)
    return kept


def _oldest(is_due: Document, lane: str, count: int) -> list[Document]:
    return [
        {"$match": {**is_due, "lane": lane}},
        {"$sort": {"nextAttempt": 1}},
        {"$limit": count},
        {"$project": {**LEASED_FIELDS, "sequence": 1}},
    ]
