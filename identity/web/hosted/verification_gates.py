"""`/email/verification-required`, `/registration/verification-required`: verification during a login.

(Spec: hosted login, steps 3 and 5.)
"""

from __future__ import annotations

from typing import ClassVar

from identity.call import Call, Document
from identity.domain.objects.external_identifiers import IdSettings
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import verification_pages
from identity.operations.pages.verification_pages import VerificationPage
from identity.web.base_handlers import Route
from identity.web.endpoint import Reply, page_endpoint
from identity.web.hosted import csrf
from identity.web.hosted.login_flow import InterruptedLoginHandler
from identity.web.hosted.page_theme import PageTheme


class VerificationGateHandler(InterruptedLoginHandler):
    """The page that requires the verification of an email address or of a registration."""

    @page_endpoint(query="oauth2/waiting.request.json")
    async def get(self, call: Call) -> Reply:
        """Show the page, or continue if the verification is complete."""
        transaction = await self.find_transaction(call, self.parameters())
        step = await verification_pages.show(self.services, call, transaction, self.browser())
        return await self.verification_page(transaction, step)

    @page_endpoint(form="oauth2/verification-required.form.json")
    async def post(self, call: Call, form: Document) -> Reply:
        """Verify a code, change the address, or send another mail; without a valid CSRF token show the page again."""
        transaction, browser = await self.find_transaction(call, form), self.browser()
        if not csrf.has_valid_token(self, form):
            step = await verification_pages.show(self.services, call, transaction, browser, csrf.INVALID_TOKEN)
            return await self.verification_page(transaction, step)
        match form.get("action"):
            case "resend":
                step = await verification_pages.send_again(self.services, call, transaction, browser)
            case "change":
                email = form.get("email", "")
                step = await verification_pages.change_email(self.services, call, transaction, browser, email)
            case _:
                code = form.get("oneTimeCode", "")
                step = await verification_pages.enter_code(self.services, call, transaction, browser, code)
        return await self.verification_page(transaction, step)

    async def verification_page(self, transaction: InterruptedTransaction, step: VerificationPage | Step) -> Reply:
        """Return the page, or the next step."""
        if not isinstance(step, VerificationPage):
            return await self.continue_login(transaction, step)
        theme = await self.load_theme(transaction)
        values = _values(step, theme)
        return self.form_page(transaction, theme, "verification_required.html", values, step.message)


class EmailHandler(VerificationGateHandler):
    """The email address."""

    page_name: ClassVar[str] = login_transactions.VERIFY_EMAIL


class RegistrationHandler(VerificationGateHandler):
    """The registration."""

    page_name: ClassVar[str] = login_transactions.VERIFY_REGISTRATION


def _values(page: VerificationPage, theme: PageTheme) -> Document:
    """Return the values of the template."""
    kind = "emailVerification" if page.is_email else "registrationVerification"
    texts = "emailVerificationRequired." if page.is_email else "registrationVerificationRequired."
    return {
        "title": theme[f"{texts}title"],
        "heading": theme[f"{texts}heading"],
        "lead": theme.fill(f"{texts}lead", page.email, strong=True),
        "asks_code": page.uses_code,
        "is_numeric": IdSettings.of(page.transaction.client.tenant, kind).has_numeric_codes,
        "may_change_email": page.may_change_email,
        "is_good": page.message == verification_pages.MESSAGE_SENT,
        "is_wrong": page.message == verification_pages.WRONG_CODE,
        "is_unusable": page.message == verification_pages.UNUSABLE_EMAIL,
    }


ROUTES = [Route(handler.page_name, handler) for handler in (EmailHandler, RegistrationHandler)]
