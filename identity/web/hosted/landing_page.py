"""`/`, the landing page, and the static files of the hosted pages."""

from __future__ import annotations

from identity.call import Call
from identity.domain.configuration import theme_images
from identity.domain.configuration import themes as theme_rules
from identity.errors import NotFound
from identity.operations.clients import clients
from identity.operations.configuration import themes
from identity.operations.sessions import sso_sessions
from identity.web import page_files
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, oauth_endpoint, redirect
from identity.web.hosted import page_theme, render
from identity.web.oauth2.oauth_handlers import PageHandler

SIGNED_OUT_COOKIE = "fusionauth.flash-message"
SIGNED_OUT_SECONDS = 30

_FOR_EVER = "public, max-age=31536000, immutable"
_IMAGE_POLICY = "default-src 'none'; sandbox"
_API = ("/api/", "/.well-known/")
_ONE_DAY = "public, max-age=86400"


class IndexHandler(PageHandler):
    """`/`: a short description of the service; after a logout without a redirect URI, its confirmation."""

    @oauth_endpoint(access=Access.BROWSER)
    async def get(self, call: Call) -> Reply:
        """Show the landing page."""
        tenant = await clients.get_default_tenant(self.services)
        theme = await page_theme.load(self, tenant)
        if self.cookie(SIGNED_OUT_COOKIE):
            return render.logged_out(theme, [self.new_cookie(SIGNED_OUT_COOKIE, "", 0)])
        session = await sso_sessions.find(self.services, tenant, self.cookie(sso_sessions.COOKIE))
        return render.index(theme, is_logged_in=session is not None)


class StaticHandler(PageHandler):
    """The static files of the hosted pages, or of the console."""

    folder = "hosted"

    @oauth_endpoint(access=Access.PUBLIC)
    async def get(self, call: Call, name: str) -> Reply:
        """Serve the current version of a file. Raises NotFound for another version."""
        found = page_files.names(self.folder).get(name)
        if found is None:
            raise NotFound
        headers = {"Content-Type": page_files.content_type(found), "Cache-Control": _FOR_EVER}
        return Reply(page_files.content(self.folder, found), headers=headers)


class FaviconHandler(PageHandler):
    """`/favicon.ico`, which browsers request for documents that name no icon."""

    @oauth_endpoint(access=Access.PUBLIC)
    async def get(self, call: Call) -> Reply:
        """Serve the icon of the pages."""
        headers = {"Content-Type": page_files.content_type("favicon.svg"), "Cache-Control": _ONE_DAY}
        return Reply(page_files.content("hosted", "favicon.svg"), headers=headers)


class ThemeFileHandler(PageHandler):
    """The stylesheet and the images of a theme, under paths that change with their content."""

    @oauth_endpoint(access=Access.PUBLIC)
    async def get(self, call: Call, theme_id: str, name: str) -> Reply:
        """Serve the current version of a file. Raises NotFound for another version."""
        theme = await themes.find(self.services, theme_id)
        if theme is None:
            raise NotFound
        image = next((one for one in theme_images.images(theme).values() if one.name == name), None)
        if image is not None:
            headers = {"Content-Type": image.media_type, "Content-Security-Policy": _IMAGE_POLICY}
            return Reply(image.content, headers={**headers, "Cache-Control": _FOR_EVER})
        if page_theme.stylesheet_path(theme) != f"/theme/{theme_id}/{name}":
            raise NotFound
        headers = {"Content-Type": "text/css; charset=utf-8", "Cache-Control": _FOR_EVER}
        return Reply(theme_rules.stylesheet(theme).encode(), headers=headers)


class ChangePasswordHandler(PageHandler):
    """`/.well-known/change-password`, which password managers open (W3C, A Well-Known URL for Changing Passwords)."""

    @oauth_endpoint(access=Access.PUBLIC, answer={302: None})
    async def get(self, call: Call) -> Reply:
        """Redirect to the page that changes the password."""
        return redirect("/account/password")


class UnknownPathHandler(PageHandler):
    """Handles requests that no route matches: a page for browsers, an empty body for the API."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "DELETE", "PATCH", "PUT", "OPTIONS")

    async def prepare(self) -> None:
        """Respond with 404 for every method."""
        if self.prefers_html() and not self.request.path.startswith(_API):
            self.send(render.status_page(NotFound.status, page_theme.of_request(self)))
        else:
            self.send(Reply(status=NotFound.status, reason="no route has this path"))


ROUTES = [
    Route("/.well-known/change-password", ChangePasswordHandler),
    Route("/", IndexHandler),
    Route("/static/{name}", StaticHandler),
    Route("/favicon.ico", FaviconHandler),
    Route("/theme/{theme_id}/{name}", ThemeFileHandler),
]
