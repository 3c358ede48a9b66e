"""`/oauth2/two-factor`, `/oauth2/two-factor-methods`: the two-factor challenge of a login."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final

from identity.call import Call, Document
from identity.operations.authorization import login_requirements
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import two_factor_pages
from identity.operations.pages.two_factor_pages import ChallengePage, Continued
from identity.operations.two_factor import two_factor_trust
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, two_factor
from identity.web.oauth2.login_step_handlers import InterruptedLoginHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_REQUEST: Final = "oauth2/waiting.request.json"
_FORM: Final = "oauth2/two-factor.form.json"
_METHODS_FORM: Final = "oauth2/two-factor-methods.form.json"


class _ChallengeHandler(InterruptedLoginHandler):
    """Shared by both pages of a challenge."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR

    def url_of(self, page: str, transaction: InterruptedTransaction) -> str:
        """Return the URL of one of the pages."""
        return self.page_url(f"{login.base_path(self)}/{page}", transaction)

    async def methods_page(self, page: ChallengePage) -> Reply:
        """Return the page with the choice of methods."""
        theme, values = await self.load_theme(page.transaction), two_factor.choice_values
        reply = self.form_page(page.transaction, theme, "two_factor_methods.html", values(page, theme))
        return csrf.with_status(reply, page.message)


class TwoFactorHandler(_ChallengeHandler):
    """Prompts for the code of a method."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, or the choice of methods if none is chosen."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        step = await two_factor_pages.show(self.services, call, transaction, self.browser())
        return await self.code_page(transaction, step)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Verify a code, or send another one; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if not csrf.has_valid_token(self, form):
            page = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
            return await self.code_page(transaction, page)
        if form.get("action") == "resend":
            method_id = transaction.login.details.get("methodId", "")
            step = await two_factor_pages.choose(self.services, call, transaction, browser, method_id)
            return await self.code_page(transaction, step)
        trusts_device = form.get("trustComputer") == "true"
        outcome = await two_factor_pages.enter_code(
            self.services, call, transaction, browser, form.get("code", "").strip(), trusts_device=trusts_device
        )
        if isinstance(outcome, ChallengePage):
            return await self.code_page(transaction, outcome)
        return await self.complete(transaction, outcome)

    async def code_page(self, transaction: InterruptedTransaction, step: ChallengePage | Step) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, ChallengePage):
            return await self.continue_login(transaction, step)
        if step.chosen is None:
            return Reply(status=302, headers={"Location": self.url_of("two-factor-methods", transaction)})
        theme = await self.load_theme(transaction)
        other = self.url_of("two-factor-methods", transaction) if len(step.methods) > 1 else ""
        values = {
            **two_factor.code_values(step, theme),
            "other": other,
            "resends": login_requirements.sends_codes(step.chosen),
        }
        return csrf.with_status(self.form_page(transaction, theme, "two_factor.html", values), step.message)

    async def complete(self, transaction: InterruptedTransaction, completed: Continued) -> Reply:
        """Return the next step, with the trust cookie if the user trusts the browser."""
        reply = await self.continue_login(transaction, completed.step)
        if completed.trust is None:
            return reply
        cookie = self.new_cookie(two_factor_trust.COOKIE, *completed.trust)
        return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])


class MethodsHandler(_ChallengeHandler):
    """Prompts for the choice of a method."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        step = await two_factor_pages.show(self.services, call, transaction, self.browser())
        return (
            await self.methods_page(step)
            if isinstance(step, ChallengePage)
            else await self.continue_login(transaction, step)
        )

    @endpoint(access=Access.BROWSER, form=_METHODS_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store the choice and redirect to its code page; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        if csrf.has_valid_token(self, form):
            step = await two_factor_pages.choose(self.services, call, transaction, browser, form.get("methodId", ""))
        else:
            step = await two_factor_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
        if not isinstance(step, ChallengePage):
            return await self.continue_login(transaction, step)
        if step.message in {csrf.INVALID_TOKEN, two_factor_pages.METHOD_REQUIRED}:
            return await self.methods_page(step)
        return Reply(status=302, headers={"Location": self.url_of("two-factor", transaction)})


ROUTES = tenant_routes([("/oauth2/two-factor", TwoFactorHandler), ("/oauth2/two-factor-methods", MethodsHandler)])
