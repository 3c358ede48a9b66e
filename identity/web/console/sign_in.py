"""Sign-in to the console and sign-out, and its static files."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Final

from identity.call import Call
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.operations.authorization import first_party_redirects
from identity.operations.pages import console_sessions
from identity.web.base_handlers import Route
from identity.web.console.handlers import LOGIN_COOKIE, SESSION_COOKIE, ConsoleHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted.landing_page import StaticHandler
from identity.web.oauth2.oauth_handlers import PageHandler

_CALLBACK: Final = "oauth2/console-callback.request.json"


class CallbackHandler(PageHandler):
    """The end of a sign-in."""

    advice = "error.again"

    @endpoint(access=Access.BROWSER, query=_CALLBACK, tenancy=Tenancy.BY_OPERATION, answer={302: None})
    async def get(self, call: Call) -> Reply:
        """Exchange the code, start the session, and return to the page that was opened."""
        given = self.parameters()
        signed_in = await console_sessions.complete(self.services, call, given, self.cookie(LOGIN_COOKIE))
        if previous := self.cookie(SESSION_COOKIE):
            await console_sessions.end(self.services, previous)
        cookies = [
            self.new_cookie(SESSION_COOKIE, signed_in.secret, signed_in.ttl_seconds),
            self.new_cookie(LOGIN_COOKIE, "", 0),
        ]
        return Reply(status=302, headers={"Location": signed_in.target}, cookies=cookies)


class SignOutHandler(ConsoleHandler):
    """Sign-out, of the console and of the provider."""

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer={302: None})
    async def post(self, call: Call) -> Reply:
        """End the session, and continue at the logout endpoint."""
        await console_sessions.end(self.services, self.cookie(SESSION_COOKIE))
        parameters = {"client_id": ADMINISTRATOR_APPLICATION_ID, "tenantId": self.services.runtime.default_tenant_id}
        cookie = self.new_cookie(SESSION_COOKIE, "", 0)
        location = f"/oauth2/logout?{urllib.parse.urlencode(parameters)}"
        return dataclasses.replace(self.redirect_to(location), cookies=[cookie])


ROUTES = [
    Route(first_party_redirects.CONSOLE_PATH, CallbackHandler),
    Route("/admin/sign-out", SignOutHandler),
    Route("/admin/static/{name}", StaticHandler, {"folder": "console"}),
]
