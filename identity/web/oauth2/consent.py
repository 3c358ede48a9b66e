"""`/oauth2/consent`: prompt for consent and record the decision (spec: hosted login, step 7)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import CONSENT_PAGE
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import consent_page
from identity.operations.pages.consent_page import ConsentPage
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import consent, csrf
from identity.web.oauth2.login_step_handlers import AuthenticatedLoginHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_REQUEST: Final = "oauth2/consent.request.json"
_FORM: Final = "oauth2/consent.form.json"


class ConsentHandler(AuthenticatedLoginHandler):
    """The consent page of a login transaction."""

    page_name = CONSENT_PAGE

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the consent page, or continue if no consent is required any more."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        return await self.consent_page(call, transaction)

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the decision; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.consent_page(call, transaction, message=csrf.INVALID_TOKEN)
        await login_transactions.consume(self.services, transaction)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        scopes = consent.approved_scopes(form)
        step = await consent_page.answer(self.services, call, transaction, self.browser(), scopes)
        return await self.continue_login(transaction, step)

    async def consent_page(self, call: Call, transaction: AuthenticatedTransaction, *, message: str = "") -> Reply:
        """Return the page, or the next step."""
        self.verified_client = transaction.verified_client
        step = await consent_page.show(self.services, call, transaction, self.browser())
        if isinstance(step, ConsentPage):
            return await consent.reply(self, step, transaction, message=message)
        return await self.render_step(step, transaction.verified_client.given)


ROUTES = tenant_routes([("/oauth2/consent", ConsentHandler)])
