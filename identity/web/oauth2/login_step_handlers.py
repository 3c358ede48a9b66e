"""Base handlers of the pages of login transactions."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Any, ClassVar

from identity.call import Call, Document
from identity.errors import ServiceError
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Step
from identity.operations.login_transactions.login_transactions import (
    AuthenticatedTransaction,
    InterruptedTransaction,
    TransactionEndedError,
)
from identity.web.endpoint import Reply
from identity.web.hosted import csrf, page_theme, render
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PageHandler


class AuthenticatedLoginHandler(LoginFlowHandler):
    """A page of a login whose user is authenticated."""

    page_name: ClassVar[str]
    """The page constant of login_transactions."""

    async def find_transaction(self, call: Call, given: Document, tenant_id: str | None) -> AuthenticatedTransaction:
        """Find the login transaction of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        return await login_resumption.find_authenticated(self.services, call, hints, given, cookie, self.page_name)

    async def continue_login(self, transaction: AuthenticatedTransaction, step: Step) -> Reply:
        """Return the next step, and remove the transaction from the cookie."""
        value = login_transactions.cookie_without(transaction.cookie, transaction.transaction_id)
        cookie = self.new_cookie(login_transactions.COOKIE, value, None if value else 0)
        return await self.render_step(step, transaction.verified_client.given, cookie)


class InterruptedLoginHandler(LoginFlowHandler):
    """A page of an interrupted login."""

    advice = "error.again"
    page_name: ClassVar[str]
    """The page constant of login_transactions."""

    async def find_transaction(
        self, call: Call, given: Document, tenant_id: str | None = None
    ) -> InterruptedTransaction:
        """Find the login transaction of this browser."""
        hints = self.tenant_hints(tenant_id, given)
        cookie = self.cookie(login_transactions.COOKIE)
        transaction = await login_resumption.find_interrupted(self.services, call, hints, given, cookie, self.page_name)
        self.verified_client = transaction.verified_client
        return transaction

    async def continue_login(self, transaction: InterruptedTransaction, step: Step) -> Reply:
        """Return the next step, and remove the transaction from the cookie."""
        value = login_transactions.cookie_without(self.cookie(login_transactions.COOKIE), transaction.transaction_id)
        reply = await self.render_step(step, transaction.verified_client.given)
        if any(morsel.key == login_transactions.COOKIE for morsel in reply.cookies):
            return reply
        cookie = self.new_cookie(login_transactions.COOKIE, value, None if value else 0)
        return dataclasses.replace(reply, cookies=[*reply.cookies, cookie])

    async def load_theme(self, transaction: InterruptedTransaction) -> PageTheme:
        """Load the theme of the page."""
        client = transaction.client
        given = transaction.verified_client.given
        return await page_theme.load(self, client.tenant, client.application, earlier=given)

    def page_url(self, path: str, transaction: InterruptedTransaction) -> str:
        """Return the URL of a page of the transaction."""
        query = {
            "client_id": transaction.client.client_id,
            "tenantId": transaction.client.tenant_id,
            "intent": transaction.transaction_id,
        }
        return f"{path}?{urllib.parse.urlencode(query)}"

    def form_page(
        self, transaction: InterruptedTransaction, theme: PageTheme, template: str, values: Document
    ) -> Reply:
        """Render a page with a form that posts to the same path; common values are added."""
        token, cookie = csrf.issue(self)
        hidden = {
            "client_id": transaction.client.client_id,
            "tenantId": transaction.client.tenant_id,
            "intent": transaction.transaction_id,
            csrf.FIELD: token,
        }
        common: dict[str, Any] = {
            "action": self.request.path,
            "hidden": list(hidden.items()),
            "application_name": transaction.client.application["name"],
        }
        redirect_uri = transaction.verified_client.given["redirect_uri"]
        return render.form(template, {**common, **values}, theme, redirect_uri=redirect_uri, cookies=[cookie])

    def refuse(self, error: ServiceError) -> None:
        """Redirect the error; show an error page if the transaction ended, whose response may have been sent."""
        if isinstance(error, TransactionEndedError):
            PageHandler.refuse(self, error)
        else:
            super().refuse(error)
