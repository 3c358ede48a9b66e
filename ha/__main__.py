"""Run each scenario: load, a fail-over, load; then check that nothing was lost or doubled, and print the figures."""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import functools
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from bench import programs
from bench.instance import API_KEY, TENANT_ID
from bench.programs import Program
from ha import mongo_servers, networks, redis_servers, tls
from ha.load import APPLICATION_ID, Load
from identity import termination
from identity.store.embedded.stores import EmbeddedStores

_BEFORE_SECONDS = 5
_AFTER_SECONDS = 25
_WINDOW_SECONDS = 15
"""No request may fail later than this after the fault."""
_PARTITION_SECONDS = 20
_PREVIOUS = "747ff4ad"
"""The last commit of 0.1.0."""
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
    previous: Path | None = None
    """The source of an earlier release, of which one more process runs."""
    processes: list[Program] = dataclasses.field(default_factory=list)

    async def start(self, count: int) -> None:
        """Start processes, one after the other: the first one sets the instance up."""
        config = self.folder / "config"
        config.mkdir(exist_ok=True)
        (config / "identity.yaml").touch()
        (config / "kickstart.yaml").write_text(_KICKSTART)
        roots = [programs.ROOT] * count + ([] if self.previous is None else [self.previous])
        for number, root in enumerate(roots):
            process = programs.service(
                self.folder / "data", config, self.folder / f"process-{number}.log", root,
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
async def _sentinel(folder: Path, *, is_tls: bool = False, is_partition: bool = False) -> AsyncIterator[Deployment]:
    with _network(is_partition) as network:
        setup = redis_servers.Setup(folder, tls.create(folder) if is_tls else None, network)
        async with (
            _embedded(folder, mongodb=True, redis=False) as stores,
            redis_servers.replicated(setup, servers=3, sentinels=3) as redis,
        ):

            async def fault() -> None:
                if is_partition:
                    await redis.isolate_master(_PARTITION_SECONDS)
                else:
                    (await redis.master()).kill()

            yield Deployment(folder, {"mongodb__uri": str(stores.mongodb_uri), "redis__url": redis.url}, fault)


@contextlib.asynccontextmanager
async def _cluster(folder: Path, *, is_tls: bool = False) -> AsyncIterator[Deployment]:
    setup = redis_servers.Setup(folder, tls.create(folder) if is_tls else None)
    async with (
        _embedded(folder, mongodb=True, redis=False) as stores,
        redis_servers.sharded(setup, masters=3, replicas_each=1) as redis,
    ):

        async def kill() -> None:
            redis.servers[0].kill()

        yield Deployment(folder, {"mongodb__uri": str(stores.mongodb_uri), "redis__url": redis.url}, kill)


def _replica_set(
    fault: Callable[[mongo_servers.ReplicaSet], Awaitable[None]],
    *,
    is_tls: bool = False,
    is_partition: bool = False,
    settings: Mapping[str, int] = mongo_servers.SETTINGS,
) -> Scenario:
    @contextlib.asynccontextmanager
    async def scenario(folder: Path) -> AsyncIterator[Deployment]:
        with _network(is_partition) as network:
            async with (
                mongo_servers.running(folder, network, tls.create(folder) if is_tls else None, settings) as mongo,
                _embedded(folder, mongodb=False, redis=True) as stores,
            ):
                addresses = {"mongodb__uri": mongo.uri, "redis__url": str(stores.redis_url)}
                yield Deployment(folder, addresses, lambda: fault(mongo))

    return scenario


def _network(is_needed: bool) -> contextlib.AbstractContextManager[networks.Network | None]:
    return networks.running() if is_needed else contextlib.nullcontext()


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


@contextlib.asynccontextmanager
async def _two_versions(folder: Path) -> AsyncIterator[Deployment]:
    """A process of this version migrates the database; one of `_PREVIOUS` serves with it, and both are restarted."""
    source = folder / "previous"
    source.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(programs.ROOT), "archive", _PREVIOUS], capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    async with _rolling(folder) as deployment:
        deployment.previous = source
        yield deployment


async def _nothing() -> None:
    """No fault."""


SCENARIOS: Mapping[str, tuple[Scenario, int]] = {
    "mongodb: primary killed": (_replica_set(lambda mongo: mongo.kill_primary()), 2),
    "mongodb: primary killed, default settings": (_replica_set(lambda mongo: mongo.kill_primary(), settings={}), 2),
    "mongodb: primary steps down": (_replica_set(lambda mongo: mongo.step_down()), 2),
    "mongodb: primary suspended for 10 s": (_replica_set(lambda mongo: mongo.freeze_primary(10)), 2),
    "mongodb: primary suspended for 20 s, short heartbeats": (
        _replica_set(lambda mongo: mongo.freeze_primary(20), settings=mongo_servers.SHORT_HEARTBEATS),
        2,
    ),
    "mongodb: partition of the primary": (
        _replica_set(lambda mongo: mongo.isolate_primary(_PARTITION_SECONDS), is_partition=True),
        2,
    ),
    "mongodb: partition of the primary, short heartbeats": (
        _replica_set(
            lambda mongo: mongo.isolate_primary(_PARTITION_SECONDS),
            is_partition=True,
            settings=mongo_servers.SHORT_HEARTBEATS,
        ),
        2,
    ),
    "mongodb with TLS and users: primary killed": (_replica_set(lambda mongo: mongo.kill_primary(), is_tls=True), 2),
    "sentinel: master killed": (_sentinel, 2),
    "sentinel: partition of the master": (functools.partial(_sentinel, is_partition=True), 2),
    "sentinel with TLS and passwords: master killed": (functools.partial(_sentinel, is_tls=True), 2),
    "cluster: master killed": (_cluster, 2),
    "cluster with TLS and passwords: master killed": (functools.partial(_cluster, is_tls=True), 2),
    "rolling restart of four processes": (_rolling, 4),
    "two versions: both are restarted": (_two_versions, 1),
}
"""Each scenario, and its number of processes."""


def _missing(name: str) -> str | None:
    """What this machine lacks for a scenario, or None."""
    if "partition" in name:
        return networks.missing()
    if "versions" in name and not (programs.ROOT / ".git").exists():
        return "a clone, for the source of the earlier version"
    if "TLS" in name and "mongodb" not in name and redis_servers.tls_program() is None:
        return "a valkey-server or redis-server with TLS"
    return None


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
    kinds = collections.Counter(kind for _, kind in outcome.failures)
    print(
        f"{name}: {len(outcome.created)} users, {len(outcome.logins)} logins; {len(outcome.failures)} requests failed,"
        f" the last {window:.1f} s after the fault; longest pause between logins {pause:.1f} s;"
        f" failures {dict(kinds)}; codes lost {len(outcome.lost_codes)}; users lost {len(missing)},"
        f" codes used twice {outcome.doubled_codes}",
        flush=True,
    )
    return not (missing or outcome.doubled_codes or late or late_codes or early)


def main() -> int:
    """Run the chosen scenarios, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run the scenarios whose name contains this text")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    chosen = [name for name in SCENARIOS if options.only in name]
    lacking = {name: missing for name in chosen if (missing := _missing(name))}
    for name, missing in lacking.items():
        print(f"{name}: left out, it takes {missing}")
    names = [name for name in chosen if name not in lacking]
    results = [termination.run(run(name, options.workers)) for name in names]
    failed = [name for name, is_fine in zip(names, results, strict=True) if not is_fine]
    print("failed: " + ", ".join(failed) if failed else "nothing lost, nothing doubled, no failure after the window")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
