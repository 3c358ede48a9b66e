"""`/oauth2/authorized-not-registered`: who logged in to an application that takes only those who are registered."""

from __future__ import annotations

import urllib.parse
from typing import Final

from identity.call import Call
from identity.operations.clients import clients, ip_access_lists
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import login, page_theme, render
from identity.web.oauth2.login_flow import REQUEST
from identity.web.oauth2.oauth_handlers import PageHandler

_TEMPLATE: Final = "/oauth2/authorized-not-registered"


class NotRegisteredHandler(PageHandler):
    """The end of the way for this user; another one may log in with the same request."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Tell who is not registered. The page says nothing of anybody: whoever has its address may see it."""
        given = self.parameters(REQUEST)
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, given), given.get("client_id"))
        await ip_access_lists.require_address(self.services, client, call.origin.ip_address)
        look = await page_theme.load(self, client.tenant, client.application, given)
        # Whoever is signed in here is the wrong one: the session must not answer again.
        query = urllib.parse.urlencode({**given, "prompt": "login"})
        other = f"{login.authorize_path(self)}?{query}" if "redirect_uri" in given or "request_uri" in given else ""
        return render.not_registered(client.application["name"], other, look)


ROUTES = [Route(prefix + _TEMPLATE, NotRegisteredHandler) for prefix in ("", "/{tenant_id}")]
