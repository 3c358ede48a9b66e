"""`/oauth2/two-factor`, `/oauth2/two-factor-methods`: the two-factor challenge of a login."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import ClassVar, Final

from identity.call import Call, Document
from identity.operations.authorization import login_requirements
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import two_factor_pages
from identity.operations.pages.two_factor_pages import ChallengePage, Continued
from identity.operations.two_factor import two_factor_trust
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, two_factor
from identity.web.oauth2.login_step_handlers import WaitingHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/waiting.request.json"
_FORM: Final = "oauth2/two-factor.form.json"
_METHODS_FORM: Final = "oauth2/two-factor-methods.form.json"


class _Family(WaitingHandler):
    """What both pages have in common: they are about one challenge, and there is a way from each to the other."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR

    def beside(self, transaction: InterruptedTransaction, page: str) -> str:
        """The address of the other page."""
        query = {"client_id": transaction.client.client_id, "tenantId": transaction.client.tenant_id}
        return (
            f"{login.base_path(self)}/{page}?{urllib.parse.urlencode(query | {'intent': transaction.transaction_id})}"
        )

    async def choice(self, page: ChallengePage) -> Reply:
        """The page on which a method is chosen."""
        look = await self.look(page.transaction)
        reply = self.form_page(page.transaction, look, "two_factor_methods.html", two_factor.choice_values(page, look))
        return csrf.with_status(reply, page.message)


class TwoFactorHandler(_Family):
    """Asks for the code of a method."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page; or that of the choice, where none was made yet."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        return await self.told(
            transaction, await two_factor_pages.show(self.services, call, transaction, self.browser())
        )

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Take a code, or the wish for another message; unless the form is not one that this browser was shown."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if not csrf.has_valid_token(self, form):
            page = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
            return await self.told(transaction, page)
        if form.get("action") == "resend":
            method_id = transaction.login.details.get("methodId", "")
            return await self.told(
                transaction, await two_factor_pages.choose(self.services, call, transaction, browser, method_id)
            )
        trusts_device = form.get("trustComputer") == "true"
        page_or_end = await two_factor_pages.enter_code(
            self.services, call, transaction, browser, form.get("code", "").strip(), trusts_device=trusts_device
        )
        if isinstance(page_or_end, ChallengePage):
            return await self.told(transaction, page_or_end)
        return await self.ended(transaction, page_or_end)

    async def told(self, transaction: InterruptedTransaction, step: ChallengePage | Step) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, ChallengePage):
            return await self.went_on(transaction, step)
        if step.chosen is None:
            return Reply(status=302, headers={"Location": self.beside(transaction, "two-factor-methods")})
        look = await self.look(transaction)
        other = self.beside(transaction, "two-factor-methods") if len(step.methods) > 1 else ""
        values = {
            **two_factor.code_values(step, look),
            "other": other,
            "resends": login_requirements.sends_codes(step.chosen),
        }
        return csrf.with_status(self.form_page(transaction, look, "two_factor.html", values), step.message)

    async def ended(self, transaction: InterruptedTransaction, end: Continued) -> Reply:
        """What comes next, with the cookie of a browser that is trusted from now on."""
        reply = await self.went_on(transaction, end.step)
        if end.trust is None:
            return reply
        secret, seconds = end.trust
        return dataclasses.replace(
            reply, cookies=[*reply.cookies, self.new_cookie(two_factor_trust.COOKIE, secret, seconds)]
        )


class MethodsHandler(_Family):
    """Asks which method is to be used."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        step = await two_factor_pages.show(self.services, call, transaction, self.browser())
        return await self.choice(step) if isinstance(step, ChallengePage) else await self.went_on(transaction, step)

    @endpoint(access=Access.BROWSER, form=_METHODS_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Take the choice, and go to the page of its code; unless the form is not one that this browser was shown."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if csrf.has_valid_token(self, form):
            step = await two_factor_pages.choose(self.services, call, transaction, browser, form.get("methodId", ""))
        else:
            step = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
        if not isinstance(step, ChallengePage):
            return await self.went_on(transaction, step)
        if step.message in {csrf.INVALID_TOKEN, two_factor_pages.METHOD_REQUIRED}:
            return await self.choice(step)
        return Reply(status=302, headers={"Location": self.beside(transaction, "two-factor")})


_HANDLERS = {"/oauth2/two-factor": TwoFactorHandler, "/oauth2/two-factor-methods": MethodsHandler}

ROUTES = [Route(prefix + path, handler) for path, handler in _HANDLERS.items() for prefix in ("", "/{tenant_id}")]
