"""`/oauth2/register/steps`: the steps of a registration form after the first one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.forms import field_keys, field_values
from identity.errors import ServiceError
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import RegistrationTransaction, TransactionEndedError
from identity.operations.pages import registration_form_page, registration_steps
from identity.operations.pages.registration_form_page import NextStep, StepRejected
from identity.operations.pages.registration_page import FormRejected
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, register_form
from identity.web.hosted.register_form import NOT_REJECTED, StepPage
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, PageHandler, tenant_routes
from identity.web.oauth2.register import FORM, RegisterHandler

_REQUEST: Final = "oauth2/register-steps.request.json"
_LAST: Final = 10**6


class RegisterStepsHandler(RegisterHandler):
    """A step of a registration whose transaction is stored."""

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show a step with its earlier answers; without a number, the first one that is not done."""
        given = self.parameters(_REQUEST)
        transaction = await self.find_transaction(call, given, tenant_id)
        return await self.step_page(transaction, _number(given), transaction.draft.answers)

    @endpoint(access=Access.BROWSER, form=FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store the answers and continue; a form without a valid CSRF token shows the step again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        number = _number(form)
        if not csrf.has_valid_token(self, form):
            return await self.step_page(transaction, number, transaction.draft.answers, message=csrf.INVALID_TOKEN)
        outcome = await registration_form_page.submit(self.services, call, transaction, self.browser(), number, form)
        client = transaction.client
        if isinstance(outcome, NextStep):
            location = register_form.url(self, client, transaction.transaction_id, outcome.number)
            return Reply(status=302, headers={"Location": location})
        if isinstance(outcome, StepRejected):
            return await self.rejected_page(transaction, outcome, form)
        is_persistent = transaction.draft.is_persistent
        reply = await self.finished(
            client, dict(transaction.verified_client.given), outcome, is_persistent=is_persistent
        )
        return self.without_transaction(reply, transaction)

    async def find_transaction(self, call: Call, given: Document, tenant_id: str | None) -> RegistrationTransaction:
        """Find the registration of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        transaction = await registration_form_page.find(self.services, call, hints, given, cookie)
        self.verified_client = transaction.verified_client
        return transaction

    async def rejected_page(self, transaction: RegistrationTransaction, outcome: StepRejected, form: Document) -> Reply:
        """Return a step with its errors, for the new transaction if the old one was consumed."""
        if outcome.transaction is not None:
            new, answers = outcome.transaction, outcome.transaction.draft.answers
            reply = await self.step_page(new, outcome.number, answers, rejected=outcome.rejected)
            cookie = self.new_cookie(login_transactions.COOKIE, new.cookie)
            return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])
        steps = await registration_steps.load(self.services, transaction.client)
        answers = field_values.read(steps[outcome.number - 1].fields, form)
        return await self.step_page(transaction, outcome.number, answers, rejected=outcome.rejected)

    async def step_page(
        self,
        transaction: RegistrationTransaction,
        number: int,
        answers: Mapping[str, Any],
        *,
        rejected: FormRejected = NOT_REJECTED,
        message: str = "",
    ) -> Reply:
        """Return a step that can be reached with the answers so far."""
        steps = await registration_steps.load(self.services, transaction.client)
        number = registration_steps.reachable(transaction.draft, steps, number)
        has_password = field_keys.PASSWORD in transaction.draft.answers
        verification = await register_form.find_verification(self.services, transaction, steps[number - 1])
        page = StepPage(transaction.client, steps, number, answers, rejected, message, has_password, verification)
        return await register_form.reply_stored(self, page, transaction)

    def without_transaction(self, reply: Reply, transaction: RegistrationTransaction) -> Reply:
        """Return the reply, and remove the consumed transaction from the cookie."""
        if any(morsel.key == login_transactions.COOKIE for morsel in reply.cookies):
            return reply
        value = login_transactions.cookie_without(transaction.cookie, transaction.transaction_id)
        cookie = self.new_cookie(login_transactions.COOKIE, value, None if value else 0)
        return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])

    def refuse(self, error: ServiceError) -> None:
        """Redirect the error; show an error page if the transaction ended, whose response may have been sent."""
        if isinstance(error, TransactionEndedError):
            PageHandler.refuse(self, error)
        else:
            super().refuse(error)


def _number(given: Document) -> int:
    """Return the number of the requested step; the last one that can be reached if there is none."""
    text = given.get(register_form.STEP, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else _LAST


ROUTES = tenant_routes([(f"/oauth2/{login_transactions.REGISTRATION_STEPS}", RegisterStepsHandler)])
