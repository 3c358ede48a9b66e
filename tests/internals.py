"""Access to the internals of a running service: clock, databases, stores and operations.

Tests use it for state that no request shows. They name a store, not its member of `Services`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from identity import app
from identity.call import AnonymousCaller, Call, Origin
from identity.config import Config
from identity.events.changes import Event
from identity.ids import TenantId
from identity.instants import Instant
from identity.schemas import Schemas
from identity.services import Services
from identity.store.mongo import Database
from identity.store.redis import Redis

P = ParamSpec("P")
T = TypeVar("T")


def now(service: app.Service) -> Instant:
    """The time of the service's clock."""
    return service.services.clock.now()


def call(service: app.Service, tenant_id: str | None = None, address: str = "127.0.0.1") -> Call:
    """A call without credentials, now, within a tenant if one is given."""
    tenant = None if tenant_id is None else TenantId(tenant_id)
    return Call(tenant, AnonymousCaller(), now(service), Origin(address, "", "", service.base_url))


def run(service: app.Service, operation: Callable[Concatenate[Services, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call an operation with the services of this service, as its handlers and workers do."""
    return operation(service.services, *args, **kwargs)


def database(service: app.Service) -> Database:
    """The database, for documents as they are stored: sealed, and with members that no answer has."""
    return service.services.runtime.database


def redis(service: app.Service) -> Redis:
    """The Redis of the service, for the keys of what expires."""
    return service.services.runtime.redis


def store(service: app.Service, name: str) -> Any:
    """The store of a name, such as `users`: what it returns is decrypted, and its methods can be made to fail."""
    services = service.services
    facets = (services.directory, services.configuration, services.tokens, services.sessions, services.limits)
    places = (*facets, services.logs, services.logs.erasure, services.outbound, services.runtime)
    return next(getattr(place, name) for place in places if hasattr(place, name))


def worker(service: app.Service, name: str) -> Any:
    """The worker of a class with this name, also one that is started with the other senders."""
    workers = [each for part in service._parts.workers for each in (part, *getattr(part, "_senders", ()))]
    return next(each for each in workers if type(each).__name__ == name)


def schemas(service: app.Service) -> Schemas:
    """The compiled schemas."""
    return service.services.schemas


def config(service: app.Service) -> Config:
    """The settings that the service was built with."""
    return service.services.config


def service_id(service: app.Service) -> str:
    """The id of the service in the header `webhook-via`."""
    return service.services.outbound.service_id


async def announce(service: app.Service, call_: Call, event: Event) -> None:
    """Announce an event to webhooks, without the change that causes it."""
    await service.services.bus.announce(call_, [event])
