"""Run each scenario: load, a fail-over, load; then check that nothing was lost or doubled, and print the figures."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from bench import programs
from bench.instance import API_KEY, TENANT_ID
from bench.programs import Program
from ha import mongo_servers, redis_servers
from ha.load import APPLICATION_ID, Load
from identity.store.embedded.stores import EmbeddedStores

_BEFORE_SECONDS = 5
_AFTER_SECONDS = 25
_WINDOW_SECONDS = 15
"""No request may fail later than this after the fault."""
_KICKSTART = f"""
variables: {{defaultTenantId: "{TENANT_ID}"}}
apiKeys: [{{key: "{API_KEY}", description: "fail-over tests"}}]
requests:
  - method: PATCH
    url: "/api/tenant/{TENANT_ID}"
    body: {{tenant: {{issuer: "http://ha.example.com"}}}}
  - method: POST
    url: "/api/application/{APPLICATION_ID}"
    tenantId: "{TENANT_ID}"
    body: {{application: {{name: HA, passwordlessConfiguration: {{enabled: true}}}}}}
"""

Fault = Callable[[], Awaitable[object]]


@dataclasses.dataclass
class Deployment:
    """Service processes and their stores, with the fault that a scenario injects."""

    folder: Path
    settings: Mapping[str, str]
    fault: Fault
    processes: list[Program] = dataclasses.field(default_factory=list)

    async def start(self, count: int) -> None:
        """Start processes, one after the other: the first one sets the instance up."""
        config = self.folder / "config"
        config.mkdir(exist_ok=True)
        (config / "identity.yaml").touch()
        (config / "kickstart.yaml").write_text(_KICKSTART)
        for number in range(count):
            process = programs.service(
                self.folder / "data", config, self.folder / f"process-{number}.log",
                server__base_url="http://ha.example.com", **self.settings,
            )  # fmt: skip
            self.processes.append(process)
            await process.wait_until_ready("/api/health")


Scenario = Callable[[Path], contextlib.AbstractAsyncContextManager[Deployment]]


@contextlib.asynccontextmanager
async def _embedded(folder: Path, *, mongodb: bool, redis: bool) -> AsyncIterator[EmbeddedStores]:
    stores = await EmbeddedStores.start(folder / "stores", mongodb=mongodb, redis=redis)
    try:
        yield stores
    finally:
        await stores.stop()


@contextlib.asynccontextmanager
async def _sentinel(folder: Path) -> AsyncIterator[Deployment]:
    async with (
        _embedded(folder, mongodb=True, redis=False) as stores,
        redis_servers.replicated(folder, servers=3, sentinels=3) as redis,
    ):

        async def kill() -> None:
            (await redis.master()).kill()

        yield Deployment(folder, {"mongodb__uri": str(stores.mongodb_uri), "redis__url": redis.url}, kill)


@contextlib.asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[Deployment]:
    async with (
        _embedded(folder, mongodb=True, redis=False) as stores,
        redis_servers.sharded(folder, masters=3, replicas_each=1) as redis,
    ):

        async def kill() -> None:
            redis.servers[0].kill()

        yield Deployment(folder, {"mongodb__uri": str(stores.mongodb_uri), "redis__url": redis.url}, kill)


def _replica_set(fault: Callable[[mongo_servers.ReplicaSet], Awaitable[None]]) -> Scenario:
    @contextlib.asynccontextmanager
    async def scenario(folder: Path) -> AsyncIterator[Deployment]:
        async with (
            mongo_servers.running(folder) as mongo,
            _embedded(folder, mongodb=False, redis=True) as stores,
        ):
            settings = {"mongodb__uri": mongo.uri, "redis__url": str(stores.redis_url)}
            yield Deployment(folder, settings, lambda: fault(mongo))

    return scenario


@contextlib.asynccontextmanager
async def _rolling(folder: Path) -> AsyncIterator[Deployment]:
    async with _embedded(folder, mongodb=True, redis=True) as stores:
        settings = {"mongodb__uri": str(stores.mongodb_uri), "redis__url": str(stores.redis_url)}
        deployment = Deployment(folder, settings, _nothing)

        async def restart_all() -> None:
            for process in list(deployment.processes):
                await process.restart("/api/health")

        deployment.fault = restart_all
        yield deployment


async def _nothing() -> None:
    """No fault."""


SCENARIOS: Mapping[str, tuple[Scenario, int]] = {
    "mongodb: primary killed": (_replica_set(lambda mongo: mongo.kill_primary()), 2),
    "mongodb: primary steps down": (_replica_set(lambda mongo: mongo.step_down()), 2),
    "mongodb: primary suspended for 10 s": (_replica_set(lambda mongo: mongo.freeze_primary(10)), 2),
    "sentinel: master killed": (_sentinel, 2),
    "cluster: master killed": (_cluster, 2),
    "rolling restart of four processes": (_rolling, 4),
}
"""Each scenario, and its number of processes."""


async def run(name: str, workers: int) -> bool:
    """Run a scenario; return whether nothing was lost or doubled, and nothing failed after the window."""
    scenario, count = SCENARIOS[name]
    with tempfile.TemporaryDirectory(prefix="ha-") as folder:
        async with scenario(Path(folder)) as deployment:
            try:
                await deployment.start(count)
                return await _observe(name, deployment, workers)
            finally:
                for process in deployment.processes:
                    await process.stop()


async def _observe(name: str, deployment: Deployment, workers: int) -> bool:
    load = Load([process.url for process in deployment.processes], workers)
    await asyncio.sleep(_BEFORE_SECONDS)
    began = time.monotonic()
    await deployment.fault()
    ended = time.monotonic()
    await asyncio.sleep(_AFTER_SECONDS)
    outcome = await load.stop()
    missing = await load.verify()
    early = sum(instant < began for instant, _ in outcome.failures)
    late = [one for one in outcome.failures if one[0] > ended + _WINDOW_SECONDS]
    late_codes = [instant for instant in outcome.lost_codes if not began <= instant <= ended + _WINDOW_SECONDS]
    window = max((instant - began for instant, _ in outcome.failures), default=0.0)
    pause = max(
        (later - earlier for earlier, later in zip(outcome.logins, outcome.logins[1:], strict=False)), default=0
    )
    print(
        f"{name}: {len(outcome.created)} users, {len(outcome.logins)} logins; {len(outcome.failures)} requests failed,"
        f" the last {window:.1f} s after the fault; longest pause between logins {pause:.1f} s;"
        f" codes lost {len(outcome.lost_codes)}; users lost {len(missing)}, codes used twice {outcome.doubled_codes}",
        flush=True,
    )
    return not (missing or outcome.doubled_codes or late or late_codes or early)


def main() -> int:
    """Run the chosen scenarios, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run the scenarios whose name contains this text")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    names = [name for name in SCENARIOS if options.only in name]
    results = [asyncio.run(run(name, options.workers)) for name in names]
    failed = [name for name, is_fine in zip(names, results, strict=True) if not is_fine]
    print("failed: " + ", ".join(failed) if failed else "nothing lost, nothing doubled, no failure after the window")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
