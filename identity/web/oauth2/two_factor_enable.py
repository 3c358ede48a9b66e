"""`/oauth2/two-factor-enable` and `-complete`: set up a second factor during a login."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from identity.call import Call, Document
from identity.domain.two_factor import qr_codes
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import two_factor_setup
from identity.operations.pages.method_setup import MethodSetup
from identity.operations.pages.two_factor_setup import RecoveryCodesPage
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, two_factor
from identity.web.oauth2.login_step_handlers import InterruptedLoginHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_REQUEST: Final = "oauth2/waiting.request.json"
_SETUP: Final = "oauth2/two-factor-enable.request.json"
_FORM: Final = "oauth2/two-factor-enable.form.json"
_COMPLETE: Final = "oauth2/two-factor-enable-complete.form.json"


class EnableHandler(InterruptedLoginHandler):
    """Shows the secret for an authenticator app, or sends a code; adds the method after a correct code."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLE

    @endpoint(access=Access.BROWSER, query=_SETUP, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, for a method if one is named."""
        given = self.parameters(_SETUP)
        transaction = await self.find_transaction(call, given, tenant_id)
        method = given.get("method", "")
        step = await two_factor_setup.show(self.services, call, transaction, self.browser(), method)
        return await self.setup_page(transaction, step)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Add the method, or send a code for it; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        method, secret = form.get("method", ""), form.get("secretBase32Encoded", "")
        if not csrf.has_valid_token(self, form):
            step = await two_factor_setup.show(self.services, call, transaction, browser, method, secret)
            return await self.setup_page(transaction, step, message=csrf.INVALID_TOKEN)
        if form.get("action") == "send":
            step = await two_factor_setup.send(self.services, call, transaction, browser, method)
            return await self.setup_page(transaction, step)
        code = form.get("code", "").strip()
        added = await two_factor_setup.enable(self.services, call, transaction, browser, method, secret, code)
        if isinstance(added, RecoveryCodesPage):
            return await self.recovery_codes(added)
        return await self.setup_page(transaction, added)

    async def setup_page(
        self, transaction: InterruptedTransaction, step: MethodSetup | Step, *, message: str = ""
    ) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, MethodSetup):
            return await self.continue_login(transaction, step)
        theme, url = await self.load_theme(transaction), self.page_url(self.request.path, transaction)
        values = two_factor.setup_values(step, theme, message or step.message, url)
        if step.secret:
            values["path"], values["side"] = await asyncio.to_thread(qr_codes.svg_path, step.key_uri)
        return csrf.with_status(self.form_page(transaction, theme, "two_factor_enable.html", values), message)

    async def recovery_codes(self, added: RecoveryCodesPage) -> Reply:
        """Return the page with the recovery codes, which is the only one that shows them."""
        transaction, theme = added.transaction, await self.load_theme(added.transaction)
        values = {"action": f"{login.base_path(self)}/two-factor-enable-complete", "codes": added.recovery_codes}
        reply = self.form_page(transaction, theme, "two_factor_enable_complete.html", values)
        cookies = [*reply.cookies, self.new_cookie(login_transactions.COOKIE, transaction.cookie)]
        return Reply(reply.body, reply.status, reply.headers, cookies)


class EnableCompleteHandler(InterruptedLoginHandler):
    """Continues after the user confirms the recovery codes."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLED

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page again, without the codes."""
        return await self.confirmation_page(await self.find_transaction(call, self.parameters(_REQUEST), tenant_id))

    @endpoint(access=Access.BROWSER, form=_COMPLETE, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Continue the login; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return csrf.with_status(await self.confirmation_page(transaction), csrf.INVALID_TOKEN)
        step = await login_resumption.resume(self.services, call, transaction, self.browser())
        return await self.continue_login(transaction, step)

    async def confirmation_page(self, transaction: InterruptedTransaction) -> Reply:
        """Return the page without the codes."""
        theme = await self.load_theme(transaction)
        return self.form_page(transaction, theme, "two_factor_enable_complete.html", {"codes": ()})


ROUTES = tenant_routes(
    [("/oauth2/two-factor-enable", EnableHandler), ("/oauth2/two-factor-enable-complete", EnableCompleteHandler)]
)
