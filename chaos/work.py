"""The load: each writer changes a group of its own again and again, and notes what it was told.

A change gives the group the next number. The event about it says the number before and the number after, so the events
about a group form a chain from the first number to the one that is stored at the end, whatever the writer was told.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable

import httpx

from bench.instance import API_KEY, TENANT_ID
from chaos.cluster import Cluster
from chaos.receiver import Receiver

TYPES = ("group.update", "group.update.complete")
_HEADERS = {"Authorization": API_KEY, "X-FusionAuth-TenantId": TENANT_ID}


@dataclasses.dataclass
class Writer:
    """One group, the last number that was tried, the numbers that were acknowledged, and what was unclear."""

    group_id: str
    tried: int = 0
    acknowledged: set[int] = dataclasses.field(default_factory=set)
    unclear: int = 0


async def prepare(cluster: Cluster, receiver: Receiver, writers: int) -> list[Writer]:
    """Switch the events on, make two webhooks and a group for each writer."""
    async with httpx.AsyncClient(base_url=cluster.urls[0], headers=_HEADERS, timeout=30, trust_env=False) as api:
        events = {name: {"enabled": True, "transactionType": "None"} for name in TYPES}
        change = {"tenant": {"eventConfiguration": {"events": events}}}
        (await api.patch(f"/api/tenant/{TENANT_ID}", json=change)).raise_for_status()
        for path, is_ordered in (("/ordered", True), ("/free", False)):
            webhook = {
                "url": receiver.url(path), "connectTimeout": 1000, "readTimeout": 2000, "tenantIds": [TENANT_ID],
                "eventsEnabled": dict.fromkeys(TYPES, True), "ordered": is_ordered,
            }  # fmt: skip
            (await api.post("/api/webhook", json={"webhook": webhook})).raise_for_status()
        found = []
        for number in range(writers):
            answer = await api.post("/api/group", json={"group": {"name": f"Group {number}", "data": {"n": 0}}})
            found.append(Writer(answer.raise_for_status().json()["group"]["id"]))
        return found


async def write(cluster: Cluster, writer: Writer, chance: random.Random, wanted: Callable[[], bool]) -> None:
    """Change the group until enough is acknowledged by all; what is unclear is left unclear, and the next tried."""
    async with httpx.AsyncClient(headers=_HEADERS, timeout=20, trust_env=False) as api:
        while wanted():
            urls = cluster.urls
            if not urls:
                await asyncio.sleep(0.1)
                continue
            writer.tried += 1
            body = {"group": {"data": {"n": writer.tried}}}
            try:
                answer = await api.patch(f"{chance.choice(urls)}/api/group/{writer.group_id}", json=body)
            except httpx.HTTPError:
                writer.unclear += 1
                continue
            if answer.status_code == 200:
                writer.acknowledged.add(writer.tried)
            elif answer.status_code >= 500:
                writer.unclear += 1
                await asyncio.sleep(0.05)
            else:
                raise RuntimeError(f"a change was refused: {answer.status_code} {answer.text}")


async def stored_numbers(cluster: Cluster, writers: list[Writer]) -> dict[str, int]:
    """Group id -> the number that it has in the end."""
    async with httpx.AsyncClient(base_url=cluster.urls[0], headers=_HEADERS, timeout=30, trust_env=False) as api:
        found = {}
        for writer in writers:
            answer = (await api.get(f"/api/group/{writer.group_id}")).raise_for_status()
            found[writer.group_id] = int(answer.json()["group"]["data"]["n"])
        return found
