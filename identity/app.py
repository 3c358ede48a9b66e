"""The composition root: from a configuration to a running service. Only run.py and the tests import it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import prometheus_client
import structlog
import tornado.httpserver
import tornado.netutil
import tornado.web

from identity import __version__
from identity.call import Call, Document, Nobody, Origin
from identity.collections import Stores
from identity.config import Config
from identity.domain import profiles
from identity.domain.delivery_schedule import Schedule
from identity.domain.kickstart import Source
from identity.events.bus import Bus
from identity.events.delivery import Deliverer
from identity.events.failures import FailureLog
from identity.ids import TenantId, new_id
from identity.instants import Clock, SystemClock
from identity.loops import Afterwards
from identity.operations import (
    back_channel_logout,
    bootstrap,
    event_logs,
)
from identity.operations.webhook_keys import WebhookKeys
from identity.operations.webhook_watch import WebhookWatch
from identity.outbound import breached_passwords
from identity.outbound.client_keys import PublishedKeys
from identity.outbound.federation import FederationClient
from identity.outbound.http import HttpClient
from identity.outbound.places import Places
from identity.passwords import PasswordPool
from identity.sandbox.pool import Sandbox
from identity.schemas import Schemas
from identity.services import Services
from identity.store import data_dir, survey
from identity.store.authorization_codes import AuthorizationCodes
from identity.store.changes import ChangeListener
from identity.store.detours import Detours
from identity.store.device_grants import DeviceGrants
from identity.store.dpop_nonces import DpopNonces
from identity.store.guard import within
from identity.store.instance import InstanceStore
from identity.store.known_devices import KnownDevices
from identity.store.lock_outs import LockOuts
from identity.store.login_intents import LoginIntents
from identity.store.mongo import Database
from identity.store.one_time_ids import OneTimeIds
from identity.store.open_verifications import OpenVerifications
from identity.store.pending_links import PendingLinks
from identity.store.pushed_requests import PushedRequests
from identity.store.rate_limits import RateLimits
from identity.store.redis import Redis
from identity.store.report_counts import ReportCounts
from identity.store.revocations import Revocations
from identity.store.sso_sessions import SsoSessions
from identity.store.tickets import Tickets
from identity.store.vault import Vault, add_master_key, ensure_master_keys, read_master_keys
from identity.store.wakeups import Wakeups
from identity.store.webhook_health import WebhookHealth
from identity.tokens.client_keys import ClientKeys
from identity.tokens.issuer import TokenIssuer
from identity.tokens.second_looks import SecondLooks
from identity.tokens.signing_keys import KeyRing
from identity.web import application as web
from identity.web import http_server
from identity.web.in_flight import InFlight
from identity.web.large_bodies import LargeBodies
from identity.workers import kickstart
from identity.workers.deliver import DeliveryWorker
from identity.workers.logout import LogoutWorker
from identity.workers.mail import MailWorker
from identity.workers.messages import MessageWorker
from identity.workers.sweep import Sweeper

_log = structlog.get_logger(__name__)

SECRETS_FILE = "kickstart-secrets.txt"

_SYNCHRONOUS_CONNECTIONS = 100
"""Room for requests that somebody waits for, such as transactional events, beside those of the background."""


_QUIET_SECONDS = 0.3
_CHECK_GRACE_SECONDS = 1.0


class Worker(Protocol):
    """A loop beside the requests."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End, and hand back what is held."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What a service runs and closes beside its Services; `closers` in the order of opening."""

    registry: prometheus_client.CollectorRegistry
    in_flight: InFlight
    workers: tuple[Worker, ...]
    closers: tuple[Callable[[], Awaitable[object]], ...]


class Service:
    """A built service: started, drained and stopped by whoever built it."""

    def __init__(self, services: Services, role: str, parts: Parts, source: Source | None) -> None:
        self.services = services
        self._role = role
        self._parts = parts
        self._source = source
        self._server: tornado.httpserver.HTTPServer | None = None
        self._compiling: asyncio.Task[None] | None = None
        self.port: int | None = None
        self.base_url = ""
        self.announcement: Mapping[str, str] = {}

    async def start(self) -> None:
        """Listen and work. The port opens last, when everything behind it is there.

        Raises OSError when the address cannot be had, StartupError when the kickstart fails.
        """
        settings = self.services.config.server
        sockets = [] if self._role == "worker" else tornado.netutil.bind_sockets(settings.port, settings.address)
        self.port = sockets[0].getsockname()[1] if sockets else None
        self.base_url = settings.base_url or f"http://localhost:{self.port or settings.port}"
        application = web.application(self.services, self._parts.registry, self._parts.in_flight)
        try:
            await self._prepare(application)
        except BaseException:
            for socket in sockets:
                socket.close()
            raise
        for worker in self._parts.workers:
            await worker.start()
        if sockets:
            self._server = http_server.serving(application, settings, LargeBodies(self.services))
            self._server.add_sockets(sockets)
            # After the port is open, in a thread: it takes longer than the rest of a start with the stores outside.
            self._compiling = asyncio.create_task(asyncio.to_thread(self.services.schemas.compile_all))

    async def drain(self, deadline_seconds: float) -> None:
        """Take no new connection, and let the requests in flight finish, for at most this long."""
        if self._server is None:
            return
        self._server.stop()
        try:
            await asyncio.wait_for(self._parts.in_flight.drained(_QUIET_SECONDS), deadline_seconds)
        except TimeoutError:
            _log.warning("requests were still running at the deadline", seconds=deadline_seconds)
        await self._server.close_all_connections()

    async def stop(self) -> None:
        """Hand back what workers hold, and close every connection."""
        if self._server is not None:
            self._server.stop()
        if self._compiling is not None:
            await self._compiling
        for worker in reversed(self._parts.workers):
            await worker.stop()
        for close in reversed(self._parts.closers):
            await close()

    async def _prepare(self, application: tornado.web.Application) -> None:
        """Make what every instance has, and run the kickstart on a server of our own that nobody else knows."""
        await bootstrap.ensure(self.services, _own_call(self.services.clock, self.base_url))
        if self._source is None:
            return
        local = http_server.serving(application, self.services.config.server, LargeBodies(self.services))
        sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
        local.add_sockets(sockets)
        try:
            local_url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
            outcome = await kickstart.run(self.services, self._source, self.base_url, local_url)
        finally:
            local.stop()
            await local.close_all_connections()
        if outcome.announce:
            self.announcement = outcome.announce
            _keep_announcement(self.services.config, outcome.announce)


async def build(config: Config, *, role: str = "all", clock: Clock | None = None) -> Service:
    """Connect to the stores and wire everything; nothing listens or works yet.

    `config` holds the real addresses of the stores. Raises StartupError when a store does not do.
    """
    clock = clock or SystemClock()
    vault = Vault.of_file(config.master_key_file)
    database = Database(config.mongodb.uri, config.mongodb.database)
    redis = Redis(config.redis.url, config.mongodb.database)
    try:
        return await _built(config, role, clock, vault, database, redis)
    except BaseException:
        await redis.close()
        database.close()
        raise


async def _built(config: Config, role: str, clock: Clock, vault: Vault, database: Database, redis: Redis) -> Service:
    await _checked(database.check(), redis.check())
    instance_store = InstanceStore(database)
    instance = await instance_store.ensure(vault)
    vault.with_fingerprint_key(instance.fingerprint_key)
    source = None if await instance_store.is_kickstarted() else _kickstart_source(config)
    stores = Stores.over(database, vault, _schedule(config))
    await stores.ensure_indexes()
    tenant_id = await _default_tenant_id(instance_store, source)
    return _wired(config, role, clock, stores, redis, instance.instance_id, tenant_id, source)


async def _checked(*checks: Coroutine[Any, Any, None]) -> None:
    """Run the checks at once and raise the first failure, when none of the others goes on and complains on its own.

    The others get a moment to end by themselves: a TLS handshake that is cut short complains on the loop.
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
    """Put a new key at the head of the master key file. Raises StartupError."""
    ensure_master_keys(config.master_key_file)
    add_master_key(config.master_key_file)


async def reencrypt(config: Config) -> int:
    """Seal everything again that was sealed under an older master key; answers how many documents that were."""
    vault = Vault(read_master_keys(config.master_key_file))
    database = Database(config.mongodb.uri, config.mongodb.database)
    try:
        await database.check()
        stores = Stores.over(database, vault, _schedule(config))
        with within(0):
            changed = await InstanceStore(database).reseal(vault)
            return changed + await stores.reseal()
    finally:
        database.close()


async def profiles_of_applications(config: Config) -> list[Document]:
    """What each active application lacks of the profile strict, read from MongoDB. Raises StartupError."""
    database = Database(config.mongodb.uri, config.mongodb.database)
    try:
        await database.check()
        return [profiles.report(*client) for client in await survey.active_clients_across_tenants(database)]
    finally:
        database.close()


@dataclasses.dataclass(frozen=True, slots=True)
class _Delivery:
    """What brings events to webhooks, mails to readers, logouts to applications: the bus, and the workers' parts."""

    http: HttpClient
    deliverer: Deliverer
    wakeups: Wakeups
    mail_wakeups: Wakeups
    logout_wakeups: Wakeups
    message_wakeups: Wakeups
    webhooks: Callable[[], Awaitable[Sequence[Document]]]
    bus: Bus
    places: Places


def _wired(
    config: Config,
    role: str,
    clock: Clock,
    stores: Stores,
    redis: Redis,
    instance_id: str,
    tenant_id: TenantId,
    source: Source | None,
) -> Service:
    """Give everything what it needs."""
    registry = prometheus_client.CollectorRegistry()
    keys_ = stores.documents["keys"]
    ring = KeyRing(lambda key_id: keys_.cached(None, key_id))
    delivery = _delivery(config, clock, stores, redis, ring)
    services = Services(
        config=config,
        clock=clock,
        schemas=Schemas(),
        instance_id=instance_id,
        default_tenant_id=tenant_id,
        instance=InstanceStore(stores.database),
        database=stores.database,
        redis=redis,
        documents=stores.documents,
        api_keys=stores.api_keys,
        users=stores.users,
        refresh_tokens=stores.refresh_tokens,
        system=stores.system,
        audit_logs=stores.audit_logs,
        event_logs=stores.event_logs,
        login_records=stores.login_records,
        known_devices=KnownDevices(stores.vault),
        report_counts=ReportCounts(stores.database),
        places=delivery.places,
        mails=stores.mails,
        text_messages=stores.text_messages,
        claims=stores.claims,
        logout_notices=stores.logout_notices,
        identity_provider_links=stores.identity_provider_links,
        scope_consents=stores.scope_consents,
        two_factor_trusts=stores.two_factor_trusts,
        user_imports=stores.user_imports,
        action_logs=stores.action_logs,
        pending_links=PendingLinks(redis, stores.vault),
        pushed_requests=PushedRequests(redis),
        dpop_nonces=DpopNonces(stores.vault),
        provider_logins=Detours(redis, stores.vault, "provider"),
        link_logins=Detours(redis, stores.vault, "link"),
        authorization_codes=AuthorizationCodes(redis),
        device_grants=DeviceGrants(redis),
        sso_sessions=SsoSessions(redis),
        login_intents=LoginIntents(redis),
        lock_outs=LockOuts(redis),
        rate_limits=RateLimits(redis),
        revocations=Revocations(redis),
        one_time_ids=OneTimeIds(redis),
        tickets=Tickets(redis),
        open_verifications=OpenVerifications(redis, stores.vault),
        tokens=TokenIssuer(ring, _second_looks(stores)),
        passwords=PasswordPool(),
        sandbox=Sandbox(config.lambdas),
        bus=delivery.bus,
        http=delivery.http,
        federation=_federation(config),
        breached_passwords=breached_passwords.source_of(config.breaches, f"identity/{__version__}"),
        client_keys=_client_keys(config),
        deliverer=delivery.deliverer,
        webhook_event_log=stores.webhook_event_log,
        webhook_health=WebhookHealth(stores.database),
        afterwards=Afterwards(),
        wake_workers=delivery.wakeups.notify,
    )
    delivery.deliverer.failures.write_to(
        lambda message: event_logs.record(services, _own_call(clock), "Error", message)
    )
    workers = _workers(services, stores, delivery, registry, role)
    parts = Parts(
        registry,
        InFlight(),
        workers,
        (
            _closing(services),
            redis.close,
            delivery.http.close,
            services.federation.close,
            services.client_keys.close,
            services.breached_passwords.close,
            services.sandbox.close,
            services.places.close,
            services.afterwards.finish,
        ),
    )
    return Service(services, role, parts, source)


def _delivery(config: Config, clock: Clock, stores: Stores, redis: Redis, ring: KeyRing) -> _Delivery:
    tenants_, webhooks_ = stores.documents["tenants"], stores.documents["webhooks"]
    http = HttpClient(
        allowed_networks=config.webhooks.allowed_networks,
        max_connections=config.webhooks.max_concurrency
        + back_channel_logout.MAX_CONCURRENCY
        + _SYNCHRONOUS_CONNECTIONS,
        user_agent=f"identity/{__version__}",
        proxy=config.outbound.proxy,
    )
    keys_ = WebhookKeys(ring, stores.documents["keys"])
    deliverer = Deliverer(http, clock, __version__, keys_, FailureLog(clock))
    wakeups, mail_wakeups, logout_wakeups = Wakeups(redis), Wakeups(redis, "mails"), Wakeups(redis, "logouts")
    stores.mails.on_new(mail_wakeups.notify)
    stores.logout_notices.on_new(logout_wakeups.notify)
    message_wakeups = Wakeups(redis, "messages")
    stores.text_messages.on_new(message_wakeups.notify)

    async def every_webhook() -> Sequence[Document]:
        return await webhooks_.cached_list(None, "all", {})

    places = Places(config.geoip.file)
    bus = Bus(
        stores.database,
        stores.outbox,
        deliverer,
        _schedule(config),
        webhooks=every_webhook,
        tenant=lambda wanted: tenants_.cached(None, wanted),
        wake=wakeups.notify,
        locate=places.find,
    )
    waking = (wakeups, mail_wakeups, logout_wakeups, message_wakeups)
    return _Delivery(http, deliverer, *waking, every_webhook, bus, places)


def _federation(config: Config) -> FederationClient:
    settings = config.identity_providers
    http = HttpClient(
        allowed_networks=settings.allowed_networks,
        max_connections=settings.max_concurrency,
        max_waiting=10 * settings.max_concurrency,
        user_agent=f"identity/{__version__}",
        proxy=config.outbound.proxy,
    )
    return FederationClient(
        http,
        connect_timeout_ms=settings.connect_timeout,
        read_timeout_ms=settings.read_timeout,
        # Four providers that hang leave room for the others.
        calls_to_one=max(1, settings.max_concurrency // 5),
    )


def _client_keys(config: Config) -> ClientKeys:
    settings = config.client_keys
    http = HttpClient(
        allowed_networks=settings.allowed_networks,
        max_connections=settings.max_concurrency,
        max_waiting=10 * settings.max_concurrency,
        user_agent=f"identity/{__version__}",
        proxy=config.outbound.proxy,
    )
    published = PublishedKeys(http, connect_timeout_ms=settings.connect_timeout, read_timeout_ms=settings.read_timeout)
    return ClientKeys(published)


def _workers(
    services: Services, stores: Stores, delivery: _Delivery, registry: prometheus_client.CollectorRegistry, role: str
) -> tuple[Worker, ...]:
    """The loops of this process: every one hears of changes, those that are not only for the web do the rest."""
    changes = ChangeListener(stores.database, stores.cached, stores.freshness)
    listeners = (
        changes,
        delivery.wakeups,
        delivery.mail_wakeups,
        delivery.logout_wakeups,
        delivery.message_wakeups,
    )
    if role == "web":
        return listeners
    settings = services.config.webhooks
    worker = DeliveryWorker(
        stores.outbox,
        delivery.deliverer,
        delivery.wakeups,
        services.clock,
        settings,
        registry,
        watch=WebhookWatch(services, delivery.webhooks),
    )
    queues = (
        MailWorker(services, delivery.mail_wakeups, registry),
        LogoutWorker(services, delivery.logout_wakeups, registry),
        MessageWorker(services, delivery.message_wakeups, registry),
    )
    return (*listeners, worker, *queues, Sweeper(services))


def _own_call(clock: Clock, base_url: str = "") -> Call:
    """What the service does by itself, in no tenant."""
    return Call(None, Nobody(), clock.now(), Origin("127.0.0.1", "", new_id(), base_url))


def _second_looks(stores: Stores) -> SecondLooks:
    def forget(tenant_id: str, settings_id: str) -> None:
        stores.documents["tenants"].forget(tenant_id)
        stores.documents["applications"].forget(settings_id)
        stores.documents["entity_types"].forget(settings_id)

    return SecondLooks(forget)


def _closing(services: Services) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        services.passwords.close()
        services.database.close()

    return close


def _schedule(config: Config) -> Schedule:
    return Schedule(config.webhooks.schedule, config.webhooks.jitter, config.webhooks.is_published)


def _kickstart_source(config: Config) -> Source | None:
    file = config.kickstart.file
    return None if file is None else kickstart.read_source(file, os.environ)


async def _default_tenant_id(instance: InstanceStore, source: Source | None) -> TenantId:
    """The default tenant's id: the instance's; for a new instance the kickstart's, else a random one."""
    known = await instance.default_tenant_id()
    if known is not None:
        return known
    wanted = source.default_tenant_id if source is not None else None
    return await instance.claim_default_tenant(TenantId(wanted or new_id()))


def _keep_announcement(config: Config, announcement: Mapping[str, str]) -> None:
    """Write what the operator is shown once into a file that only this user can read."""
    text = "".join(f"{name}: {value}\n" for name, value in announcement.items())
    data_dir.write_private(config.data_dir / SECRETS_FILE, text.encode())
