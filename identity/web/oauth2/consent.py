"""`/oauth2/consent`: asks a user what an application may have, and takes the answer (spec: hosted login, step 7)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.login_transactions import login_intents
from identity.operations.pages import consent_page
from identity.operations.pages.consent_page import ConsentPage, Waiting
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import consent, csrf, login
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/consent.request.json"
_FORM: Final = "oauth2/consent.form.json"


class ConsentHandler(LoginFlowHandler):
    """The consent page; the login that it is about stands in the browser's login intent."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the consent page; or go on where there is nothing to ask any more."""
        waiting = await self.waiting(call, self.parameters(_REQUEST), tenant_id)
        self.proven = waiting.proven
        return await self.asked(call, waiting)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Take the answer, unless the form is not one that we showed to this browser."""
        waiting = await self.waiting(call, form, tenant_id)
        if not csrf.is_valid(self, form.get(csrf.FIELD, "")):
            self.proven = waiting.proven
            return await self.asked(call, waiting, message=login.STALE, status=403)
        await consent_page.claim(self.services, waiting)
        # Not before: of who sends the form twice the first one has an answer for the application, the second one none.
        self.proven = waiting.proven
        step = await consent_page.answer(self.services, call, waiting, self.browser(), consent.approved(form))
        value = login_intents.cookie_without(waiting.cookie, waiting.intent_id)
        done = self.new_cookie(login_intents.COOKIE, value, None if value else 0)
        return await self.shown(step, waiting.intent.given, done)

    async def waiting(self, call: Call, given: Document, tenant_id: str | None) -> Waiting:
        """The login that this browser waits with."""
        hints = self.tenant_hints(tenant_id, given)
        return await consent_page.find(self.services, call, hints, given, self.cookie(login_intents.COOKIE))

    async def asked(self, call: Call, waiting: Waiting, *, message: str = "", status: int = 200) -> Reply:
        """The page, or what comes next."""
        step = await consent_page.show(self.services, call, waiting, self.browser())
        if isinstance(step, ConsentPage):
            return await consent.reply(self, step, waiting, message=message, status=status)
        return await self.shown(step, waiting.intent.given)


ROUTES = [Route("/oauth2/consent", ConsentHandler), Route("/{tenant_id}/oauth2/consent", ConsentHandler)]
