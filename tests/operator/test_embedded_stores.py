"""The embedded stores: durability, restarts and error messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pymongo
import pytest
import redis.asyncio
from pymongo.errors import OperationFailure

from identity.errors import StartupError
from identity.store.embedded import mongod, redis_server, supervisor
from identity.store.embedded.stores import EmbeddedStores

ROOT = Path(__file__).resolve().parent.parent.parent
HOLDER = """
import asyncio, sys
from pathlib import Path
from identity.store.embedded.stores import EmbeddedStores

async def main():
    await EmbeddedStores.start(Path(sys.argv[1]), mongodb=True, redis=True)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def running(folder: Path, *, mongodb: bool = True, redis: bool = True):
    stores = await EmbeddedStores.start(folder, mongodb, redis)
    try:
        yield stores
    finally:
        await stores.stop()


async def write(stores: EmbeddedStores, value: str) -> None:
    with pymongo.MongoClient(stores.mongodb_uri) as client:
        await asyncio.to_thread(client["test"].get_collection("kept").insert_one, {"_id": value})
    async with redis.asyncio.Redis.from_url(stores.redis_url) as client:
        await client.set(value, "kept")


async def is_kept(stores: EmbeddedStores, value: str) -> bool:
    with pymongo.MongoClient(stores.mongodb_uri) as client:
        found = await asyncio.to_thread(client["test"].get_collection("kept").find_one, {"_id": value})
    async with redis.asyncio.Redis.from_url(stores.redis_url) as client:
        return found is not None and await client.get(value) == b"kept"


async def until(condition, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    return False


@pytest.fixture(scope="module")
async def unchanged(tmp_path_factory) -> AsyncIterator[tuple[Path, EmbeddedStores]]:
    """Running stores, which tests only use, and their folder."""
    folder = tmp_path_factory.mktemp("unchanged") / "my data 100%"
    async with running(folder) as stores:
        yield folder, stores


@pytest.mark.requirement("project-7")
async def test_data_survive_a_stop(tmp_path):
    async with running(tmp_path / "var") as stores:
        await write(stores, "one")
        first = stores.mongodb_uri
    async with running(tmp_path / "var") as stores:
        assert await is_kept(stores, "one")
        assert stores.mongodb_uri == first


@pytest.mark.requirement("design-stores-3", "project-7")
async def test_a_killed_server_comes_back_with_its_data_at_the_same_address(tmp_path):
    async with running(tmp_path / "var") as stores:
        await write(stores, "one")
        killed = stores.pids()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(set(stores.pids()) - set(killed)) == 2)
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(redis.exceptions.ConnectionError):
                    assert await is_kept(stores, "one")
                    break


@pytest.mark.requirement("design-stores-4")
async def test_servers_left_behind_by_a_killed_process_are_replaced_and_their_data_kept(tmp_path):
    folder = tmp_path / "var"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE)
    lines = iter(holder.stdout.readline, b"")  # warnings may come first
    assert await asyncio.to_thread(lambda: b"ready\n" in lines)
    addresses = json.loads((folder / "embedded.json").read_text())
    left = [
        int((folder / group / f"{name}.pid").read_text()) for group, name in (("mongodb", "mongod"), ("redis", "redis"))
    ]
    with pymongo.MongoClient(addresses["mongodb_uri"]) as client:
        client["test"].get_collection("kept").insert_one({"_id": "one"})
    async with redis.asyncio.Redis.from_url(addresses["redis_url"]) as client:
        await client.set("one", "kept")
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert all(map(is_alive, left))
    async with running(folder) as stores:
        assert await is_kept(stores, "one")
        assert not any(map(is_alive, left))


@pytest.mark.requirement("design-stores-5")
async def test_reused_process_id_is_not_killed(tmp_path):
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        (tmp_path / "redis.pid").write_text(f"{bystander.pid}\n")
        await supervisor.stop_stale(tmp_path / "redis.pid", tmp_path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_second_process_on_a_folder_gets_instructions(tmp_path):
    async with running(tmp_path, mongodb=False):
        with pytest.raises(StartupError, match=rf"Process {os.getpid()} already runs .*embedded\.json"):
            await EmbeddedStores.start(tmp_path, mongodb=False, redis=True)


async def test_the_addresses_are_in_a_private_file_while_the_servers_run(tmp_path):
    async with running(tmp_path, mongodb=False) as stores:
        file = tmp_path / "embedded.json"
        assert json.loads(file.read_text()) == {"mongodb_uri": None, "redis_url": stores.redis_url}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()


@pytest.mark.requirement("design-stores-2")
async def test_secret_files_are_private(unchanged):
    folder, stores = unchanged
    for name in ("", "mongodb", "mongodb/data", "redis", "redis/data", "logs"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700, name
    for name in ("keyfile", "password"):
        assert stat.S_IMODE((folder / "mongodb" / name).stat().st_mode) == 0o600
    assert "***" in repr(stores.mongodb_uri)


@pytest.mark.requirement("design-stores-2")
async def test_mongodb_requires_the_password(unchanged):
    _, stores = unchanged
    bare = "mongodb://" + stores.mongodb_uri.partition("@")[2].replace("&authSource=admin", "")
    with pymongo.MongoClient(bare) as client, pytest.raises(OperationFailure, match="requires authentication"):
        client["test"].command("find", "kept")
    with pymongo.MongoClient(bare) as client, pytest.raises(OperationFailure, match="requires authentication"):
        client.admin.command("createUser", "intruder", pwd="x", roles=["root"])


@pytest.mark.requirement("design-stores-1")
async def test_mongodb_is_a_replica_set_with_transactions(unchanged):
    _, stores = unchanged
    with pymongo.MongoClient(stores.mongodb_uri) as client, client.start_session() as session:
        session.with_transaction(lambda s: client["test"].get_collection("one").insert_one({"_id": 1}, session=s))
        assert client["test"].get_collection("one").count_documents({}) == 1


async def test_occupied_port_is_replaced_and_data_is_retained(tmp_path):
    async with running(tmp_path) as stores:
        await write(stores, "one")
        old = stores.mongodb_uri
    port = int((tmp_path / "mongodb" / "port").read_text())
    squatter = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", port)
    try:
        async with running(tmp_path) as stores:
            assert stores.mongodb_uri != old
            assert await is_kept(stores, "one")
    finally:
        squatter.close()
        await squatter.wait_closed()


async def test_lost_files_of_the_embedded_mongod_are_recreated(tmp_path):
    async with running(tmp_path) as stores:
        await write(stores, "one")
    for name in ("password", "keyfile", "port"):
        (tmp_path / "mongodb" / name).unlink()
        async with running(tmp_path) as stores:
            assert await is_kept(stores, "one"), name
            assert (tmp_path / "mongodb" / name).exists()


@pytest.fixture
def short_path():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


async def test_a_path_too_long_for_a_socket_moves_the_socket_only(tmp_path, short_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    deep = tmp_path / ("d" * 120)
    async with running(deep, mongodb=False) as stores:
        assert str(short_path / f"identity-{os.geteuid()}-") in stores.redis_url
        assert stat.S_IMODE(Path(stores.redis_url.removeprefix("unix://")).parent.stat().st_mode) == 0o700
        async with redis.asyncio.Redis.from_url(stores.redis_url) as client:
            assert await client.ping()
    assert (deep / "redis" / "data").is_dir()
    assert not list(short_path.iterdir())


def test_a_path_too_long_everywhere_is_refused_with_a_remedy(tmp_path, monkeypatch):
    (tmp_path / ("t" * 100)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("t" * 100)))
    with pytest.raises(StartupError, match="too long for a Unix socket; set data_dir or TMPDIR to a shorter path"):
        redis_server.socket_path(tmp_path / ("d" * 120))


@pytest.mark.requirement("design-stores-2")
def test_a_socket_folder_that_others_may_enter_is_refused(tmp_path, short_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    deep = tmp_path / ("d" * 120)
    redis_server.socket_path(deep).parent.chmod(0o777)
    with pytest.raises(StartupError, match="not a private folder"):
        redis_server.socket_path(deep)


async def test_a_folder_with_blanks_and_percent_signs_works(unchanged):
    _, stores = unchanged
    await write(stores, "one")
    assert await is_kept(stores, "one")


async def test_oversized_log_is_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "LOG_BYTES", 100)
    async with running(tmp_path) as stores:
        logs = tmp_path / "logs"
        for each in stores._supervisors:
            each.rotate_log()
        assert (logs / "mongod.log.1").stat().st_size > 100
        assert (logs / "redis.log.1").stat().st_size > 100
        await until((logs / "mongod.log").exists)
    assert (logs / "redis.log").stat().st_size > 0


async def test_an_unusable_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match=r"data_dir .*file/var cannot be used: Not a directory"):
        await EmbeddedStores.start(tmp_path / "file" / "var", mongodb=False, redis=True)


async def test_a_disk_without_room_is_named_before_anything_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000_000})())
    with pytest.raises(StartupError, match=r"disk of data_dir .* is full: 1 MB are free.* need 400 MB"):
        await EmbeddedStores.start(tmp_path, mongodb=True, redis=True)


@pytest.mark.requirement("design-stores-7")
@pytest.mark.parametrize("program", [mongod.program, redis_server.program])
def test_platform_without_a_wheel_gets_a_remedy(program, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StartupError, match=r"(mongodb\.uri|redis\.url) is `embedded`, but no .* is installed here"):
        program()


def test_program_is_made_executable(tmp_path, monkeypatch):
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / "__init__.py").touch()
    (tmp_path / "wheel" / "server").touch(0o644)
    monkeypatch.syspath_prepend(tmp_path)
    found = supervisor.find_program("wheel", "server")
    assert os.access(found, os.X_OK)
    assert supervisor.find_program("wheel", "other") is None


LOG_OF_A_FATAL_ERROR = (
    '{"t":{"$date":"2026-11-21T02:25:00.000+00:00"},"s":"I","c":"CONTROL","id":1,"ctx":"main","msg":"starting"}\n'
    '{"t":{"$date":"2026-11-21T02:25:00.000+00:00"},"s":"E","c":"CONTROL","id":20557,"ctx":"initandlisten",'
    '"msg":"DBException in initAndListen, terminating",'
    '"attr":{"error":"Location28596: Unable to determine status of lock"}}\n'
)


@pytest.mark.parametrize(
    ("code", "output", "log", "expected"),
    [
        (
            127,
            "mongod: error while loading shared libraries: libcurl.so.4: cannot open shared object file",
            "",
            "apt-get install libcurl4",
        ),
        (100, "", "write: No space left on device", "the disk of .* is full"),
        (-signal.SIGXFSZ, "", "", "the disk of .* is full"),
        (-signal.SIGILL, "", "", "AVX"),
        (100, "", LOG_OF_A_FATAL_ERROR, "DBException in initAndListen, terminating Location28596"),
        (1, "", "77:M 21 Nov 2026 02:14:53.550 # Bad file format reading the append only file\n", "Bad file format"),
        (14, "", "", "it ended with code 14"),
    ],
)
def test_the_cause_of_a_failed_start_is_named(tmp_path, code, output, log, expected):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mongod.out").write_text(output)
    (tmp_path / "logs" / "mongod.log").write_text(log)
    message = supervisor.explain_failure(
        "mongod", code, tmp_path / "logs" / "mongod.out", tmp_path / "logs" / "mongod.log"
    )
    assert message.startswith("The embedded mongod does not start: ")
    assert message.endswith("(Or set mongodb.uri to a server of your own.)")
    assert re.search(expected, message)


async def test_a_server_that_cannot_start_leaves_nothing_running(tmp_path):
    (tmp_path / "redis" / "data" / "appendonlydir").mkdir(parents=True)
    (tmp_path / "redis" / "data" / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(StartupError, match=r"The embedded redis does not start: .*manifest"):
        await EmbeddedStores.start(tmp_path, mongodb=True, redis=True)
    assert not (tmp_path / "mongodb" / "mongod.pid").exists()
    (tmp_path / "redis" / "data" / "appendonlydir" / "appendonly.aof.manifest").unlink()
    async with running(tmp_path) as stores:
        assert stores.mongodb_uri
