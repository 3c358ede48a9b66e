"""The instance: health, status, version, metrics, features, integrations and the system configuration."""

from __future__ import annotations

import ipaddress

import prometheus_client

from identity.call import AnonymousCaller, ApiKeyCaller, Call, Document
from identity.errors import Invalid, NotFound, Unauthorized
from identity.operations import status as operations
from identity.operations.configuration import integrations, reactor, system_configuration
from identity.operations.objects import crud
from identity.store.system_settings import DOCUMENT_ID
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import ResourceHandler
from identity.web.endpoint import Access, Endpoint, Reply, Tenancy, calls, endpoint

_SCHEMA = "{resource.schema}"
_ANSWER = "{resource.schema}#{resource.name}"


class HealthHandler(ApiHandler):
    """Health for load balancers: 200 or 500 without a body; 503 with the reason while Redis refuses writes.

    A quiesced process adds the header X-Quiesced.
    """

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer={200: None, 500: None})
    async def get(self, call: Call) -> Reply:
        """Check whether the service can handle requests."""
        headers = {"X-Quiesced": "true"} if operations.is_quiesced(self.services) else {}
        health = await operations.health(self.services)
        health.require_writable()
        return Reply(status=health.status, headers=headers)


class LivenessHandler(ApiHandler):
    """Liveness for supervisors such as Kubernetes: 200 while the event loop turns, whatever the stores do."""

    async def open_call(self, declared: Endpoint) -> Call:
        """Return the call of an anonymous caller without a look at the stores."""
        return Call(None, AnonymousCaller(), self.services.clock.now(), self.origin())

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION, answer={200: None})
    async def get(self, call: Call) -> Reply:
        """Check whether the process handles requests; an outage of a store does not count."""
        return Reply()


class NoRouteHandler(ApiHandler):
    """Paths that a worker does not serve: 404."""

    async def prepare(self) -> None:
        """Refuse the request."""
        self.send(Reply(status=404))


class StatusHandler(ApiHandler):
    """Status in detail, for callers with a global key."""

    async def open_call(self, declared: Endpoint) -> Call:
        """Return the call; if the key cannot be looked up, the caller is anonymous and the response has the cause."""
        try:
            return await super().open_call(declared)
        except operations.STORE_ERRORS:
            return Call(None, AnonymousCaller(), self.services.clock.now(), self.origin())

    @endpoint(
        access=Access.OPTIONAL_KEY,
        tenancy=Tenancy.BY_OPERATION,
        answer=dict.fromkeys((200, operations.DATABASE_UNREACHABLE, 500, 503), "api/status.response.json"),
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve the status; without a key an empty object."""
        code, body = await operations.status(self.services, in_full=isinstance(call.caller, ApiKeyCaller))
        return Reply(body, code)


class VersionHandler(ApiHandler):
    """The release of the API."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer="api/version.response.json")
    async def get(self, call: Call) -> Reply:
        """The version."""
        return Reply({"version": operations.API_VERSION})


class ReindexHandler(ApiHandler):
    """Rebuilding of a search index, which does nothing: searches read the collections."""

    @endpoint(
        access=Access.API_KEY,
        raw_body=True,
        tenancy=Tenancy.BY_OPERATION,
        takes="api/reindex.request.json",
        answer={202: None},
    )
    async def post(self, call: Call, body: Document) -> Reply:
        """Accept the request."""
        index = body.get("index")
        if index is None or index == "":
            raise Invalid.field("blank", "index", "You must specify the [index] property.")
        if index not in operations.INDEXES:
            raise Invalid.field("invalid", "index", f"The [index] must be one of {', '.join(operations.INDEXES)}.")
        return Reply(status=202)

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer={202: None, 404: None})
    async def get(self, call: Call) -> Reply:
        """Check whether a rebuild is running: 404 if not."""
        raise NotFound


class MetricsHandler(ApiHandler):
    """Prometheus metrics of this process, for a global key or an address of `metrics.allowed_networks`."""

    registry: prometheus_client.CollectorRegistry

    @endpoint(access=Access.OPTIONAL_KEY, tenancy=Tenancy.BY_OPERATION, answer="text/plain")
    async def get(self, call: Call) -> Reply:
        """The metrics in the text format."""
        settings = self.services.config.metrics
        address = ipaddress.ip_address(call.origin.ip_address)
        is_near = any(address in network for network in settings.allowed_networks if network.version == address.version)
        if not settings.enabled or not (is_near or isinstance(call.caller, ApiKeyCaller)):
            raise Unauthorized(log_detail="metrics without a key")
        text = prometheus_client.generate_latest(self.registry)
        return Reply(text, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})


class SingleObjectHandler(ResourceHandler):
    """The object."""

    verbs = {"GET": "retrieve", "PUT": "update", "PATCH": "patch"}

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer=_ANSWER)
    async def get(self, call: Call) -> Reply:
        """Retrieve."""
        return await self.respond(await crud.retrieve(self.services, call, self.resource, DOCUMENT_ID))

    @endpoint(access=Access.API_KEY, raw_body=True, tenancy=Tenancy.BY_OPERATION, takes=_SCHEMA, answer=_ANSWER)
    async def put(self, call: Call, body: Document) -> Reply:
        """Replace."""
        return await self.respond(await crud.update(self.services, call, self.resource, body, DOCUMENT_ID))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, takes=_SCHEMA, answer=_ANSWER)
    async def patch(self, call: Call) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return await self.respond(await crud.patch(self.services, call, self.resource, kind, patch, DOCUMENT_ID))


class ReactorHandler(ApiHandler):
    """The enabled features; license keys of clients are ignored."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer="api/reactor.response.json")
    async def get(self, call: Call) -> Reply:
        """Retrieve the enabled features."""
        return Reply({"status": reactor.status(self.services)})

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call) -> Reply:
        """Activate, which is a no-op."""
        return Reply()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def put(self, call: Call) -> Reply:
        """Regenerate the keys, which is a no-op."""
        return Reply()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def delete(self, call: Call) -> Reply:
        """Deactivate, which is a no-op: the setting `license.features` decides."""
        return Reply()


class ReactorMetricsHandler(ApiHandler):
    """The metrics of the reactor."""

    get = calls(
        reactor.metrics,
        "Retrieve the number of users with breached passwords, by tenant.",
        wrapper="metrics",
        tenancy=Tenancy.BY_OPERATION,
        answer="api/reactor-metrics.response.json",
    )


def monitoring_routes(registry: prometheus_client.CollectorRegistry) -> list[Route]:
    """Return what every process serves, workers included; `registry` has its metrics."""
    return [
        Route("/api/health", HealthHandler),
        Route("/api/health/live", LivenessHandler),
        Route("/api/status", StatusHandler),
        Route("/api/prometheus/metrics", MetricsHandler, {"registry": registry}),
    ]


def routes(registry: prometheus_client.CollectorRegistry) -> list[Route]:
    """Return the routes of this module; `registry` has the metrics of the process."""
    return [
        *monitoring_routes(registry),
        Route("/api/system/reindex", ReindexHandler),
        Route("/api/system/version", VersionHandler),
        Route("/api/integration", SingleObjectHandler, {"resource": integrations.RESOURCE}),
        Route("/api/system-configuration", SingleObjectHandler, {"resource": system_configuration.RESOURCE}),
        Route("/api/reactor", ReactorHandler),
        Route("/api/reactor/metrics", ReactorMetricsHandler),
    ]
