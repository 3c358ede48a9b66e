"""`/oauth2/consent`: the consent page, which records the decision (spec: hosted login, step 7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.users import users
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import CONSENT_PAGE
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import consent_page
from identity.operations.pages.consent_page import ConsentPage
from identity.web.endpoint import Reply, page_endpoint
from identity.web.hosted import csrf, render
from identity.web.hosted.login_flow import AuthenticatedLoginHandler
from identity.web.hosted.page_theme import PageTheme
from identity.web.hosted.render import ScopeChoice
from identity.web.oauth2.oauth_handlers import tenant_routes

_SCOPE_FIELD: Final = re.compile(r"scopeConsents\['(.+)'\]")


class ConsentHandler(AuthenticatedLoginHandler):
    """The consent page of a login transaction."""

    page_name = CONSENT_PAGE

    @page_endpoint(query="oauth2/consent.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the consent page, or continue if no consent is required any more."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        return await self.show(call, transaction)

    @page_endpoint(form="oauth2/consent.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle the decision; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.show(call, transaction, message=csrf.INVALID_TOKEN)
        await login_transactions.consume(self.services, transaction)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        scopes = approved_scopes(form)
        step = await consent_page.answer(self.services, call, transaction, self.browser(), scopes)
        return await self.continue_login(transaction, step)

    async def show(self, call: Call, transaction: AuthenticatedTransaction, *, message: str = "") -> Reply:
        """Return the page, or the next step; `message` is the key of a page text."""
        self.verified_client = transaction.verified_client
        step = await consent_page.show(self.services, call, transaction, self.browser())
        if isinstance(step, ConsentPage):
            return await self.consent_page(step, transaction, message)
        return await self.render_step(step, transaction.verified_client.given)

    async def consent_page(self, page: ConsentPage, transaction: AuthenticatedTransaction, message: str) -> Reply:
        """Return the page with the texts of the requested scopes."""
        application, prompt = page.client.application, page.prompt
        theme = await self.load_theme(transaction, page.user)
        values = {
            "login_id": users.primary_login_id(page.user),
            "target": render.target_name(transaction.verified_client.given["redirect_uri"]),
            "required": [scope_choice(theme, application, scope) for scope in prompt.required],
            "optional": [
                scope_choice(theme, application, scope, is_checked=scope in prompt.approved)
                for scope in prompt.optional
            ],
            "unknown": [scope_choice(theme, application, scope) for scope in prompt.unknown],
        }
        return self.form_page(transaction, theme, "consent.html", values, message)


def approved_scopes(form: Mapping[str, str]) -> frozenset[str] | None:
    """Return the approved scopes of a form; None unless its action is `allow`."""
    if form.get("action") != "allow":
        return None
    answers = ((_SCOPE_FIELD.fullmatch(name), value) for name, value in form.items())
    return frozenset(found[1] for found, value in answers if found is not None and value == "true")


def scope_choice(theme: PageTheme, application: Document, scope: str, *, is_checked: bool = False) -> ScopeChoice:
    """Return a scope with its texts of the theme, else of the application, else its name."""
    custom: Document = next((entry for entry in application["scopes"] if entry["name"] == scope), {})
    message = theme.scope_text("scope-message", scope, application) or custom.get("defaultConsentMessage") or scope
    detail = theme.scope_text("scope-detail", scope, application) or custom.get("defaultConsentDetail") or ""
    return ScopeChoice(f"scopeConsents['{scope}']", message, detail, is_checked)


ROUTES = tenant_routes([("/oauth2/consent", ConsentHandler)])
