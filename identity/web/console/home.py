"""`/admin`: the state of the instance at a glance."""

from __future__ import annotations

from identity.call import Call
from identity.web.base_handlers import Route
from identity.web.console.handlers import ConsoleHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


class HomeHandler(ConsoleHandler):
    """The first page after the sign-in."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call) -> Reply:
        """Show the page."""
        return self.page("home.html", title="Home")


ROUTES = [Route("/admin", HomeHandler)]
