"""`/`, the landing page, and the stylesheets of the hosted pages."""

from __future__ import annotations

from identity.call import Call
from identity.errors import NotFound
from identity.operations.clients import clients
from identity.operations.configuration import themes
from identity.operations.sessions import sso_sessions
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import page_theme, render
from identity.web.oauth2.oauth_handlers import PageHandler

SIGNED_OUT_COOKIE = "fusionauth.flash-message"
SIGNED_OUT_SECONDS = 30

_FOR_EVER = "public, max-age=31536000, immutable"


class IndexHandler(PageHandler):
    """`/`: a short description of the service; after a logout without a redirect URI, its confirmation."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call) -> Reply:
        """Show the landing page."""
        tenant = await clients.get_default_tenant(self.services)
        theme = await page_theme.load(self, tenant)
        if self.cookie(SIGNED_OUT_COOKIE):
            return render.logged_out(theme, [self.new_cookie(SIGNED_OUT_COOKIE, "", 0)])
        session = await sso_sessions.find(self.services, tenant, self.cookie(sso_sessions.COOKIE))
        return render.index(theme, is_logged_in=session is not None)


class StylesheetHandler(PageHandler):
    """The built-in stylesheet, under a path that changes with its content."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call, name: str) -> Reply:
        """Serve the current stylesheet. Raises NotFound for another version."""
        if f"/static/{name}" != render.stylesheet_path():
            raise NotFound
        headers = {"Content-Type": "text/css; charset=utf-8", "Cache-Control": _FOR_EVER}
        return Reply(render.stylesheet(), headers=headers)


class ThemeStylesheetHandler(PageHandler):
    """The stylesheet of a theme, under a path that changes with its content."""

    @endpoint(access=Access.PUBLIC, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call, theme_id: str, name: str) -> Reply:
        """Serve the current stylesheet of the theme. Raises NotFound for another version."""
        theme = await themes.find(self.services, theme_id)
        if theme is None or page_theme.stylesheet_path(theme) != f"/theme/{theme_id}/{name}":
            raise NotFound
        headers = {"Content-Type": "text/css; charset=utf-8", "Cache-Control": _FOR_EVER}
        return Reply(theme["stylesheet"].encode(), headers=headers)


ROUTES = [
    Route("/", IndexHandler),
    Route("/static/{name}", StylesheetHandler),
    Route("/theme/{theme_id}/{name}", ThemeStylesheetHandler),
]
