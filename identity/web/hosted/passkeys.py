"""`/oauth2/webauthn`: logins with passkeys on the login page, whose script posts here, and the offer to add one."""

from __future__ import annotations

import dataclasses
import json
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris
from identity.errors import InvalidRequest
from identity.operations.clients import clients
from identity.operations.login_transactions.authorization_steps import PASSKEY_OFFER_PAGE, LoginPage
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import account_passkeys, passkey_login, passkey_offer_page
from identity.web.endpoint import Access, Reply, oauth_endpoint, page_endpoint, redirect
from identity.web.hosted import csrf, login
from identity.web.hosted.login_flow import AuthenticatedLoginHandler, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import AUTHORIZE_REQUEST, PageHandler, tenant_routes

_PATH: Final = "/oauth2/webauthn"


class StartHandler(PageHandler):
    """The options for the script of the login page."""

    @oauth_endpoint(
        access=Access.BROWSER, form="oauth2/webauthn-start.form.json", answer="api/webauthn-start.response.json"
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Return the options to use a passkey. Raises InvalidRequest for a form without a valid CSRF token."""
        if not csrf.has_valid_token(self, form):
            raise InvalidRequest("unknown", "The CSRF token of the form is not valid.")
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, form), form.get("client_id"))
        browser = login.passkey_browser(self, client)
        is_conditional = form.get("mediation") == "conditional"
        options = await passkey_login.start(self.services, call, client, browser, is_conditional=is_conditional)
        return Reply({"options": options})


class PasskeyHandler(LoginFlowHandler):
    """The response of a passkey."""

    @page_endpoint(query=AUTHORIZE_REQUEST)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Redirect to the login page, from a page that answered a POST and is requested in another language."""
        return redirect(redirect_uris.with_query(login.authorize_path(self), self.parameters()))

    @page_endpoint(form="oauth2/webauthn.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Log in; a form without a valid CSRF token shows the login page again."""
        form, verified_client = await self.verify_request(call, form, tenant_id)
        self.verified_client = verified_client
        if not csrf.has_valid_token(self, form):
            return await self.login_page(LoginPage(verified_client.client), form, message=csrf.INVALID_TOKEN)
        is_persistent = form.get("rememberDevice") == "true"
        step, cookie = await passkey_login.log_in(
            self.services,
            call,
            verified_client,
            self.browser(),
            csrf.browser(self),
            form.get("credential", ""),
            is_persistent=is_persistent,
        )
        reply = await self.render_step(step, form)
        if isinstance(step, LoginPage):
            return reply
        reply = dataclasses.replace(reply, cookies=[*reply.cookies, *self.passkey_cookies(cookie)])
        return login.with_remember_cookie(self, reply, is_persistent=is_persistent)


class OfferHandler(AuthenticatedLoginHandler):
    """The offer to add a passkey after a login."""

    page_name = PASSKEY_OFFER_PAGE

    @page_endpoint(query="oauth2/waiting.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the page, or continue if no passkey can be added any more."""
        transaction = await self.find_transaction(call, self.parameters(), tenant_id)
        return await self.offer_page(call, transaction)

    @page_endpoint(form="oauth2/webauthn-offer.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Add the passkey or decline, and continue; without a valid CSRF token show the page again."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.offer_page(call, transaction, message=csrf.INVALID_TOKEN)
        if form.get("action") == "skip":
            continued = await passkey_offer_page.decline(self.services, call, transaction, self.browser())
        else:
            theme = await self.load_theme(transaction)
            found = await passkey_offer_page.add(
                self.services,
                call,
                transaction,
                self.browser(),
                form.get("credential", ""),
                theme["accountPasskeysAdd.value"],
            )
            if found is None:
                return await self.offer_page(call, transaction, message=account_passkeys.FAILED)
            continued = found
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        step, cookie = continued
        reply = await self.continue_login(transaction, step)
        return dataclasses.replace(reply, cookies=[*reply.cookies, *self.passkey_cookies(cookie)])

    async def offer_page(self, call: Call, transaction: AuthenticatedTransaction, *, message: str = "") -> Reply:
        """Return the page, or the next step."""
        found = await passkey_offer_page.show(self.services, call, transaction, self.browser())
        if not isinstance(found, passkey_offer_page.PasskeyOffer):
            self.verified_client = transaction.verified_client
            return await self.render_step(found, transaction.verified_client.given)
        theme = await self.load_theme(transaction, found.user)
        values = {"options": json.dumps(found.options)}
        return self.form_page(transaction, theme, "passkey_offer.html", values, message)


ROUTES = tenant_routes(
    [(_PATH, PasskeyHandler), (f"{_PATH}/start", StartHandler), (f"{_PATH}-reauth-enable", OfferHandler)]
)
