"""The disturbances, one after the other at random instants: everything that can be killed is, and comes back."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random

from chaos.cluster import LEASE_SECONDS, Cluster, Node
from chaos.receiver import MOODS, Receiver
from identity.store.redis import STORE_ERRORS

_FARTHEST_SECONDS = 600
"""How wrong a clock may be."""

_DEEDS = {
    "kill service": 2,
    "freeze service": 1,
    "kill mongod": 1,
    "kill redis": 1,
    "flush redis": 1,
    "receiver": 3,
    "clock": 1,
}
"""What is done, and how often against the others."""


class Trouble:
    """What was done so far, by name and in number; `run` goes on until it is cancelled, `end` puts everything right."""

    def __init__(self, cluster: Cluster, receiver: Receiver, chance: random.Random) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        self.count = 0
        self._cluster, self._receiver, self._chance = cluster, receiver, chance
        self._latest = 0.0

    async def run(self) -> None:
        """One disturbance after the other."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 2.0))
            await self._do(self._chance.choices(list(_DEEDS), list(_DEEDS.values()))[0])
            self.count += 1

    async def end(self) -> None:
        """Let everything be well again. The clocks go on from the latest time that any of them believed in."""
        await self._receiver.change("well")
        for node in self._cluster.nodes:
            node.turn_clock(self._latest)
            node.thaw()
            await _revive(node)

    async def _do(self, name: str) -> None:
        node = self._chance.choice(self._cluster.nodes)
        self.done[name] += 1
        match name:
            case "kill service":
                await node.kill()
                await asyncio.sleep(self._chance.uniform(0, 1))
                await _revive(node)
            case "freeze service":
                node.freeze()
                await asyncio.sleep(self._chance.uniform(1, 2 * LEASE_SECONDS))
                node.thaw()
            case "kill mongod":
                self._cluster.kill_store("mongod")
            case "kill redis":
                self._cluster.kill_store("redis")
            case "flush redis":
                with contextlib.suppress(*STORE_ERRORS):  # it may have been killed just now
                    await self._cluster.flush_redis()
            case "receiver":
                mood = self._chance.choice(MOODS)
                self.done[f"receiver {mood}"] += 1
                await self._receiver.change(mood)
                await asyncio.sleep(self._chance.uniform(0.5, 4))
                await self._receiver.change("well")
            case _:
                seconds = self._chance.uniform(-_FARTHEST_SECONDS, _FARTHEST_SECONDS)
                self._latest = max(self._latest, seconds)
                node.turn_clock(seconds)


async def _revive(node: Node) -> None:
    """Start a node that is dead; MongoDB may have been killed a moment ago, so again and again."""
    while node.program is None:
        try:
            await node.start()
        except RuntimeError:
            await asyncio.sleep(0.5)
