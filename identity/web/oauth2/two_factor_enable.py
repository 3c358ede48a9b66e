"""`/oauth2/two-factor-enable` and `-complete`: set up a second factor during a login."""

from __future__ import annotations

import asyncio
import urllib.parse
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
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, two_factor
from identity.web.oauth2.login_step_handlers import WaitingHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/waiting.request.json"
_SETUP: Final = "oauth2/two-factor-enable.request.json"
_FORM: Final = "oauth2/two-factor-enable.form.json"
_END: Final = "oauth2/two-factor-enable-complete.form.json"
_PATH: Final = "/oauth2/two-factor-enable"
_END_PATH: Final = "/oauth2/two-factor-enable-complete"


class EnableHandler(WaitingHandler):
    """Shows the secret of an authenticator, or sends a code; and takes the code that shows that it works."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLE

    @endpoint(access=Access.BROWSER, query=_SETUP, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, for a method if one is named."""
        given = self.parameters(_SETUP)
        transaction = await self.find_transaction(call, given, tenant_id)
        method = given.get("method", "")
        step = await two_factor_setup.show(self.services, call, transaction, self.browser(), method)
        return await self.told(transaction, step)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Add the method, or send a code for it; unless the form is not one that this browser was shown."""
        transaction, browser = await self.find_transaction(call, form, tenant_id), self.browser()
        method, secret = form.get("method", ""), form.get("secretBase32Encoded", "")
        if not csrf.has_valid_token(self, form):
            step = await two_factor_setup.show(self.services, call, transaction, browser, method, secret)
            return await self.told(transaction, step, message=csrf.INVALID_TOKEN)
        if form.get("action") == "send":
            sent = await two_factor_setup.send(self.services, call, transaction, browser, method)
            return await self.told(transaction, sent)
        code = form.get("code", "").strip()
        added = await two_factor_setup.enable(self.services, call, transaction, browser, method, secret, code)
        if isinstance(added, RecoveryCodesPage):
            return await self.recovery_codes(added)
        return await self.told(transaction, added)

    async def told(self, transaction: InterruptedTransaction, step: MethodSetup | Step, *, message: str = "") -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, MethodSetup):
            return await self.went_on(transaction, step)
        look = await self.look(transaction)
        query = {"client_id": transaction.client.client_id, "tenantId": transaction.client.tenant_id}
        place = f"{self.request.path}?{urllib.parse.urlencode(query | {'intent': transaction.transaction_id})}"
        values = two_factor.setup_values(step, look, message or step.message, place)
        if step.secret:
            values["path"], values["side"] = await asyncio.to_thread(qr_codes.svg_path, step.key_uri)
        return csrf.with_status(self.form_page(transaction, look, "two_factor_enable.html", values), message)

    async def recovery_codes(self, added: RecoveryCodesPage) -> Reply:
        """The recovery codes, which are shown here and never again; the login goes on with the next form."""
        transaction = added.transaction
        look = await self.look(transaction)
        values = {"action": f"{login.base_path(self)}/two-factor-enable-complete", "codes": added.recovery_codes}
        reply = self.form_page(transaction, look, "two_factor_enable_complete.html", values)
        cookies = [*reply.cookies, self.new_cookie(login_transactions.COOKIE, transaction.cookie)]
        return Reply(reply.body, reply.status, reply.headers, cookies)


class EnableCompleteHandler(WaitingHandler):
    """Goes on when the recovery codes were seen."""

    page_name: ClassVar[str] = login_transactions.TWO_FACTOR_ENABLED

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page again, without the codes."""
        return await self.shown_again(await self.find_transaction(call, self.parameters(_REQUEST), tenant_id))

    @endpoint(access=Access.BROWSER, form=_END, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Go on, unless the form is not one that this browser was shown."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return csrf.with_status(await self.shown_again(transaction), csrf.INVALID_TOKEN)
        step = await login_resumption.resume(self.services, call, transaction, self.browser())
        return await self.went_on(transaction, step)

    async def shown_again(self, transaction: InterruptedTransaction) -> Reply:
        """The page, without the codes."""
        look = await self.look(transaction)
        return self.form_page(transaction, look, "two_factor_enable_complete.html", {"codes": ()})


_HANDLERS = {_PATH: EnableHandler, _END_PATH: EnableCompleteHandler}

ROUTES = [Route(prefix + path, handler) for path, handler in _HANDLERS.items() for prefix in ("", "/{tenant_id}")]
