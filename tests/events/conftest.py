"""An event engine for a test: real MongoDB, Redis and HTTP; configuration and clock controlled by the test."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import prometheus_client
import pytest

from identity.call import AnonymousCaller, ApiKeyCaller, Call, Origin
from identity.config.sections import Webhooks
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.events.bus import Bus
from identity.events.delivery import Deliverer, DeliveryDependencies, PayloadLimits
from identity.events.delivery_failure_log import DeliveryFailureLog
from identity.events.metrics import EventMetrics
from identity.ids import Secret, TenantId, new_id
from identity.instants import Instant, SystemClock
from identity.outbound.http import HttpClient
from identity.outbound.spans import Tracer
from identity.schemas import Schemas
from identity.store.mongo import Database
from identity.store.outbox import Outbox
from identity.store.redis import Redis
from identity.store.vault import Vault
from identity.store.wakeups import Wakeups
from identity.store.webhook_event_log import WebhookEventLog
from identity.workers.webhook_delivery import DeliveryWorker

VAULT = Vault({"test": bytes(32)})
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
_SCHEMAS = Schemas()


class MovableClock:
    """The system clock, advanced by a test."""

    def __init__(self) -> None:
        self.offset = 0

    def now(self) -> Instant:
        return Instant(SystemClock().now() + self.offset)

    def advance(self, *, seconds: float) -> None:
        self.offset += round(seconds * 1000)


Sign = Callable[[str, Mapping[str, Any]], Awaitable[str]]


async def _no_key(_key_id: str, _claims: Mapping[str, Any]) -> str:
    raise LookupError


async def _no_certificate(_key_id: str) -> tuple[str, Secret]:
    raise LookupError


async def _no_signature(_key_id: str, _content: bytes) -> str | None:
    return None


@dataclasses.dataclass
class _Keys:
    """The keys of a test."""

    engine: Engine

    async def sign_jwt(self, key_id: str, claims: Mapping[str, Any]) -> str:
        return await self.engine.sign(key_id, claims)

    async def sign_octets(self, key_id: str, content: bytes) -> str | None:
        return await self.engine.sign_octets(key_id, content)

    async def client_certificate(self, key_id: str) -> tuple[str, Secret]:
        return await self.engine.client_certificate(key_id)


@dataclasses.dataclass
class Monitor:
    """A webhook monitor without rate limits that records the outcomes."""

    engine: Engine

    async def webhooks(self) -> list[dict[str, Any]]:
        return await self.engine.known_webhooks()

    async def find_webhook(self, webhook_id: str) -> dict[str, Any] | None:
        return next((each for each in self.engine.webhooks if each["id"] == webhook_id), None)

    async def rate_limit_seconds(self, webhook: dict[str, Any]) -> float:
        return self.engine.waits.get(webhook["id"], 0)

    async def record(self, outcomes: Any) -> None:
        self.engine.outcomes.extend(outcomes)


@dataclasses.dataclass
class Engine:
    """Everything from the bus to the receiver."""

    database: Database
    outbox: Outbox
    wakeups: Wakeups
    http: HttpClient
    clock: MovableClock
    schedule: tuple[int, ...] = (5, 300)
    retries: str = "durable"
    webhooks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    events: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    tenant_id: TenantId = dataclasses.field(default_factory=lambda: TenantId(new_id()))
    sign: Sign = _no_key
    sign_octets: Callable[[str, bytes], Awaitable[str | None]] = _no_signature
    client_certificate: Callable[[str], Awaitable[tuple[str, Secret]]] = _no_certificate
    registry: prometheus_client.CollectorRegistry = dataclasses.field(
        default_factory=prometheus_client.CollectorRegistry
    )

    tracer: Tracer = dataclasses.field(default_factory=Tracer)
    limits: PayloadLimits = dataclasses.field(default_factory=PayloadLimits)

    def __post_init__(self) -> None:
        self.metrics = EventMetrics(self.registry)
        self.failures = DeliveryFailureLog(self.clock)
        self.failures.write_to(self._written)
        self.written: list[str] = []
        self.waits: dict[str, float] = {}
        self.outcomes: list[Any] = []
        self.log = WebhookEventLog(self.database, VAULT)

    async def _written(self, message: str) -> None:
        self.written.append(message)

    @property
    def deliverer(self) -> Deliverer:
        dependencies = DeliveryDependencies("0123456789abcdef", self.tracer, self.metrics, self.limits)
        return Deliverer(self.http, self.clock, "1.2.3", _Keys(self), self.failures, dependencies)

    @property
    def bus(self) -> Bus:
        return Bus(
            self.database,
            self.outbox,
            self.deliverer,
            RetrySchedule(self.schedule, is_published=self.retries == "published"),
            webhooks=self.known_webhooks,
            tenant=self.known_tenant,
            wake=self.wakeups.notify,
        )

    def call(self, tenant_id: str | None = None, **event_info: Any) -> Call:
        """A call in the engine's tenant or another one; only a caller with an API key may state its origin."""
        caller = ApiKeyCaller({}) if event_info else AnonymousCaller()
        origin = Origin("192.0.2.7", "Browser/1", new_id(), "http://localhost:9011")
        return Call(TenantId(tenant_id or self.tenant_id), caller, self.clock.now(), origin, event_info)

    def enable(self, *types: str, transaction: str = "None") -> None:
        """Enable events in the tenant."""
        self.events |= {name: {"enabled": True, "transactionType": transaction} for name in types}

    def add_webhook(self, url: str, *types: str, **members: Any) -> dict[str, Any]:
        """A webhook for these events, global unless members say otherwise."""
        wanted = {
            "url": url,
            "connectTimeout": 5000,
            "readTimeout": 5000,
            "global": True,
            "eventsEnabled": dict.fromkeys(types, True),
            **members,
        }
        webhook = {**_SCHEMAS["api/webhook.json"].read({"webhook": wanted})["webhook"], "id": new_id()}
        self.webhooks = [*self.webhooks, webhook]
        return webhook

    async def known_webhooks(self) -> list[dict[str, Any]]:
        return self.webhooks

    async def known_tenant(self, tenant_id: TenantId) -> dict[str, Any] | None:
        return {"eventConfiguration": {"events": self.events}} if tenant_id == self.tenant_id else None

    def worker(self, **changes: Any) -> DeliveryWorker:
        """A delivery worker, not yet started."""
        settings = {
            "schedule": self.schedule,
            "jitter": 0.0,
            "lease_seconds": 30,
            "concurrency_per_webhook": 4,
            "max_concurrency": 50,
            "allowed_networks": (),
            "breaker_minimum_attempts": 0,
            "retries": self.retries,
        }
        stop_seconds = changes.pop("stop_seconds", 5.0)
        return DeliveryWorker(
            self.outbox,
            self.deliverer,
            self.wakeups,
            self.clock,
            Webhooks(**{**settings, **changes}),
            prometheus_client.CollectorRegistry() if changes else self.registry,
            monitor=Monitor(self),
            stop_seconds=stop_seconds,
        )

    @asynccontextmanager
    async def working(self, **changes: Any) -> AsyncIterator[DeliveryWorker]:
        """A running delivery worker."""
        worker = self.worker(**changes)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def states(self) -> list[tuple[str, int]]:
        """State and number of attempts of every delivery."""
        rows = self.database.collection("deliveries").find({}).sort("_id", 1)
        return [(row["state"], len(row["attempts"])) async for row in rows]


@pytest.fixture(scope="session")
async def event_database(stores: Any) -> AsyncIterator[Database]:
    found = Database(stores.mongodb_uri, f"test_{new_id()[:13].replace('-', '')}")
    await Outbox(found, VAULT, schedule_seconds=86_400).ensure_indexes()
    yield found
    await found.drop()
    found.close()


@pytest.fixture
async def engine(stores: Any, event_database: Database) -> AsyncIterator[Engine]:
    redis = Redis(stores.redis_url, f"test-{new_id()}")
    wakeups = Wakeups(redis)
    await wakeups.start()
    http = HttpClient(allowed_networks=LOOPBACK)
    yield Engine(event_database, Outbox(event_database, VAULT, schedule_seconds=86_400), wakeups, http, MovableClock())
    await http.close()
    await wakeups.stop()
    await redis.close()
    for name in ("events", "deliveries", "counters", "things"):
        await event_database.collection(name).delete_many({})


Working = AbstractAsyncContextManager[DeliveryWorker]
