"""/api/reactor: which features are on. There is no license to be activated, renewed or given back."""

from __future__ import annotations

from identity.call import Call
from identity.operations.configuration import reactor
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


class ReactorHandler(ApiHandler):
    """The features. Tools that bring a license along get on; what they bring is not even looked at."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer="api/reactor.response.json")
    async def get(self, call: Call) -> Reply:
        """Show them."""
        return Reply({"status": reactor.status(self.services)})

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call) -> Reply:
        """Activate: everything is active already."""
        return Reply()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def put(self, call: Call) -> Reply:
        """Make its keys anew: there are none."""
        return Reply()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def delete(self, call: Call) -> Reply:
        """Deactivate: features need no license, so they stay as the setting `license.features` has them."""
        return Reply()


class ReactorMetricsHandler(ApiHandler):
    """What the reactor counts."""

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer="api/reactor-metrics.response.json")
    async def get(self, call: Call) -> Reply:
        """How many users have passwords that became known, by tenant."""
        return Reply({"metrics": await reactor.metrics(self.services, call)})


ROUTES = [Route("/api/reactor", ReactorHandler), Route("/api/reactor/metrics", ReactorMetricsHandler)]
