"""`/oauth2/logout`: the end of a session, and the way back (OpenID Connect RP-Initiated Logout 1.0)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations import login_intents, logout, sso
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.family import Route
from identity.web.hosted import looks, pages, render
from identity.web.oauth2.family import PAGE_OR_REDIRECT, PageHandler

_REQUEST = "oauth2/logout.request.json"


class LogoutHandler(PageHandler):
    """The end session endpoint."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Log out by a link or a redirect."""
        return await self.log_out(call, self.parameters(_REQUEST), tenant_id)

    @endpoint(access=Access.BROWSER, form=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Log out by a form, such as the one that asks."""
        return await self.log_out(call, form, tenant_id)

    async def log_out(self, call: Call, given: Document, tenant_id: str | None) -> Reply:
        """End the session and go on; or ask first."""
        hints, secret = self.tenant_hints(tenant_id, given), self.cookie(sso.COOKIE)
        outcome = await logout.logout(
            self.services, call, given, hints, secret, is_from_elsewhere=self.is_from_elsewhere()
        )
        if isinstance(outcome, logout.Asked):
            return render.confirm_logout(self.request.path, given.items(), await looks.of(self, outcome.tenant))
        cookies = [self.new_cookie(name, "", 0) for name in (sso.COOKIE, login_intents.COOKIE)]
        if outcome.target == logout.HOME:
            cookies.append(self.new_cookie(pages.SIGNED_OUT_COOKIE, "signed-out", pages.SIGNED_OUT_SECONDS))
        if outcome.frame_urls:
            look = await looks.of(self, outcome.tenant, outcome.application)
            return render.logout(outcome.target, outcome.frame_urls, look, cookies)
        return Reply(status=302, headers={"Location": outcome.target}, cookies=cookies)


ROUTES = [Route("/oauth2/logout", LogoutHandler), Route("/{tenant_id}/oauth2/logout", LogoutHandler)]
