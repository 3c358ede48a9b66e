"""The instance under test: one pair of stores, and any number of processes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from bench import programs
from bench.figures import ProcessorTime
from bench.programs import Program
from identity.store.embedded.stores import EmbeddedStores

API_KEY = "an-api-key-of-the-benchmarks-0123456789"
TENANT_ID = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0001"
DATABASE = "bench"

KICKSTART = f"""
variables:
  defaultTenantId: "{TENANT_ID}"
apiKeys:
  - {{key: "{API_KEY}", description: "benchmarks"}}
requests:
  - method: PATCH
    url: "/api/tenant/{TENANT_ID}"
    body:
      tenant:
        issuer: "http://bench.example.com"
        eventConfiguration: {{events: {{user.create: {{enabled: true}}, user.login.success: {{enabled: true}}}}}}
"""


class Instance:
    """The stores and the running processes."""

    def __init__(self, folder: Path, stores: EmbeddedStores) -> None:
        self.folder = folder
        self.stores = stores
        self.processes: list[Program] = []

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the processes."""
        return [process.url for process in self.processes]

    @property
    def mongodb_uri(self) -> str:
        """The address of MongoDB."""
        return str(self.stores.mongodb_uri)

    @property
    def redis_url(self) -> str:
        """The address of Redis."""
        return str(self.stores.redis_url)

    def processor_seconds(self) -> ProcessorTime:
        """Return the processor seconds used so far by the processes, by each store, and by the load."""
        service = sum(programs.processor_seconds(process.pid) for process in self.processes)
        mongodb, redis = (programs.processor_seconds(pid) for pid in self.stores.pids())
        return ProcessorTime(service, mongodb, redis, programs.load_seconds())

    async def add_process(self) -> float:
        """Start another process; returns the seconds until it was ready."""
        process = programs.service(
            self.folder / "data",
            configuration(self.folder / "config"),
            self.folder / f"process-{len(self.processes)}.log",
            server__base_url="http://bench.example.com",
            mongodb__uri=self.mongodb_uri,
            mongodb__database=DATABASE,
            redis__url=self.redis_url,
            webhooks__allowed_networks='["127.0.0.0/8"]',
        )
        self.processes.append(process)
        return await process.wait_until_ready("/api/health")

    async def stop(self) -> None:
        """End the processes."""
        for process in self.processes:
            await process.stop()
        self.processes.clear()


def configuration(folder: Path) -> Path:
    """A configuration folder with the defaults and a separate kickstart file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "identity.yaml").touch()
    (folder / "kickstart.yaml").write_text(KICKSTART)
    return folder


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Instance]:
    """An instance without processes, in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="identity-bench-"))
    try:
        stores = await EmbeddedStores.start(folder / "stores", mongodb=True, redis=True)
        instance = Instance(folder, stores)
        try:
            yield instance
        finally:
            await instance.stop()
            await stores.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
