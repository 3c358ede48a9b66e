"""The device grant (RFC 8628): device authorization, user codes for activation pages, and our activation page."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.clients import scopes
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.domain.users import users
from identity.errors import InvalidClient, InvalidRequest, ServiceError, Unauthorized
from identity.ids import TenantId
from identity.operations.authorization import device_approvals, device_authorization, device_codes, device_grants
from identity.operations.clients import client_authentication, clients
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import device_page
from identity.web import authentication
from identity.web.endpoint import Access, Reply, oauth_endpoint, page_endpoint, redirect
from identity.web.hosted import consent, csrf, login, page_theme, render
from identity.web.hosted.login_flow import AuthenticatedLoginHandler
from identity.web.hosted.page_theme import PageTheme
from identity.web.oauth2.oauth_handlers import NO_CACHE, OAuth2Handler, PageHandler, tenant_routes

_RESERVED: Final = {scopes.OPENID: "deviceApproval.identity", scopes.OFFLINE_ACCESS: "deviceApproval.offline"}
_FAILURES: Final = {
    "consent_canceled": "deviceComplete.deniedText",
    "invalid_user_code": "deviceComplete.failedText",
    "user_code_expired": "deviceComplete.failedText",
}
"""error_reason -> key of the page text about the result."""

_MAXIMUM_LENGTH: Final = 300


class DeviceAuthorizeHandler(OAuth2Handler):
    """The device authorization endpoint."""

    records_refusals = True

    @oauth_endpoint(
        access=Access.CLIENT,
        form="oauth2/device-authorize.request.json",
        answer="oauth2/device-authorize.response.json",
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Return a device code and a user code."""
        client = device_authorization.authenticate(await self.identify_client(form, tenant_id))
        return Reply(await device_authorization.begin(self.services, call, client, form), headers=NO_CACHE)

    def refuse(self, error: ServiceError) -> None:
        """Send InvalidClient with status 400, as published."""
        if isinstance(error, InvalidClient):
            error.status = InvalidRequest.status
        super().refuse(error)


class UserCodeHandler(OAuth2Handler):
    """Describes the device of a user code to its client, or to an API key of the tenant."""

    @oauth_endpoint(
        access=Access.CLIENT_OR_KEY,
        form="oauth2/device-user-code.request.json",
        answer="oauth2/device-user-code.response.json",
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Describe the device of a user code."""
        if not isinstance(call.caller, ApiKeyCaller):
            client = (await self.identify_client(form, tenant_id)).authenticate(DEVICE_GRANT)
            return Reply(await device_codes.describe_for_client(self.services, call, client, form), headers=NO_CACHE)
        tenant = await self.tenant_of_key(call, call.caller, form, tenant_id)
        user_code, subject = device_codes.required_user_code(form), device_grants.attempt_subject(call)
        return Reply(await device_codes.describe(self.services, call, tenant, user_code, subject), headers=NO_CACHE)

    async def tenant_of_key(self, call: Call, key: ApiKeyCaller, form: Document, path: str | None) -> TenantId:
        """Return the tenant of the request, of the key, or the only one. Raises Unauthorized for another tenant."""
        named = await clients.find_named_tenant(self.services, self.tenant_hints(path, form))
        if named is None:
            resolved = await authentication.find_tenant_id(self.services, key, None)
        else:
            resolved = await authentication.find_named_tenant_id(self.services, key, named["id"])
        if resolved is None:
            raise InvalidRequest("missing_tenant_id", "The request is missing a required parameter: tenantId.")
        return resolved

    def refuse(self, error: ServiceError) -> None:
        """Send 401 without a body for an invalid API key, as everywhere."""
        if isinstance(error, Unauthorized):
            self.clear_header("Content-Type")
            self.send(Reply(status=error.status))
        else:
            super().refuse(error)


class ValidateHandler(OAuth2Handler):
    """Validates user codes for activation pages."""

    @oauth_endpoint(access=Access.PUBLIC, query="oauth2/device-validate.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Return 200 without a body for a pending user code."""
        given = self.parameters()
        client = await clients.get_client(self.services, self.tenant_hints(tenant_id, given), given.get("client_id"))
        await device_codes.validate(self.services, call, client, device_codes.required_user_code(given))
        return Reply(headers=NO_CACHE)


class ApproveHandler(OAuth2Handler):
    """Approves a device for the user of an access token."""

    @oauth_endpoint(
        access=Access.CLIENT, form="oauth2/device-approve.request.json", answer="oauth2/device-approve.response.json"
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Approve the device of a user code."""
        client = (await self.named_client(form, tenant_id)).authenticate(DEVICE_GRANT)
        return Reply(await device_codes.approve(self.services, call, client, form), headers=NO_CACHE)

    async def named_client(self, form: Document, tenant_id: str | None) -> client_authentication.IdentifiedClient:
        """Return the client. The official libraries also send an API key in the header, which is ignored here."""
        if self.request.headers.get("Authorization", "")[:6].lower() == "basic " or "client_id" not in form:
            return await self.identify_client(form, tenant_id)
        hints, base_url = self.tenant_hints(tenant_id, form), self.addresses.base_url(self.request)
        return await client_authentication.identify(self.services, "", form, hints, base_url)


class DeviceHandler(AuthenticatedLoginHandler):
    """Prompts for a user code and, after the login, for approval. Following a link alone never approves a device."""

    page_name = device_approvals.PAGE

    @page_endpoint(query="oauth2/device.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Prompt for the user code or, with a login transaction, for approval."""
        given = self.parameters()
        if "intent" in given:
            transaction = await self.find_transaction(call, given, tenant_id)
            return await self.show_approval(call, transaction)
        client = await device_page.get_client(self.services, call, self.tenant_hints(tenant_id, given), given)
        return await self.code_page(client, given, user_code=given.get("user_code", ""))

    @page_endpoint(form="oauth2/device.form.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Handle a user code or the decision about a device; without a valid CSRF token show the page again."""
        if "intent" in form:
            return await self.decide(call, form, tenant_id)
        client = await device_page.get_client(self.services, call, self.tenant_hints(tenant_id, form), form)
        user_code = form.get("interactive_user_code", "")
        if not csrf.has_valid_token(self, form):
            return await self.code_page(client, form, user_code=user_code, message=csrf.INVALID_TOKEN)
        subject = device_grants.AttemptSubject(session=csrf.browser(self))
        try:
            pending = await device_grants.get_pending(
                self.services, call, client.tenant_id, user_code, subject, client.client_id
            )
        except InvalidRequest as error:
            return await self.code_page(client, form, user_code=user_code, message=_message(error))
        request = device_approvals.request_parameters(call, client, pending.request.user_code)
        if "locale" in form:
            request["locale"] = form["locale"]
        return redirect(f"{login.authorize_path(self)}?{urllib.parse.urlencode(request)}")

    async def decide(self, call: Call, form: Document, tenant_id: str | None) -> Reply:
        """Handle the decision about a device."""
        transaction = await self.find_transaction(call, form, tenant_id)
        if not csrf.has_valid_token(self, form):
            return await self.show_approval(call, transaction, message=csrf.INVALID_TOKEN)
        await login_transactions.consume(self.services, transaction)
        # Only now: of two concurrent forms one gets a response for the application, the other an error page.
        self.verified_client = transaction.verified_client
        step = await device_page.answer(
            self.services, call, transaction, self.browser(), form.get("grant", ""),
            is_allowed=form.get("action") == "allow",
        )  # fmt: skip
        return await self.continue_login(transaction, step)

    async def show_approval(self, call: Call, transaction: AuthenticatedTransaction, *, message: str = "") -> Reply:
        """Return the approval page, or the next step; `message` is the key of a page text."""
        self.verified_client = transaction.verified_client
        step = await device_page.show(self.services, call, transaction, self.browser())
        if not isinstance(step, device_page.DevicePage):
            return await self.render_step(step, transaction.verified_client.given)
        given = transaction.verified_client.given
        redirect_uri = None if device_approvals.is_hosted(call, step.client, given) else given["redirect_uri"]
        return await self.approval_page(step, transaction, redirect_uri, message)

    async def approval_page(
        self,
        page: device_page.DevicePage,
        transaction: AuthenticatedTransaction,
        redirect_uri: str | None,
        message: str,
    ) -> Reply:
        """Return the page that describes the device, its scopes and the address of its request, for approval.

        `redirect_uri` is None if the result is shown on a page of this service.
        """
        application, device = page.client.application, page.device
        theme = await self.load_theme(transaction, page.current.user)
        values = {
            "application_name": application["name"],
            "facts": list(_facts(theme, page)),
            "scopes": [_choice(theme, application, scope) for scope in device.request.scopes],
            "login_id": users.primary_login_id(page.current.user),
            "sign_out": _url(self, "logout", page.client),
            "target": "" if redirect_uri is None else urllib.parse.urlsplit(redirect_uri).hostname or redirect_uri,
        }
        hidden = [*self.transaction_parameters(transaction).items(), ("grant", device.grant_id)]
        return csrf.form_page(
            self, "device_approval.html", values, theme, hidden, redirect_uri=redirect_uri, message=message
        )

    async def code_page(self, client: clients.Client, given: Document, *, user_code: str, message: str = "") -> Reply:
        """Return the page that prompts for a user code, with the name of a signed-in user."""
        user = await device_page.find_signed_in_user(self.services, client, self.browser())
        theme = await page_theme.load(self, client.tenant, client.application, given)
        values = {
            "application_name": client.application["name"],
            "user_code": user_code[:_MAXIMUM_LENGTH],
            "login_id": "" if user is None else users.primary_login_id(user),
            "sign_out": _url(self, "logout", client),
        }
        hidden = [("client_id", client.presented_client_id), ("tenantId", client.tenant_id)]
        if "locale" in given:
            hidden.append(("locale", given["locale"]))
        return csrf.form_page(self, "device.html", values, theme, hidden, message=message)


class DeviceCompleteHandler(PageHandler):
    """The last page."""

    @page_endpoint(query="oauth2/device-complete.request.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the result."""
        given = self.parameters()
        client = await device_page.get_client(self.services, call, self.tenant_hints(tenant_id, given), given)
        theme = await page_theme.load(self, client.tenant, client.application, given)
        failure = given.get("error_reason", "") if "error" in given else None
        values = {
            "failure": None if failure is None else theme[_FAILURES.get(failure, "deviceComplete.refusedText")],
            "linked": await device_page.find_linked_provider_name(self.services, client, given.get("linked")),
            "again": _url(self, "device", client),
        }
        return render.form("device_complete.html", values, theme)


def _message(error: InvalidRequest) -> str:
    if isinstance(error, device_grants.TooManyCodesError):
        return "[RateLimitedException]"
    return "device.expired" if error.reason == "user_code_expired" else "device.invalid"


def _facts(theme: PageTheme, page: device_page.DevicePage) -> Iterator[tuple[str, str]]:
    """Return the details of the device as labels and values."""
    request = page.device.request
    yield theme["deviceApproval.code"], request.user_code
    for name in ("name", "description", "type"):
        if request.device.get(name):
            yield theme[f"deviceApproval.{name}"], request.device[name][:_MAXIMUM_LENGTH]
    yield theme["deviceApproval.address"], request.address
    if page.link:
        account = page.link.get("displayName") or page.link["identityProviderUserId"]
        yield theme["deviceApproval.link"], f"{account} ({page.link['identityProviderName']})"


def _choice(theme: PageTheme, application: Document, scope: str) -> render.ScopeChoice:
    if scope in _RESERVED:
        return render.ScopeChoice("", theme[_RESERVED[scope]], "")
    return consent.scope_choice(theme, application, scope)


def _url(handler: OAuth2Handler, page: str, client: clients.Client) -> str:
    query = {"client_id": client.presented_client_id, "tenantId": client.tenant_id}
    return f"{login.base_path(handler)}/{page}?{urllib.parse.urlencode(query)}"


ROUTES = tenant_routes(
    [
        ("/oauth2/device_authorize", DeviceAuthorizeHandler),
        ("/oauth2/device/user-code", UserCodeHandler),
        ("/oauth2/device/validate", ValidateHandler),
        ("/oauth2/device/approve", ApproveHandler),
        ("/oauth2/device", DeviceHandler),
        ("/oauth2/device-complete", DeviceCompleteHandler),
    ]
)
