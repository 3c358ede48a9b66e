"""Mail links below the URL of a tenant: `${tenant.issuer}/email/verify/…`, where the issuer ends in the tenant id."""

from __future__ import annotations

import urllib.parse
from typing import Final

from identity.call import Call
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, redirect
from identity.web.oauth2.oauth_handlers import page_endpoint
from identity.web.self_service.page_context import REQUEST, SelfServiceHandler

_PATHS: Final = ("/email/verify", "/password/change", "/registration/verify")


class TenantLinkHandler(SelfServiceHandler):
    """Redirects to the page of the link, with the tenant as a query parameter."""

    path: str

    @page_endpoint(query=REQUEST)
    async def get(self, call: Call, tenant_id: str, link_id: str) -> Reply:
        """Redirect. Raises InvalidRequest for a tenant that does not exist."""
        given = {**self.parameters(REQUEST), "tenantId": tenant_id}
        await self.load_context(call, given)
        path = f"{self.path}/{urllib.parse.quote(link_id, safe='')}"
        return redirect(f"{path}?{urllib.parse.urlencode(given)}")


ROUTES = [Route(f"/{{tenant_id}}{path}/{{link_id}}", TenantLinkHandler, {"path": path}) for path in _PATHS]
