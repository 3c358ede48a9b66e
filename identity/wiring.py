"""Wiring of the composition root: dependencies, workers, and what is closed at the end. Only app.py imports it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import prometheus_client

from identity import __version__
from identity.authentication_metrics import AuthenticationMetrics
from identity.background_tasks import BackgroundWork
from identity.call import AnonymousCaller, Call, Document, Origin
from identity.collections import Stores, redis_stores
from identity.config import Config
from identity.config.sections import ClientKeys as ClientKeysSettings
from identity.config.sections import Connectors, IdentityProviders
from identity.domain.webhooks import delivery_loop_detection
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.events.bus import MAX_APPROVAL_REQUESTS, Bus
from identity.events.delivery import Deliverer, DeliveryDependencies, PayloadLimits
from identity.events.delivery_failure_log import DeliveryFailureLog
from identity.events.metrics import EventMetrics
from identity.events.quiescence import Quiescence
from identity.ids import TenantId, new_id
from identity.instants import Clock
from identity.operations.messaging.webhook_keys import WebhookKeys
from identity.operations.objects import event_logs
from identity.operations.sessions import back_channel_logout
from identity.operations.webhooks.webhook_monitoring import WebhookMonitor
from identity.outbound import breached_passwords, tracing
from identity.outbound.address_lists import AddressLists
from identity.outbound.client_key_fetch import ClientKeyFetcher
from identity.outbound.connector_clients import ConnectorClients
from identity.outbound.federation import FederationClient
from identity.outbound.geoip import GeoIpDatabase
from identity.outbound.http import HttpClient
from identity.password_pool import PasswordPool
from identity.sandbox.pool import Sandbox
from identity.schemas import Schemas
from identity.services import (
    Configuration,
    Directory,
    ErasureStores,
    LambdaRuntime,
    Limits,
    Logs,
    Outbound,
    Runtime,
    Services,
    Sessions,
    Tokens,
)
from identity.store.activity import ReportCounts
from identity.store.change_stream import ChangeListener
from identity.store.instance import InstanceStore
from identity.store.redis import Redis
from identity.store.signed_values import DpopNonces, KnownDevices
from identity.store.telemetry import CacheMetrics, StoreTelemetry
from identity.store.wakeups import Wakeups
from identity.store.webhook_health import WebhookHealth
from identity.tokens import client_certificates, external_keys
from identity.tokens.external_keys import ClientKeys
from identity.tokens.issuer import KeyRefreshThrottle, TokenIssuer
from identity.tokens.signing_keys import KeyRing
from identity.web.in_flight import InFlight
from identity.workers.back_channel_logout import LogoutWorker
from identity.workers.discovery_prefetch import DiscoveryPrefetch
from identity.workers.held_senders import HeldSenders, Worker
from identity.workers.loop_lag import LoopLag
from identity.workers.mail import MailWorker
from identity.workers.sweep import Sweeper
from identity.workers.text_messages import MessageWorker
from identity.workers.webhook_delivery import DeliveryWorker

F = TypeVar("F")

_USER_AGENT = f"identity/{__version__}"


class Telemetry:
    """The metrics of a process, and those of its stores, which exist before everything else."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self.stores = StoreTelemetry(self.registry)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a service that operations do not use; `closers` are in the order of opening."""

    registry: prometheus_client.CollectorRegistry
    in_flight: InFlight
    workers: tuple[Worker, ...]
    closers: tuple[Callable[[], Awaitable[object]], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Delivery:
    """The parts that deliver events, mails, text messages and logout notices: the bus, and those of the workers."""

    http: HttpClient
    deliverer: Deliverer
    wakeups: Wakeups
    mail_wakeups: Wakeups
    logout_wakeups: Wakeups
    message_wakeups: Wakeups
    webhooks: Callable[[], Awaitable[Sequence[Document]]]
    bus: Bus
    geoip: GeoIpDatabase


def wired(
    config: Config,
    role: str,
    clock: Clock,
    stores: Stores,
    redis: Redis,
    instance_id: str,
    tenant_id: TenantId,
    telemetry: Telemetry,
) -> tuple[Services, Parts]:
    """Create the dependencies and workers; nothing listens or runs yet."""
    ring = _ring(stores)
    registry = telemetry.registry
    registry.register(CacheMetrics(stores.cache_counts))
    tracer = tracing.create_tracer(config.tracing, registry, __version__, instance_id)
    if config.tracing.endpoint is not None:
        telemetry.stores.record_span = tracer.record
    service_id = delivery_loop_detection.service_id_of(instance_id)
    limits = PayloadLimits(config.webhooks.payload_warn_bytes, config.webhooks.payload_max_bytes)
    quiescence = Quiescence(is_active=config.server.quiesced)
    dependencies = DeliveryDependencies(service_id, tracer, EventMetrics(registry), limits, quiescence)
    delivery = _delivery(config, clock, stores, redis, ring, dependencies)
    parts: Mapping[str, Any] = {
        **_stores_by_name(stores, redis),
        **_pools_and_clients(config, registry),
        "instance_id": instance_id,
        "default_tenant_id": tenant_id,
        "geoip": delivery.geoip,
        "blocklist": AddressLists(config.client_risk.blocklist_files),
        "issuer": TokenIssuer(ring, _refresh_throttle(stores)),
        "authentication_metrics": AuthenticationMetrics(registry),
        "http": delivery.http,
        "deliverer": delivery.deliverer,
        "tracer": tracer,
        "service_id": service_id,
        "wake_workers": delivery.wakeups.notify,
    }
    logs = _facet(Logs, {**parts, "erasure": _facet(ErasureStores, parts)})
    services = Services(
        config=config,
        clock=clock,
        schemas=Schemas(),
        bus=delivery.bus,
        directory=_facet(Directory, parts),
        configuration=_facet(Configuration, parts),
        outbound=_facet(Outbound, parts),
        tokens=_facet(Tokens, parts),
        sessions=_facet(Sessions, parts),
        limits=_facet(Limits, parts),
        logs=logs,
        runtime=_facet(Runtime, parts),
    )
    delivery.deliverer.failures.write_to(lambda message: event_logs.record(services, own_call(clock), "Error", message))
    return services, _parts(services, stores, delivery, registry, role)


def own_call(clock: Clock, base_url: str = "") -> Call:
    """Return a call of the service itself, without a tenant."""
    return Call(None, AnonymousCaller(), clock.now(), Origin("127.0.0.1", "", new_id(), base_url))


def schedule(config: Config) -> RetrySchedule:
    """Return the schedule of delivery retries."""
    return RetrySchedule(config.webhooks.schedule, config.webhooks.jitter, config.webhooks.is_published)


def _stores_by_name(stores: Stores, redis: Redis) -> dict[str, Any]:
    """Return the stores by the names of members of the facets."""
    return {
        **vars(stores),
        **stores.documents,
        **redis_stores(redis, stores.vault),
        "collections": stores.documents,
        "instance": InstanceStore(stores.database),
        "known_devices": KnownDevices(stores.vault),
        "report_counts": ReportCounts(stores.database),
        "dpop_nonces": DpopNonces(stores.vault),
        "webhook_health": WebhookHealth(stores.database),
    }


def _pools_and_clients(config: Config, registry: prometheus_client.CollectorRegistry) -> dict[str, Any]:
    """Return the pools and HTTP clients by the names of members of the facets."""
    return {
        "passwords": PasswordPool(registry=registry),
        "lambda_runtime": _lambda_runtime(config),
        "federation": FederationClient(_client_for(config, config.identity_providers), config.identity_providers),
        "connector_clients": ConnectorClients(_client_for(config, config.connectors), config.connectors),
        "breached_passwords": breached_passwords.create_source(config.breaches, _USER_AGENT),
        "client_keys": _client_keys(config),
        "background_work": BackgroundWork(),
    }


def _facet(kind: Callable[..., F], parts: Mapping[str, Any]) -> F:
    return kind(**{name: parts[name] for name in inspect.signature(kind).parameters})


def _parts(
    services: Services, stores: Stores, delivery: _Delivery, registry: prometheus_client.CollectorRegistry, role: str
) -> Parts:
    closers = (
        _closing(services),
        services.runtime.redis.close,
        services.outbound.http.close,
        services.outbound.federation.close,
        services.outbound.connector_clients.close,
        services.tokens.client_keys.close,
        services.runtime.breached_passwords.close,
        services.runtime.lambda_runtime.close,
        services.runtime.geoip.close,
        services.runtime.background_work.finish,
    )
    workers = _workers(services, stores, delivery, registry, role)
    # The tracer is stopped last, to export the spans of the others.
    return Parts(registry, InFlight(), (services.outbound.tracer, *workers), closers)


def _ring(stores: Stores) -> KeyRing:
    keys_ = stores.documents["keys"]
    return KeyRing(lambda key_id: keys_.find_cached(None, key_id))


def _delivery(
    config: Config, clock: Clock, stores: Stores, redis: Redis, ring: KeyRing, dependencies: DeliveryDependencies
) -> _Delivery:
    tenants_, webhooks_ = stores.documents["tenants"], stores.documents["webhooks"]
    http = HttpClient(
        allowed_networks=config.webhooks.allowed_networks,
        max_connections=config.webhooks.max_concurrency + back_channel_logout.MAX_CONCURRENCY + MAX_APPROVAL_REQUESTS,
        user_agent=_USER_AGENT,
        proxy=config.outbound.proxy,
    )
    keys_ = WebhookKeys(ring, stores.documents["keys"])
    deliverer = Deliverer(http, clock, __version__, keys_, DeliveryFailureLog(clock), dependencies)
    wakeups, mail_wakeups, logout_wakeups = Wakeups(redis), Wakeups(redis, "mails"), Wakeups(redis, "logouts")
    stores.mails.on_enqueue(mail_wakeups.notify)
    stores.logout_notices.on_enqueue(logout_wakeups.notify)
    message_wakeups = Wakeups(redis, "messages")
    stores.text_messages.on_enqueue(message_wakeups.notify)

    async def every_webhook() -> Sequence[Document]:
        return await webhooks_.list_cached(None, "all", {})

    geoip = GeoIpDatabase(config.geoip.file)
    bus = Bus(
        stores.database,
        stores.outbox,
        deliverer,
        schedule(config),
        webhooks=every_webhook,
        tenant=lambda wanted: tenants_.find_cached(None, wanted),
        wake=wakeups.notify,
        locate=geoip.find,
    )
    waking = (wakeups, mail_wakeups, logout_wakeups, message_wakeups)
    return _Delivery(http, deliverer, *waking, every_webhook, bus, geoip)


def _client_keys(config: Config) -> ClientKeys:
    published = ClientKeyFetcher(_client_for(config, config.client_keys), config.client_keys)
    authorities = client_certificates.load_authorities(config.mutual_tls.authorities_file)
    statement_issuers = external_keys.load_issuers(config.client_registration.trusted_issuers_file)
    return ClientKeys(published, authorities, statement_issuers)


def _client_for(config: Config, settings: IdentityProviders | ClientKeysSettings | Connectors) -> HttpClient:
    """Return a separate HTTP client, with its own networks and its own limit of connections."""
    return HttpClient(
        allowed_networks=settings.allowed_networks,
        max_connections=settings.max_concurrency,
        max_waiting=10 * settings.max_concurrency,
        user_agent=_USER_AGENT,
        proxy=config.outbound.proxy,
    )


def _lambda_runtime(config: Config) -> LambdaRuntime:
    http = HttpClient(
        allowed_networks=config.lambdas.allowed_networks,
        max_connections=config.lambdas.fetch_processes,
        user_agent=_USER_AGENT,
        proxy=config.outbound.proxy,
    )
    return LambdaRuntime(Sandbox(config.lambdas), http)


def _workers(
    services: Services, stores: Stores, delivery: _Delivery, registry: prometheus_client.CollectorRegistry, role: str
) -> tuple[Worker, ...]:
    """Return the workers of this process: all processes listen for changes, those of the role web do no more."""
    changes = ChangeListener(stores.database, stores.documents, stores.stream_status)
    listeners = (
        changes,
        delivery.wakeups,
        delivery.mail_wakeups,
        delivery.logout_wakeups,
        delivery.message_wakeups,
        LoopLag(registry),
    )
    quiescence, instance = delivery.deliverer.quiescence, services.runtime.instance
    if role == "web":
        return (*listeners, DiscoveryPrefetch(services), HeldSenders(quiescence, instance, (), registry))
    settings = services.config.webhooks
    worker = DeliveryWorker(
        stores.outbox,
        delivery.deliverer,
        delivery.wakeups,
        services.clock,
        settings,
        registry,
        monitor=WebhookMonitor(services, delivery.webhooks),
    )
    queues = (
        MailWorker(services, delivery.mail_wakeups, registry),
        LogoutWorker(services, delivery.logout_wakeups, registry),
        MessageWorker(services, delivery.message_wakeups, registry),
    )
    prefetch = () if role == "worker" else (DiscoveryPrefetch(services),)
    senders = HeldSenders(quiescence, instance, (worker, *queues), registry)
    return (*listeners, *prefetch, senders, Sweeper(services))


def _refresh_throttle(stores: Stores) -> KeyRefreshThrottle:
    def forget(tenant_id: str, settings_id: str) -> None:
        stores.documents["tenants"].invalidate(tenant_id)
        stores.documents["applications"].invalidate(settings_id)
        stores.documents["entity_types"].invalidate(settings_id)

    return KeyRefreshThrottle(forget)


def _closing(services: Services) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        services.runtime.passwords.close()
        services.runtime.database.close()

    return close
