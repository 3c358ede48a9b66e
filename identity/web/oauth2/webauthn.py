"""`/oauth2/webauthn`: logins with passkeys on the login page, whose script posts here."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris
from identity.errors import InvalidRequest
from identity.operations.clients import clients
from identity.operations.login_transactions.authorization_steps import LoginPage
from identity.operations.pages import passkey_login
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, passkeys
from identity.web.oauth2.login_flow import REQUEST, LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, PageHandler, tenant_routes

_FORM: Final = "oauth2/webauthn.form.json"
_START: Final = "oauth2/webauthn-start.form.json"
_PATH: Final = "/oauth2/webauthn"


class StartHandler(PageHandler):
    """The options for the script of the login page."""

    @endpoint(
        access=Access.BROWSER, form=_START, tenancy=Tenancy.BY_OPERATION, answer="api/webauthn-start.response.json"
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Return the options to use a passkey. Raises InvalidRequest for a form without a valid CSRF token."""
        if not csrf.has_valid_token(self, form):
            raise InvalidRequest("unknown", "The CSRF token of the form is not valid.")
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, form), form.get("client_id"))
        browser = passkeys.browser(self, client)
        is_conditional = form.get("mediation") == "conditional"
        options = await passkey_login.start(self.services, call, client, browser, is_conditional=is_conditional)
        return Reply({"options": options})


class PasskeyHandler(LoginFlowHandler):
    """The response of a passkey."""

    @endpoint(access=Access.BROWSER, query=REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Redirect to the login page, from a page that answered a POST and is requested in another language."""
        location = redirect_uris.with_query(login.authorize_path(self), self.parameters(REQUEST))
        return Reply(status=302, headers={"Location": location})

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
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
        remembered = login.remember_cookie(self, is_persistent=is_persistent)
        return dataclasses.replace(reply, cookies=[*reply.cookies, *passkeys.cookies(self, cookie), remembered])


ROUTES = tenant_routes([(_PATH, PasskeyHandler), (f"{_PATH}/start", StartHandler)])
