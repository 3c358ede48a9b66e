"""External MongoDB and Redis: TLS, passwords, minimal rights, and error messages."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
import subprocess
from pathlib import Path

import pymongo
import pytest
import redis.asyncio

from identity import app
from identity.errors import StartupError
from identity.store.embedded import mongod
from identity.store.embedded.mongod import Mongod
from identity.store.embedded.redis_server import RedisServer
from identity.store.embedded.supervisor import Supervisor
from tests import certificates
from tests.operator.processes import run, serving
from tests.ports import free_port

MONGODB_ROLES = [{"role": "readWrite", "db": "identity"}, {"role": "dbAdmin", "db": "identity"}]
REDIS_RIGHTS = ("+@all", "-@admin", "-@dangerous", "+info")


class TlsMongod(Mongod):
    """Like the embedded one, with optional TLS."""

    def command(self) -> list[str]:
        base = self.folder.parent
        options = ["--tlsMode", "allowTLS", "--tlsAllowConnectionsWithoutCertificates"]
        return [
            *(*super().command(), *options),
            *("--tlsCertificateKeyFile", str(base / "server.pem"), "--tlsCAFile", str(base / "ca.pem")),
        ]


@dataclasses.dataclass
class Stores:
    """The addresses and credentials of the stores."""

    mongodb: str
    redis: str

    def settings(self, *, password: str = "right") -> dict[str, str]:
        """The environment variables of a service that uses them."""
        return {
            "mongodb__uri": self.mongodb.replace("PASSWORD", password),
            "redis__url": self.redis.replace("PASSWORD", password),
            "kickstart__file": "null",
        }


@pytest.fixture(scope="module")
async def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("external")
    (folder / "logs").mkdir()
    ca = folder / "ca.pem"
    ca.write_text(certificates.authority().pem)
    certificate = certificates.make("localhost", certificates.authority())
    (folder / "mongodb").mkdir()
    (folder / "mongodb" / "server.pem").write_text(certificate.pem + certificate.key_pem)
    (folder / "mongodb" / "ca.pem").write_text(ca.read_text())
    database, cache = TlsMongod(folder), RedisServer(folder)
    supervisors = [Supervisor(database), Supervisor(cache)]
    await asyncio.gather(*(each.start() for each in supervisors))
    port = int((folder / "mongodb" / "port").read_text())
    await asyncio.to_thread(add_mongodb_user, port, (folder / "mongodb" / "keyfile").read_text())
    async with redis.asyncio.Redis.from_url(cache.url) as client:
        await client.execute_command("ACL", "SETUSER", "identity", "on", ">right", "~*", "&*", *REDIS_RIGHTS)
    async with tls_in_front_of(cache.url, certificate) as tls_port:
        yield Stores(
            f"mongodb://owner:PASSWORD@127.0.0.1:{port}/?replicaSet=rs0&authSource=admin&tls=true&tlsCAFile={ca}",
            f"rediss://identity:PASSWORD@localhost:{tls_port}/0?ssl_ca_certs={ca}",
        )
    await asyncio.gather(*(each.stop() for each in supervisors))


def add_mongodb_user(port: int, key: str) -> None:
    with pymongo.MongoClient(
        "127.0.0.1", port, directConnection=True, username="__system", password=key, authSource="local"
    ) as client:
        client.admin.command("createUser", "owner", pwd="right", roles=MONGODB_ROLES)


@contextlib.asynccontextmanager
async def tls_in_front_of(url: str, certificate: certificates.Certificate):
    """A TLS port that forwards to a Unix socket, because the server of the wheel does not support TLS."""
    socket = url.removeprefix("unix://")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificates.server_context(certificate))
    yield server.sockets[0].getsockname()[1]
    server.close()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while block := await source.read(65536):
            sink.write(block)
            await sink.drain()
    sink.close()


def failure(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 1, finished.stderr
    assert "Traceback" not in finished.stderr
    return finished.stderr.rpartition("run.py: ")[2]


@pytest.mark.requirement("design-stores-6", "project-16")
async def test_the_documented_users_over_tls_are_enough(stores, tmp_path):
    def use() -> None:
        with serving(tmp_path, **stores.settings()) as process:
            assert process.stop() == 0
            assert "Traceback" not in process.text()

    await asyncio.to_thread(use)
    assert not (tmp_path / "mongodb").exists()


@pytest.mark.requirement("project-16")
@pytest.mark.parametrize(
    ("store", "expected"),
    [("mongodb__uri", "MongoDB refused the connection (mongodb.uri)"), ("redis__url", "Redis refused the connection")],
)
async def test_a_wrong_password_is_named(stores, tmp_path, store, expected):
    settings = stores.settings() | {store: stores.settings(password="wrong")[store]}
    message = failure(await asyncio.to_thread(run, tmp_path, **settings))
    assert message.startswith(expected)
    assert "wrong" not in message


@pytest.mark.requirement("project-16")
@pytest.mark.parametrize(
    ("store", "trust", "expected"),
    [
        ("mongodb__uri", "tlsCAFile", "MongoDB does not answer (mongodb.uri)"),
        ("redis__url", "ssl_ca_certs", "Redis does not answer (redis.url)"),
    ],
)
async def test_certificate_of_another_host_is_refused(stores, tmp_path, store, trust, expected):
    other = tmp_path / "other.pem"
    other.write_text(certificates.make("another authority", is_authority=True).pem)
    settings = stores.settings()
    settings[store] = f"{settings[store].partition(trust)[0]}{trust}={other}"
    message = failure(await asyncio.to_thread(run, tmp_path / "var", **settings))
    assert message.startswith(expected)
    assert "certificate" in message.lower()


@pytest.mark.requirement("demo-12", "design-stores-8")
async def test_standalone_mongodb_gets_instructions_for_a_replica_set(stores, tmp_path):
    (tmp_path / "db").mkdir()
    port = free_port()
    server = subprocess.Popen(
        [
            mongod.program(),
            "--dbpath",
            tmp_path / "db",
            "--bind_ip",
            "127.0.0.1",
            "--port",
            str(port),
            "--nounixsocket",
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        with pymongo.MongoClient("127.0.0.1", port) as client:
            await asyncio.to_thread(client.admin.command, "ping")
        settings = stores.settings() | {"mongodb__uri": f"mongodb://127.0.0.1:{port}/"}
        message = failure(await asyncio.to_thread(run, tmp_path / "var", **settings))
    finally:
        server.terminate()
        server.wait()
    assert message.startswith("MongoDB at ")
    assert "is a standalone server" in message
    assert "replSetName: rs0" in message
    assert "rs.initiate()" in message


@pytest.mark.requirement("demo-11")
async def test_a_full_disk_is_named_also_without_embedded_stores(stores, tmp_path):
    limited = await asyncio.to_thread(run, tmp_path / "var", limit="trap '' XFSZ && ulimit -f 4", **stores.settings())
    message = failure(limited)
    assert message.startswith(f"data_dir {tmp_path}/var cannot be used: File too large")


@contextlib.asynccontextmanager
async def silence():
    """The port of a server that accepts connections and never answers."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        yield silent.sockets[0].getsockname()[1]
    finally:
        silent.close()


async def test_startup_check_of_a_silent_store_times_out(stores, tmp_path):
    async with silence() as port:
        settings = stores.settings() | {"redis__url": f"redis://127.0.0.1:{port}/0"}
        message = failure(await asyncio.to_thread(run, tmp_path / "var", **settings))
    assert message.startswith("Redis does not answer (redis.url)")


async def test_failure_of_one_store_is_reported_at_once(stores, tmp_path):
    async with silence() as port:
        settings = stores.settings(password="wrong") | {"redis__url": f"rediss://127.0.0.1:{port}/0"}
        message = failure(await asyncio.to_thread(run, tmp_path / "var", **settings))
    assert message.startswith("MongoDB refused the connection (mongodb.uri)")


async def test_failed_check_waits_for_the_others_and_ignores_their_errors():
    ended = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise StartupError("one")

    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise StartupError("two") from None

    with pytest.raises(StartupError, match="one"):
        await app._checked(fails(), fails_when_cancelled())
    assert ended


def test_the_documentation_names_the_rights_that_are_tested():
    text = (Path(__file__).resolve().parent.parent.parent / "docs" / "deploy" / "README.md").read_text()
    assert 'roles: [{role: "readWrite", db: "identity"}, {role: "dbAdmin", db: "identity"}]' in text
    assert f"~* &* {' '.join(REDIS_RIGHTS)}" in text
