"""`/oauth2/start-idp-link`: log in to link a provider account to a local account."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.authorization import account_linking
from identity.operations.authorization.account_linking import AccountLink, LinkPage
from identity.operations.login.password_login import Credentials
from identity.operations.providers import authorization_redirect
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, login, page_theme, render
from identity.web.oauth2.login_flow import LoginFlowHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT

_REQUEST: Final = "oauth2/start-idp-link.request.json"
_FORM: Final = "oauth2/start-idp-link.form.json"


class StartIdPLinkHandler(LoginFlowHandler):
    """The page of a pending link, which is bound to the browser."""

    advice = "error.again"

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call) -> Reply:
        """Show the page."""
        return await self.link_page(LinkPage(await self.account_link(call, self.parameters(_REQUEST))))

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document) -> Reply:
        """Log in and link the account; a form without a valid CSRF token shows the page again."""
        account_link, login_id = await self.account_link(call, form), form.get("loginId", "")
        if not csrf.has_valid_token(self, form):
            return await self.link_page(LinkPage(account_link, login_id), message=csrf.INVALID_TOKEN)
        self.verified_client = account_link.verified_client
        browser = self.browser()
        credentials = Credentials(login_id, form.get("password", ""), trust_id=browser.trust_id)
        step = await account_linking.log_in(self.services, call, account_link, browser, credentials)
        if isinstance(step, LinkPage):
            return await self.link_page(step)
        return await self.render_step(step, account_link.verified_client.given)

    async def account_link(self, call: Call, given: Document) -> AccountLink:
        """Return the pending link of a request."""
        return await account_linking.get_account_link(self.services, call, given.get("link", ""), self.browser())

    async def link_page(self, page: LinkPage, *, message: str = "") -> Reply:
        """Render the page with the failure of the last attempt."""
        client, given = page.account_link.verified_client.client, page.account_link.verified_client.given
        theme = await page_theme.load(self, client.tenant, client.application, earlier=given)
        token, cookie = csrf.issue(self)
        form = render.LinkForm(
            application_name=client.application["name"],
            provider_name=page.account_link.provider_name,
            account=page.account_link.account,
            action=authorization_redirect.LINK_PATH,
            hidden=(("link", page.account_link.link), (csrf.FIELD, token)),
            redirect_uri=given["redirect_uri"],
            login_id=page.login_id,
            message=theme[message] if message else login.message_of(page.problem, theme),
            is_invalid=login.is_credential_error(page.problem),
        )
        return csrf.with_status(render.link(form, theme, [cookie]), message)


ROUTES = [Route(authorization_redirect.LINK_PATH, StartIdPLinkHandler)]
