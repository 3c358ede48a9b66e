"""/api/reactor: the enabled features. No license can be activated or deactivated."""

from __future__ import annotations

from identity.call import Call
from identity.operations.configuration import reactor
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, calls, endpoint


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


ROUTES = [Route("/api/reactor", ReactorHandler), Route("/api/reactor/metrics", ReactorMetricsHandler)]
