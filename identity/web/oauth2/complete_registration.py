"""`/oauth2/complete-registration`: collect required fields that a user lacks (spec: hosted login, step 4)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import just_in_time_registration, login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import complete_registration_page
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_page import FormRejected
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, register
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/consent.request.json"
_FORM: Final = "oauth2/complete-registration.form.json"


class CompleteRegistrationHandler(LoginFlowHandler):
    """The page of a login transaction."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the missing fields, or continue if none is missing."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        self.verified_client = transaction.verified_client
        return await self.asked(call, transaction, {})

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the form; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            self.verified_client = transaction.verified_client
            return await self.asked(call, transaction, form, message=csrf.INVALID_TOKEN)
        step = await complete_registration_page.answer(self.services, call, transaction, self.browser(), form)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        if isinstance(step, FormRejected):
            return await self.asked(call, transaction, form, refused=step)
        value = login_transactions.cookie_without(transaction.cookie, transaction.transaction_id)
        done = self.new_cookie(login_transactions.COOKIE, value, None if value else 0)
        return await self.shown(step, transaction.verified_client.given, done)

    async def find_transaction(self, call: Call, given: Document, tenant_id: str | None) -> AuthenticatedTransaction:
        """Find the login transaction of this browser."""
        hints, cookie = self.tenant_hints(tenant_id, given), self.cookie(login_transactions.COOKIE)
        return await login_resumption.find_authenticated(
            self.services, call, hints, given, cookie, just_in_time_registration.PAGE
        )

    async def asked(
        self,
        call: Call,
        transaction: AuthenticatedTransaction,
        answers: Document,
        *,
        refused: FormRejected | None = None,
        message: str = "",
    ) -> Reply:
        """Return the page, or the next step."""
        step = await complete_registration_page.show(self.services, call, transaction, self.browser())
        if isinstance(step, MissingFields):
            return await register.reply_missing_fields(
                self, step, transaction, answers, refused=refused, message=message
            )
        return await self.shown(step, transaction.verified_client.given)


ROUTES = [
    Route(prefix + f"/oauth2/{just_in_time_registration.PAGE}", CompleteRegistrationHandler)
    for prefix in ("", "/{tenant_id}")
]
