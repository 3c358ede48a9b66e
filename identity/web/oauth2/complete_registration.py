"""`/oauth2/complete-registration`: collect required fields that a user lacks (spec: hosted login, step 4)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import just_in_time_registration
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import complete_registration_page
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_page import FormRejected
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, register
from identity.web.oauth2.login_step_handlers import AuthenticatedLoginHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, tenant_routes

_REQUEST: Final = "oauth2/consent.request.json"
_FORM: Final = "oauth2/complete-registration.form.json"


class CompleteRegistrationHandler(AuthenticatedLoginHandler):
    """The page of a login transaction."""

    page_name = just_in_time_registration.PAGE

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the missing fields, or continue if none is missing."""
        transaction = await self.find_transaction(call, self.parameters(_REQUEST), tenant_id)
        return await self.fields_page(call, transaction, {})

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the form; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.fields_page(call, transaction, form, message=csrf.INVALID_TOKEN)
        step = await complete_registration_page.answer(self.services, call, transaction, self.browser(), form)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        if isinstance(step, FormRejected):
            return await self.fields_page(call, transaction, form, refused=step)
        return await self.continue_login(transaction, step)

    async def fields_page(
        self,
        call: Call,
        transaction: AuthenticatedTransaction,
        answers: Document,
        *,
        refused: FormRejected | None = None,
        message: str = "",
    ) -> Reply:
        """Return the page, or the next step."""
        self.verified_client = transaction.verified_client
        step = await complete_registration_page.show(self.services, call, transaction, self.browser())
        if isinstance(step, MissingFields):
            return await register.reply_missing_fields(
                self, step, transaction, answers, refused=refused, message=message
            )
        return await self.render_step(step, transaction.verified_client.given)


ROUTES = tenant_routes([(f"/oauth2/{just_in_time_registration.PAGE}", CompleteRegistrationHandler)])
