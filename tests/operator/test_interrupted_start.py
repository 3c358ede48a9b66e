"""A first start that is killed at any of its writes: the next one completes it."""

from __future__ import annotations

import asyncio
import collections
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import httpx
import pymongo
import pytest

from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.store.embedded.stores import EmbeddedStores
from tests.databases import Databases
from tests.operator import processes
from tests.operator.fork_server import ForkedProcess
from tests.operator.processes import PATIENCE_SECONDS, command, environment, serving
from tests.ports import free_port

POINTS = os.environ.get("FIRST_START_POINTS", "")
"""The number of points at which the complete run kills a first start, with the stores of the session and with embedded
ones: FIRST_START_POINTS=24 pytest -s tests/operator/test_interrupted_start.py."""

_LOGS = {"audit_logs", "event_logs", "events", "deliveries", "login_records", "refresh_tokens"}
_NAMED_POINTS = ("file master.key", "update instance", "file kickstart-secrets.txt", "commitTransaction")


class Instance:
    """An instance that is started several times, on stores of the session or on embedded ones."""

    def __init__(self, folder: Path, stores: EmbeddedStores | None, database: str = "identity") -> None:
        self.data_dir = folder / "var"
        self.database = database
        self._stores = stores
        self._log = folder / "writes"
        self.settings: dict[str, Any] = {}
        if stores is not None:
            self.settings = {
                "mongodb__uri": stores.mongodb_uri, "mongodb__database": database, "redis__url": stores.redis_url,
            }  # fmt: skip

    def killed_at(self, number: int) -> str:
        """Start it, and kill it before its n-th write; return that write. It is stopped once it serves."""
        self._log.write_text("")
        full = ["-m", "tests.operator.killed_start", str(number), str(self._log), *command()[2:]]
        given = environment(self.data_dir, **{**self.settings, "server__port": free_port()})
        with (self._log.with_name("output")).open("w+") as output:
            process = ForkedProcess(full, given, stdout=output.fileno(), stderr=output.fileno())
            deadline = time.monotonic() + PATIENCE_SECONDS
            while process.poll() is None and "Stop with" not in Path(output.name).read_text():
                assert time.monotonic() < deadline, Path(output.name).read_text()
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) in {0, -signal.SIGKILL}, Path(output.name).read_text()
        return self.writes()[-1]

    def writes(self) -> list[str]:
        return self._log.read_text().splitlines()

    def expire_lease(self) -> None:
        """Let the time pass after which a killed process counts as dead."""
        if self._stores is not None:
            with pymongo.MongoClient(str(self._stores.mongodb_uri)) as client:
                where = {"_id": "instance", "kickstart.state": "running"}
                client[self.database].instance.update_one(where, {"$set": {"kickstart.leaseUntil": 0}})

    def counts(self) -> dict[str, int]:
        """The number of documents by collection, without logs. Only for stores of the session."""
        assert self._stores is not None
        with pymongo.MongoClient(str(self._stores.mongodb_uri)) as client:
            database = client[self.database]
            names = set(database.list_collection_names()) - _LOGS
            return {name: found for name in sorted(names) if (found := database[name].count_documents({}))}

    def require_administrator(self) -> collections.Counter[str]:
        """Start it, and sign in with the stored values; return the objects that exist."""
        with serving(self.data_dir, **self.settings) as process:
            file = self.data_dir / "kickstart-secrets.txt"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            kept = dict(line.split(": ", 1) for line in file.read_text().splitlines())
            with httpx.Client(base_url=process.url, timeout=30, headers={"Authorization": kept["API key"]}) as api:
                login = {
                    "loginId": kept["Administrator"],
                    "password": kept["Password"],
                    "applicationId": ADMINISTRATOR_APPLICATION_ID,
                }
                answer = api.post("/api/login", json=login)
                assert answer.status_code == 200, answer.text
                assert "admin" in answer.json()["user"]["registrations"][0]["roles"]
                return _objects(api)


def _objects(api: httpx.Client) -> collections.Counter[str]:
    """The names of the objects of the instance, each with its kind."""
    kinds = ("tenant", "application", "key", "lambda", "theme", "connector", "form", "form/field", "email/template")
    found: collections.Counter[str] = collections.Counter()
    for kind in kinds:
        answer = api.get(f"/api/{kind}").json()
        [objects] = [value for value in answer.values() if isinstance(value, list)]
        found.update(f"{kind} {found_object['name']}" for found_object in objects)
    return found


@pytest.fixture(autouse=True)
def more_patience(monkeypatch):
    """A process that was killed in a transaction delays the next one by a minute, until MongoDB aborts it."""
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 150)


@pytest.fixture(scope="module")
def complete(tmp_path_factory, stores) -> tuple[list[str], collections.Counter[str], dict[str, int]]:
    """The writes of a first start that is not killed, and what it creates."""
    instance = Instance(tmp_path_factory.mktemp("complete"), stores, "test_complete_start")
    instance.killed_at(0)
    objects = instance.require_administrator()
    assert set(objects.values()) == {1}
    return instance.writes(), objects, instance.counts()


def points(writes: list[str], count: int) -> list[int]:
    """The numbers of the writes to die at: spread evenly, and the first and last ones of special interest."""
    numbers = {1 + round(index * (len(writes) - 1) / max(1, count - 1)) for index in range(count)}
    for name in _NAMED_POINTS:
        matching = [number for number, write in enumerate(writes, 1) if write.startswith(name)]
        numbers |= {matching[0], matching[-1]} if count > len(_NAMED_POINTS) else set()
    return sorted(numbers)


@pytest.mark.requirement("start-1")
@pytest.mark.timeout(0 if POINTS else 120)
async def test_first_start_killed_at_any_write_is_completed_by_the_next(
    complete, stores, databases: Databases, tmp_path
):
    writes, objects, counts = complete
    after_secrets = writes.index("file kickstart-secrets.txt") + 2
    few = [writes.index("insert applications"), (after_secrets + len(writes)) // 2, len(writes)]
    numbers = points(writes, int(POINTS)) if POINTS else few
    for number in numbers:
        database = databases.take()
        instance = Instance(tmp_path / str(number), stores, database)
        instance.data_dir.parent.mkdir()
        killed_at = await asyncio.to_thread(instance.killed_at, number)
        instance.expire_lease()
        started = time.monotonic()
        assert await asyncio.to_thread(instance.require_administrator) == objects, killed_at
        assert instance.counts() == counts, killed_at
        print(f"{number:4} of {len(writes)}: killed before {killed_at}; ready after {time.monotonic() - started:.1f} s")
        await databases.give_back(database)


@pytest.mark.requirement("start-1")
async def test_first_start_without_a_kickstart_is_completed_by_the_next(
    complete, stores, databases: Databases, tmp_path
):
    writes, _, _ = complete
    found: list[dict[str, int]] = []
    for number in (0, writes.index("insert form_fields") + 3):
        database = databases.take()
        instance = Instance(tmp_path / str(number), stores, database)
        instance.settings["kickstart__file"] = "null"
        instance.data_dir.parent.mkdir()
        await asyncio.to_thread(instance.killed_at, number)
        with serving(instance.data_dir, **instance.settings):
            found.append(instance.counts())
        await databases.give_back(database)
    assert found[1] == found[0]


@pytest.mark.requirement("start-1")
@pytest.mark.timeout(0)
@pytest.mark.skipif(not POINTS, reason="takes minutes; set FIRST_START_POINTS to run it")
def test_first_start_with_embedded_stores_killed_at_any_write_is_completed_by_the_next(complete, tmp_path):
    _, objects, _ = complete
    first = Instance(tmp_path / "first", None)
    first.data_dir.parent.mkdir()
    first.killed_at(0)
    writes = first.writes()
    for number in points(writes, int(POINTS)):
        instance = Instance(tmp_path / str(number), None)
        instance.data_dir.parent.mkdir()
        killed_at = instance.killed_at(number)
        started = time.monotonic()
        assert instance.require_administrator() == objects, killed_at
        print(f"{number:4} of {len(writes)}: killed before {killed_at}; ready after {time.monotonic() - started:.1f} s")
