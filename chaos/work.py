"""The load: each writer changes its own group repeatedly and records the responses.

Each change gives the group the next number. Its event contains the numbers before and after the change, so that the
events about a group form a chain from the first number to the one stored at the end, whatever the responses were.
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
    """A group, the last number tried, the acknowledged numbers, and the number of changes with unknown outcome."""

    group_id: str
    tried: int = 0
    acknowledged: set[int] = dataclasses.field(default_factory=set)
    unknown: int = 0


async def prepare(cluster: Cluster, receiver: Receiver, writers: int) -> list[Writer]:
    """Enable the events, and create two webhooks and a group for each writer."""
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


async def write(cluster: Cluster, writer: Writer, rng: random.Random, is_wanted: Callable[[], bool]) -> None:
    """Change the group as long as wanted; a change with an unknown outcome is not repeated."""
    async with httpx.AsyncClient(headers=_HEADERS, timeout=20, trust_env=False) as api:
        while is_wanted():
            urls = cluster.urls
            if not urls:
                await asyncio.sleep(0.1)
                continue
            writer.tried += 1
            body = {"group": {"data": {"n": writer.tried}}}
            try:
                answer = await api.patch(f"{rng.choice(urls)}/api/group/{writer.group_id}", json=body)
            except httpx.HTTPError:
                writer.unknown += 1
                continue
            if answer.status_code == 200:
                writer.acknowledged.add(writer.tried)
            elif answer.status_code >= 500:
                writer.unknown += 1
                await asyncio.sleep(0.05)
            else:
                raise RuntimeError(f"a change was refused: {answer.status_code} {answer.text}")


async def stored_numbers(cluster: Cluster, writers: list[Writer]) -> dict[str, int]:
    """The stored number of each group, by group id."""
    async with httpx.AsyncClient(base_url=cluster.urls[0], headers=_HEADERS, timeout=30, trust_env=False) as api:
        found = {}
        for writer in writers:
            answer = (await api.get(f"/api/group/{writer.group_id}")).raise_for_status()
            found[writer.group_id] = int(answer.json()["group"]["data"]["n"])
        return found
