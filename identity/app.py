"""The composition root: builds a service from its configuration. Only the command line and the tests import it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import socket
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from typing import Any

import structlog
import tornado.netutil
import tornado.web

from identity import __version__, wiring
from identity.call import Document
from identity.collections import Stores
from identity.config import EMBEDDED, Config
from identity.domain.clients import security_profiles
from identity.domain.configuration import administrator_realm
from identity.domain.configuration import tenants as tenant_rules
from identity.domain.configuration import themes as theme_rules
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID as ADMINISTRATOR_APPLICATION_ID
from identity.domain.objects.kickstart import Source
from identity.errors import StartupError
from identity.ids import TenantId, new_id
from identity.instants import Clock, SystemClock
from identity.operations.configuration import bootstrap, recovery_keys
from identity.outbound import mail
from identity.services import Services
from identity.store import cli_queries, data_dir
from identity.store.instance import InstanceStore
from identity.store.migrations import SchemaVersion
from identity.store.mongo import Database
from identity.store.redis import Redis
from identity.store.store_circuit_breaker import time_limit
from identity.store.vault import Vault, add_master_key, read_master_keys
from identity.web import application as web
from identity.web import http_server
from identity.workers import kickstart

_log = structlog.get_logger(__name__)

_QUIET_SECONDS = 0.3
_CHECK_GRACE_SECONDS = 1.0
_CHECK_SECONDS = 2.0
"""How long check-config waits for MongoDB."""

_MOST_MAIL_SERVERS = 100

_UNFINISHED = (
    "The first start of this instance has not been completed. Start the service: it begins the first start again, which"
    " deletes what the interrupted one had created"
)


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryAccess:
    """Access to the API of a service that does not listen publicly; `host` is the Host header of its base URL."""

    url: str
    key: str
    host: str


class Service:
    """A built service, which its creator starts, drains and stops."""

    def __init__(self, services: Services, role: str, parts: wiring.Parts, source: Source | None) -> None:
        self.services = services
        self._role = role
        self._parts = parts
        self._source = source
        self._server: http_server.Server | None = None
        self.port: int | None = None
        self.base_url = ""
        self.monitoring_url = ""
        """The address of the metrics and the health of a worker, which has no other port."""
        self.announcement: Mapping[str, str] = {}

    async def start(self) -> None:
        """Prepare the instance, start the workers and open the port, in this order.

        Raises OSError if the address is not available, and StartupError if the kickstart fails.
        """
        settings = self.services.config.server
        sockets = self._sockets()
        port = sockets[0].getsockname()[1] if sockets else None
        application = web.application(self.services, self._parts.registry, self._parts.in_flight)
        served = application
        if self._role == "worker":
            self.monitoring_url = f"http://localhost:{port}" if port else ""
            served = web.monitoring_application(self.services, self._parts.registry, self._parts.in_flight, application)
        else:
            self.port = port
        self.base_url = settings.base_url or f"http://localhost:{self.port or settings.port}"
        try:
            await self._prepare(application)
        except BaseException:
            for each in sockets:
                each.close()
            raise
        for worker in self._parts.workers:
            await worker.start()
        if sockets:
            self._server = http_server.Server(served, settings, web.body_limits(self.services))
            self._server.add_sockets(sockets)

    def _sockets(self) -> list[socket.socket]:
        """Listen for requests, or in a worker for those of the monitoring, if it has a port for them."""
        config = self.services.config
        if self._role != "worker":
            return tornado.netutil.bind_sockets(config.server.port, config.server.address)
        if config.metrics.worker_port is None:
            return []
        return tornado.netutil.bind_sockets(config.metrics.worker_port, config.metrics.worker_address)

    async def drain(self, deadline_seconds: float) -> None:
        """Refuse new connections, and let requests in flight finish within `deadline_seconds`."""
        if self._server is None:
            return
        self._server.stop()
        try:
            await asyncio.wait_for(self._parts.in_flight.drained(_QUIET_SECONDS), deadline_seconds)
        except TimeoutError:
            _log.warning("requests were still running at the deadline", seconds=deadline_seconds)
        await self._server.close_all_connections()

    async def stop(self) -> None:
        """Stop the workers, which release their leases, and close every connection."""
        if self._server is not None:
            self._server.stop()
        for worker in reversed(self._parts.workers):
            await worker.stop()
        for close in reversed(self._parts.closers):
            await close()

    @contextlib.asynccontextmanager
    async def recovery(self) -> AsyncIterator[RecoveryAccess]:
        """Serve requests on a private port of this machine, with an API key that ends with the block.

        The service must not be started. The key may do everything.
        """
        settings = self.services.config.server
        self.base_url = settings.base_url or f"http://localhost:{settings.port}"
        if await self.services.runtime.instance.is_kickstart_unfinished():
            raise StartupError(_UNFINISHED)
        call = wiring.own_call(self.services.clock, self.base_url)
        await bootstrap.ensure(self.services, call)
        application = web.application(self.services, self._parts.registry, self._parts.in_flight)
        async with self._private_server(application) as local_url, recovery_keys.temporary(self.services, call) as key:
            yield RecoveryAccess(local_url, key, urllib.parse.urlsplit(self.base_url).netloc)

    @contextlib.asynccontextmanager
    async def _private_server(self, application: tornado.web.Application) -> AsyncIterator[str]:
        """Serve requests on a free port of the loopback interface; provide its URL."""
        local = http_server.Server(application, self.services.config.server, web.body_limits(self.services))
        sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
        local.add_sockets(sockets)
        try:
            yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        finally:
            local.stop()
            await local.close_all_connections()

    async def _prepare(self, application: tornado.web.Application) -> None:
        """Create the objects of every instance, and run the kickstart against a private server on localhost."""
        call = wiring.own_call(self.services.clock, self.base_url)
        if self._source is None and not await self.services.runtime.instance.is_kickstart_unfinished():
            await bootstrap.ensure(self.services, call)
            return
        async with kickstart.claimed(self.services) as claim:
            await bootstrap.ensure(self.services, call)
            if claim is None:
                return
            if self._source is None:
                await self.services.runtime.instance.release_kickstart(claim.owner)
                return
            keep = functools.partial(_keep_announcement, self.services.config)
            async with self._private_server(application) as local_url:
                with web.access_log_suspended(application):
                    self.announcement = await kickstart.run(
                        self.services, claim, self._source, self.base_url, local_url, keep
                    )


async def build(config: Config, *, role: str = "all", clock: Clock | None = None) -> Service:
    """Connect to the stores and wire the service; nothing listens or runs yet.

    `config` has the actual addresses of the stores. Raises StartupError for a store that cannot be used.
    """
    clock = clock or SystemClock()
    telemetry = wiring.Telemetry()
    database = Database(config.mongodb.uri, config.mongodb.database, telemetry.stores)
    redis = Redis(config.redis.url, config.mongodb.database, telemetry.stores)
    try:
        return await _built(config, role, clock, database, redis, telemetry)
    except BaseException:
        await redis.close()
        database.close()
        raise


@contextlib.asynccontextmanager
async def recovery(config: Config) -> AsyncIterator[RecoveryAccess]:
    """Provide access to the API straight on the stores, also while other processes serve. Raises StartupError."""
    service = await build(config, role="web")
    try:
        async with service.recovery() as access:
            yield access
    finally:
        await service.stop()


async def _built(
    config: Config,
    role: str,
    clock: Clock,
    database: Database,
    redis: Redis,
    telemetry: wiring.Telemetry,
) -> Service:
    await _checked(database.check(), redis.check())
    schema = SchemaVersion(database, __version__)
    await schema.require_supported()
    instance_store = InstanceStore(database)
    vault = await _vault(config, instance_store)
    await schema.record_new_database()
    instance = await instance_store.ensure(vault)
    vault.with_fingerprint_key(instance.fingerprint_key)
    source = None if await instance_store.is_kickstarted() else _kickstart_source(config)
    stores = Stores(database, vault, wiring.schedule(config))
    await stores.ensure_indexes()
    await schema.migrate(stores.migrations())
    tenant_id = await _default_tenant_id(instance_store, source)
    services, parts = wiring.wired(config, role, clock, stores, redis, instance.instance_id, tenant_id, telemetry)
    return Service(services, role, parts, source)


async def _vault(config: Config, instance: InstanceStore) -> Vault:
    """Return the vault; a key is created only for a database without an instance. Raises StartupError."""
    fault = await instance.master_key_fault(config.master_key_file)
    if fault is not None:
        raise StartupError(fault)
    return Vault.of_file(config.master_key_file)


async def _checked(*checks: Coroutine[Any, Any, None]) -> None:
    """Run checks concurrently and raise the first failure.

    The others get a moment to finish, because cancelling a TLS handshake logs an error.
    """
    running = [asyncio.create_task(check) for check in checks]
    try:
        await asyncio.gather(*running)
    finally:
        await asyncio.wait(running, timeout=_CHECK_GRACE_SECONDS)
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def rotate_master_key(config: Config) -> None:
    """Add a new key as the first of the master key file. Raises StartupError."""
    add_master_key(config.master_key_file)


async def release(config: Config) -> None:
    """Let quiesced processes send. Raises StartupError if MongoDB does not answer, or has no instance."""
    async with _connected(config) as database:
        if not await InstanceStore(database).release():
            raise StartupError(f"The database {config.mongodb.database} has no instance (mongodb.database)")


async def reencrypt(config: Config) -> int:
    """Encrypt again what older master keys encrypted; return the number of changed documents."""
    vault = Vault(read_master_keys(config.master_key_file))
    async with _connected(config) as database:
        with time_limit(0):
            changed = await InstanceStore(database).reseal(vault)
            return changed + await Stores(database, vault, wiring.schedule(config)).reseal()


@contextlib.asynccontextmanager
async def _connected(config: Config) -> AsyncIterator[Database]:
    """A connection to MongoDB for a command. Raises StartupError."""
    database = Database(config.mongodb.uri, config.mongodb.database)
    try:
        await database.check()
        yield database
    finally:
        database.close()


def shard_commands(config: Config) -> list[Document]:
    """Return the commands that shard the large collections."""
    return cli_queries.sharding_commands(config.mongodb.database)


async def shard(config: Config) -> list[Document]:
    """Shard the large collections and return the commands that ran. Raises StartupError without a mongos."""
    async with _connected(config) as database:
        return [command async for command in cli_queries.shard(database)]


async def mongodb_fault(config: Config) -> str | None:
    """Return why the MongoDB with a configured address cannot be used; the embedded one is not checked."""
    if config.mongodb.uri == EMBEDDED:
        return None
    database = Database(config.mongodb.uri, config.mongodb.database)
    with time_limit(_CHECK_SECONDS):
        fault = await _fault(_usable(database))
    database.close()
    return fault


async def master_key_fault(config: Config) -> str | None:
    """Return why the master key file does not belong to the database. Raises StartupError if that cannot be read."""
    async with _connected(config) as database:
        with cli_queries.reading("the instance"), time_limit(_CHECK_SECONDS):
            return await InstanceStore(database).master_key_fault(config.master_key_file)


async def redis_fault(config: Config) -> str | None:
    """Return why the Redis with a configured address cannot be used; the embedded one is not checked."""
    if config.redis.url == EMBEDDED:
        return None
    redis = Redis(config.redis.url, config.mongodb.database)
    fault = await _fault(redis.check())
    await redis.close()
    return fault


async def _usable(database: Database) -> None:
    """Raise StartupError for a database that does not answer, or that a later release has upgraded."""
    await database.check()
    await SchemaVersion(database, __version__).require_supported()


async def _fault(check: Awaitable[None]) -> str | None:
    try:
        await check
    except StartupError as error:
        return str(error)
    return None


async def profiles_of_applications(config: Config) -> list[Document]:
    """Return what each active application lacks for the profile strict, read from MongoDB. Raises StartupError."""
    async with _connected(config) as database:
        clients = await cli_queries.active_clients_across_tenants(database)
    return [security_profiles.report(*client) for client in clients]


async def duplicate_issuers(config: Config) -> list[Document]:
    """Return the issuers that several tenants share, read from MongoDB. Raises StartupError."""
    async with _connected(config) as database:
        return tenant_rules.duplicate_issuers(await cli_queries.tenants(database))


async def unused_theme_messages(config: Config) -> list[Document]:
    """Return the keys of messages that no page shows, by theme, read from MongoDB. Raises StartupError."""
    async with _connected(config) as database:
        themes = await cli_queries.themes(database)
    unused = ((theme, theme_rules.unused_messages(theme)) for theme in themes)
    return [{"themeId": theme["id"], "name": theme["name"], "keys": keys} for theme, keys in unused if keys]


async def mail_server_faults(config: Config) -> list[str]:
    """Return why mail servers of tenants, and that of the console, cannot be used.

    Raises StartupError if MongoDB cannot be read.

    A tenant with the default settings has no mail server. Each server is tried once, and at most a hundred are.
    """
    if not config.master_key_file.exists():
        return []
    vault = Vault(read_master_keys(config.master_key_file))
    async with _connected(config) as database:
        tenants = await Stores(database, vault, wiring.schedule(config)).documents["tenants"].find_all(None)
    configured = [(one["emailConfiguration"], one["name"]) for one in tenants]
    servers = {
        mail.MailServer.of(settings): (f"of the tenant {name}", "emailConfiguration of the tenant")
        for settings, name in configured
        if mail.is_configured(settings)
    }
    if config.console_email.host is not None:
        of_console = mail.MailServer.of(administrator_realm.mail_server(config.console_email))
        servers = {of_console: ("of the console", "console_email"), **servers}
    used = dict(list(servers.items())[:_MOST_MAIL_SERVERS])
    problems = await mail.SmtpClient(config.email).problems(list(used))
    return [
        f"the mail server {server.host}:{server.port} {owner} cannot be used: {problem};"
        f" correct {setting}, or the server"
        for (server, (owner, setting)), problem in zip(used.items(), problems, strict=True)
        if problem is not None
    ]


def _kickstart_source(config: Config) -> Source | None:
    file = config.kickstart.file
    return None if file is None else kickstart.read_source(file, os.environ)


async def _default_tenant_id(instance: InstanceStore, source: Source | None) -> TenantId:
    """Return the id of the default tenant: of a new instance that of the kickstart, or else a random one."""
    known = await instance.default_tenant_id()
    if known is not None:
        return known
    wanted = source.default_tenant_id if source is not None else None
    return await instance.claim_default_tenant(TenantId(wanted or new_id()))


def _keep_announcement(config: Config, announcement: Mapping[str, str]) -> None:
    """Write the announcement of the kickstart to a file that only this user can read; remove that of a failed one."""
    file = config.data_dir / data_dir.SECRETS_FILE
    if not announcement:
        file.unlink(missing_ok=True)
        return
    text = "".join(f"{name}: {value}\n" for name, value in announcement.items())
    data_dir.write_private(file, text.encode())
