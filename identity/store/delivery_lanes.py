"""Lanes: the deliveries to one webhook from one tenant, of which those that are due are taken fairly."""

from __future__ import annotations

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
"""How many lanes are read at a time: their names, of all that there may be, are more than MongoDB answers at once."""
_PAGES_PER_LEASE = 8
"""How many such pages are gone through for one that has room, before others have their turn."""
LEASED_FIELDS: Final = {
    "_id": 1, "eventId": 1, "webhookId": 1, "attempts.id": 1, "base": 1, "asked": 1, "isManual": 1, "insertInstant": 1,
    "isOrdered": 1, "linkedObjectId": 1,
}  # fmt: skip
"""What is read of a delivery to lease it."""


def lane_of(webhook_id: str, tenant_id: str | None) -> str:
    """Deliveries to one webhook from one tenant, or from the instance, are served one after the other."""
    return f"{webhook_id}:{tenant_id or ''}"


LANE_OF_ROW: Final = {"$concat": ["$webhookId", ":", {"$ifNull": ["$tenantId", ""]}]}
"""The same for a row that is stored already."""


@dataclasses.dataclass(frozen=True, slots=True)
class DueLanes:
    """Lanes with something due, by webhook, and how many more each of those webhooks takes that take any.

    `has_strays`: there are rows without a lane, as processes of an older version write them.
    """

    lanes: Mapping[WebhookId, Sequence[str]]
    rooms: Mapping[WebhookId, int]
    has_strays: bool


class DeliveryLanes:
    """Finds the lanes with something due: all of them or, where they are very many, some, and the next time others."""

    def __init__(self, deliveries: Collection) -> None:
        self._deliveries = deliveries
        self._places: dict[frozenset[str], str] = {}

    async def due(self, is_due: Document, room_of: Callable[[WebhookId], int]) -> DueLanes:
        """Some that are due by this condition, of which one has room where any has.

        Those of a webhook without room are passed over, however many they are. What is late and what is not are gone
        through apart.
        """
        kind = frozenset(is_due["nextAttempt"])
        place, has_strays = self._places.get(kind, ""), False
        has_begun_anew = not place
        lanes: Mapping[WebhookId, Sequence[str]] = {}
        rooms: Mapping[WebhookId, int] = {}
        for _ in range(_PAGES_PER_LEASE):
            found = await self._page(is_due, place)
            has_strays |= None in found
            lanes = by_webhook([lane for lane in found if lane is not None])
            rooms = {webhook: room for webhook in lanes if (room := room_of(webhook)) > 0}
            place = "" if len(found) < _LANES_PER_PAGE else _behind(found[-1], rooms)
            if rooms or (has_begun_anew and not place):
                break
            has_begun_anew |= not place
        self._places[kind] = place
        return DueLanes(lanes, rooms, has_strays)

    async def _page(self, is_due: Document, behind: str) -> list[str | None]:
        pages = self._deliveries.aggregate(pipeline(is_due, behind), hint=INDEX.document["name"])
        return [row["_id"] for row in await pages.to_list(None)]


def pipeline(is_due: Document, behind: str) -> list[Document]:
    """The next lanes behind this one, in their order: of each the index gives one entry, and goes on to the next."""
    where = {**is_due, "lane": {"$gt": behind}} if behind else is_due
    order = {name: 1 for name, _ in INDEX.document["key"].items()}
    return [{"$match": where}, {"$sort": order}, {"$group": {"_id": "$lane"}}, {"$limit": _LANES_PER_PAGE}]


def _behind(lane: str | None, rooms: Mapping[WebhookId, int]) -> str:
    """Where to go on after this lane: behind all of its webhook, where that has no room."""
    webhook = WebhookId((lane or "").partition(":")[0])
    return f"{lane}" if webhook in rooms else f"{webhook};"  # the character after the colon


def by_webhook(lanes: Sequence[str]) -> dict[WebhookId, list[str]]:
    """These lanes, under the webhook that each is of."""
    found: dict[WebhookId, list[str]] = {}
    for lane in lanes:
        found.setdefault(WebhookId(lane.partition(":")[0]), []).append(lane)
    return found


async def candidates(deliveries: Collection, is_due: Document, choice: DueLanes, limit: int) -> list[Document]:
    """The oldest of some lanes: of as many webhooks as can be, and then of as many tenants of each."""
    lanes, rooms = choice.lanes, choice.rooms
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
