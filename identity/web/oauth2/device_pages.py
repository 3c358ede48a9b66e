"""`/oauth2/device` and `/oauth2/device-complete`: the activation page of devices (RFC 8628 section 3.3)."""

from __future__ import annotations

import urllib.parse
from typing import Final

from identity.call import Call, Document
from identity.errors import InvalidRequest
from identity.operations.authorization import device_approvals, device_grants
from identity.operations.authorization.device_grants import AttemptSubject, TooManyCodesError
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import device_page
from identity.operations.pages.device_page import DevicePage
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.hosted import csrf, device, login
from identity.web.oauth2.login_step_handlers import AuthenticatedLoginHandler
from identity.web.oauth2.oauth_handlers import PAGE_OR_REDIRECT, PageHandler, tenant_routes

_REQUEST: Final = "oauth2/device.request.json"
_FORM: Final = "oauth2/device.form.json"
_COMPLETE: Final = "oauth2/device-complete.request.json"


class DeviceHandler(AuthenticatedLoginHandler):
    """Prompts for a user code and, after the login, for approval. Following a link alone never approves a device."""

    page_name = device_approvals.PAGE

    @endpoint(access=Access.BROWSER, query=_REQUEST, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Prompt for the user code or, with a login transaction, for approval."""
        given = self.parameters(_REQUEST)
        if "intent" in given:
            transaction = await self.find_transaction(call, given, tenant_id)
            return await self.approval_page(call, transaction)
        client = await self.client(call, given, tenant_id)
        return await self.code_page(client, given, user_code=given.get("user_code", ""))

    @endpoint(access=Access.BROWSER, form=_FORM, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle a user code or the decision about a device; without a valid CSRF token show the page again."""
        if "intent" in form:
            return await self.decide(call, form, tenant_id)
        client = await self.client(call, form, tenant_id)
        user_code = form.get("interactive_user_code", "")
        if not csrf.has_valid_token(self, form):
            return await self.code_page(client, form, user_code=user_code, message=csrf.INVALID_TOKEN)
        subject = AttemptSubject(session=csrf.browser(self))
        try:
            pending = await device_grants.get_pending(
                self.services, call, client.tenant_id, user_code, subject, client.client_id
            )
        except InvalidRequest as error:
            return await self.code_page(client, form, user_code=user_code, message=_message(error))
        request = device_approvals.request_parameters(call, client, pending.request.user_code)
        if "locale" in form:
            request["locale"] = form["locale"]
        location = f"{login.authorize_path(self)}?{urllib.parse.urlencode(request)}"
        return Reply(status=302, headers={"Location": location})

    async def decide(self, call: Call, form: Document, tenant_id: str | None) -> Reply:
        """Handle the decision about a device."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.approval_page(call, transaction, message=csrf.INVALID_TOKEN)
        await login_transactions.consume(self.services, transaction)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        step = await device_page.answer(
            self.services, call, transaction, self.browser(), form.get("grant", ""),
            is_allowed=form.get("action") == "allow",
        )  # fmt: skip
        return await self.continue_login(transaction, step)

    async def client(self, call: Call, given: Document, tenant_id: str | None) -> Client:
        """Return the client of the device."""
        return await device_page.get_client(self.services, call, self.tenant_hints(tenant_id, given), given)

    async def approval_page(self, call: Call, transaction: AuthenticatedTransaction, *, message: str = "") -> Reply:
        """Return the approval page, or the next step."""
        self.verified_client = transaction.verified_client
        step = await device_page.show(self.services, call, transaction, self.browser())
        if not isinstance(step, DevicePage):
            return await self.render_step(step, transaction.verified_client.given)
        is_hosted = device_approvals.is_hosted(call, step.client, transaction.verified_client.given)
        return await device.reply_approval_form(self, step, transaction, is_hosted=is_hosted, message=message)

    async def code_page(self, client: Client, given: Document, *, user_code: str, message: str = "") -> Reply:
        """Return the page that prompts for a user code."""
        user = await device_page.find_signed_in_user(self.services, client, self.browser())
        return await device.reply_code_form(self, client, given, user, user_code=user_code, message=message)


class DeviceCompleteHandler(PageHandler):
    """The last page."""

    @endpoint(access=Access.BROWSER, query=_COMPLETE, tenancy=Tenancy.BY_OPERATION, answer=PAGE_OR_REDIRECT)
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the result."""
        given = self.parameters(_COMPLETE)
        client = await device_page.get_client(self.services, call, self.tenant_hints(tenant_id, given), given)
        return await device.reply_result(self, client, given)


def _message(error: InvalidRequest) -> str:
    if isinstance(error, TooManyCodesError):
        return "[RateLimitedException]"
    return "device.expired" if error.reason == "user_code_expired" else "device.invalid"


ROUTES = tenant_routes([("/oauth2/device", DeviceHandler), ("/oauth2/device-complete", DeviceCompleteHandler)])
