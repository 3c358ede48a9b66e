"""The pages that need no protocol: the landing page, and the stylesheet of all pages."""

from __future__ import annotations

from identity.call import Call
from identity.errors import NotFound
from identity.operations import clients, sso
from identity.web.endpoint import Access, Reply, Route, Tenancy, endpoint
from identity.web.hosted import render
from identity.web.oauth2.family import PageHandler

SIGNED_OUT_COOKIE = "fusionauth.flash-message"
SIGNED_OUT_SECONDS = 30

_FOR_EVER = "public, max-age=31536000, immutable"


class IndexHandler(PageHandler):
    """`/`: says where one has come to, and to whom a logout led nowhere else that it happened."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call) -> Reply:
        """Show the landing page."""
        if self.cookie(SIGNED_OUT_COOKIE):
            return render.logged_out([self.new_cookie(SIGNED_OUT_COOKIE, "", 0)])
        tenant = await clients.default_tenant(self.services)
        session = await sso.find(self.services, tenant, self.cookie(sso.COOKIE))
        return render.index(is_logged_in=session is not None)


class StylesheetHandler(PageHandler):
    """The stylesheet, under a path that changes with its content."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call, name: str) -> Reply:
        """Serve the present stylesheet. Raises NotFound for any other."""
        if f"/static/{name}" != render.stylesheet_path():
            raise NotFound
        headers = {"Content-Type": "text/css; charset=utf-8", "Cache-Control": _FOR_EVER}
        return Reply(render.stylesheet(), headers=headers)


ROUTES = [Route("/", IndexHandler), Route("/static/{name}", StylesheetHandler)]
