"""Fault injection: kills, freezes and delays parts of the cluster, one fault after the other, at random instants."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random

from chaos.cluster import LEASE_SECONDS, Cluster, Node
from chaos.receiver import FAULTY_MODES, Receiver
from identity.store.redis import STORE_ERRORS

_MAX_CLOCK_ERROR_SECONDS = 600

_FAULTS = {
    "kill service": 2,
    "freeze service": 1,
    "kill mongod": 1,
    "kill redis": 1,
    "flush redis": 1,
    "receiver": 3,
    "clock": 1,
}
"""The faults and their relative frequencies."""


class FaultInjector:
    """Injects faults and counts them by name. `run` continues until it is cancelled; `end` repairs everything."""

    def __init__(self, cluster: Cluster, receiver: Receiver, rng: random.Random) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.total = 0
        self._cluster, self._receiver, self._rng = cluster, receiver, rng
        self._latest_clock = 0.0

    async def run(self) -> None:
        """Inject one fault after the other."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.2, 2.0))
            await self._inject(self._rng.choices(list(_FAULTS), list(_FAULTS.values()))[0])
            self.total += 1

    async def end(self) -> None:
        """Repair everything. All clocks continue from the latest time that any of them has shown."""
        await self._receiver.set_mode("working")
        for node in self._cluster.nodes:
            node.set_clock_error(self._latest_clock)
            node.thaw()
            await _revive(node)

    async def _inject(self, name: str) -> None:
        node = self._rng.choice(self._cluster.nodes)
        self.counts[name] += 1
        match name:
            case "kill service":
                await node.kill()
                await asyncio.sleep(self._rng.uniform(0, 1))
                await _revive(node)
            case "freeze service":
                node.freeze()
                await asyncio.sleep(self._rng.uniform(1, 2 * LEASE_SECONDS))
                node.thaw()
            case "kill mongod":
                self._cluster.kill_store("mongod")
            case "kill redis":
                self._cluster.kill_store("redis")
            case "flush redis":
                with contextlib.suppress(*STORE_ERRORS):  # it may have been killed just before
                    await self._cluster.flush_redis()
            case "receiver":
                mode = self._rng.choice(FAULTY_MODES)
                self.counts[f"receiver {mode}"] += 1
                await self._receiver.set_mode(mode)
                await asyncio.sleep(self._rng.uniform(0.5, 4))
                await self._receiver.set_mode("working")
            case _:
                seconds = self._rng.uniform(-_MAX_CLOCK_ERROR_SECONDS, _MAX_CLOCK_ERROR_SECONDS)
                self._latest_clock = max(self._latest_clock, seconds)
                node.set_clock_error(seconds)


async def _revive(node: Node) -> None:
    """Start a dead node; retry, because MongoDB may have been killed just before."""
    while node.program is None:
        try:
            await node.start()
        except RuntimeError:
            await asyncio.sleep(0.5)
