"""`/oauth2/authorized-not-registered`: the page for users without a registration, if the application requires one."""

from __future__ import annotations

import urllib.parse

from identity.call import Call
from identity.operations.clients import clients, ip_access_lists
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import login, page_theme, render
from identity.web.oauth2.login_flow import REQUEST
from identity.web.oauth2.oauth_handlers import PageHandler, tenant_routes


class NotRegisteredHandler(PageHandler):
    """The end of the login for this user; another user can log in with the same request."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page. It has no data of a user, because its URL can be opened by others."""
        given = self.parameters(REQUEST)
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, given), given.get("client_id"))
        await ip_access_lists.require_address(self.services, client, call.origin.ip_address)
        theme = await page_theme.load(self, client.tenant, client.application, given)
        # The session belongs to the unregistered user, so that it must not be used again.
        query = urllib.parse.urlencode({**given, "prompt": "login"})
        other = f"{login.authorize_path(self)}?{query}" if "redirect_uri" in given or "request_uri" in given else ""
        return render.not_registered(client.application["name"], other, theme)


ROUTES = tenant_routes([("/oauth2/authorized-not-registered", NotRegisteredHandler)])
