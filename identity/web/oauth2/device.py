"""Device grant endpoints for clients (RFC 8628): device authorization, and user codes for their activation pages.

The activation page of this service is in `hosted/device_pages.py`.
"""

from __future__ import annotations

from identity.call import ApiKeyCaller, Call, Document
from identity.errors import InvalidClient, InvalidRequest, ServiceError, Unauthorized
from identity.ids import TenantId
from identity.operations.authorization import device_authorization, device_codes, device_grants
from identity.operations.clients import client_authentication, clients
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.web import authentication
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import NO_CACHE, OAuth2Handler, tenant_routes


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
        identified = await self.identify_client(form, tenant_id)
        return Reply(await device_authorization.begin(self.services, call, identified, form), headers=NO_CACHE)

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
            identified = await self.identify_client(form, tenant_id)
            return Reply(
                await device_codes.describe_for_client(self.services, call, identified, form), headers=NO_CACHE
            )
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
        identified = await self.named_client(form, tenant_id)
        return Reply(await device_codes.approve(self.services, call, identified, form), headers=NO_CACHE)

    async def named_client(self, form: Document, tenant_id: str | None) -> IdentifiedClient:
        """Return the client. The official libraries also send an API key in the header, which is ignored here."""
        if self.request.headers.get("Authorization", "")[:6].lower() == "basic " or "client_id" not in form:
            return await self.identify_client(form, tenant_id)
        hints, base_url = self.tenant_hints(tenant_id, form), self.addresses.base_url(self.request)
        return await client_authentication.identify(self.services, "", form, hints, base_url)


ROUTES = tenant_routes(
    [
        ("/oauth2/device_authorize", DeviceAuthorizeHandler),
        ("/oauth2/device/user-code", UserCodeHandler),
        ("/oauth2/device/validate", ValidateHandler),
        ("/oauth2/device/approve", ApproveHandler),
    ]
)
