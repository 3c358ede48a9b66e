"""`/oauth2/complete-registration`: collect required fields that a user lacks (spec: hosted login, step 4)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.forms import field_values
from identity.domain.users import users
from identity.operations.authorization import just_in_time_registration
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import complete_registration_page
from identity.operations.pages.complete_registration_page import MissingFields
from identity.operations.pages.registration_page import FormRejected
from identity.web.endpoint import Reply, page_endpoint
from identity.web.hosted import csrf, fields
from identity.web.hosted.fields import Form, inputs, localized, profile_field
from identity.web.hosted.login_flow import AuthenticatedLoginHandler
from identity.web.hosted.register import NOT_REJECTED
from identity.web.oauth2.oauth_handlers import tenant_routes


class CompleteRegistrationHandler(AuthenticatedLoginHandler):
    """The page of a login transaction."""

    page_name = just_in_time_registration.PAGE

    @page_endpoint(query="oauth2/consent.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the missing fields, or continue if none is missing."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        return await self.fields_page(call, transaction, {})

    @page_endpoint(form="oauth2/complete-registration.form.json")
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
        refused: FormRejected = NOT_REJECTED,
        message: str = "",
    ) -> Reply:
        """Return the page with rejected values, or the next step; `message` is the key of a page text."""
        self.verified_client = transaction.verified_client
        step = await complete_registration_page.show(self.services, call, transaction, self.browser())
        given = transaction.verified_client.given
        if not isinstance(step, MissingFields):
            return await self.render_step(step, given)
        theme, name = await self.load_theme(transaction, step.user), step.client.application["name"]
        missing = [profile_field(field, answers.get(field.name, ""), theme) for field in step.missing.fields]
        form_fields = step.missing.form_fields
        form = Form(
            hidden=list(self.transaction_parameters(transaction).items()),
            title=theme.fill("completeRegistration.title", name),
            heading=theme["completeRegistration.heading"],
            lead=theme.fill("completeRegistration.lead", name, strong=True),
            submit=theme["completeRegistration.submit"],
            fields=[*missing, *inputs(form_fields, field_values.read(form_fields, answers), theme)],
            notes=[theme.fill("device.signedIn", users.primary_login_id(step.user), strong=True)],
        )
        form = fields.with_refusal(form, localized(refused.fields, theme), theme, refused.general)
        return fields.page(self, form, theme, message=message, redirect_uri=given["redirect_uri"])


ROUTES = tenant_routes([(f"/oauth2/{just_in_time_registration.PAGE}", CompleteRegistrationHandler)])
