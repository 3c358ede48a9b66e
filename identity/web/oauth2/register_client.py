"""`/oauth2/register-client`: dynamic client registration and management (RFC 7591, RFC 7592)."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.operations.client_registration import registrations
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import NO_CACHE, OAuth2Handler, tenant_routes

_REQUEST: Final = "oauth2/client-registration.request.json"
_INFORMATION: Final = "oauth2/client-information.response.json"


class RegistrationEndpointHandler(OAuth2Handler):
    """The client registration endpoint."""

    @oauth_endpoint(access=Access.BEARER, raw_body=True, takes=_REQUEST, answer={201: _INFORMATION})
    async def post(self, call: Call, body: Document, tenant_id: str | None = None) -> Reply:
        """Register a client, with an initial access token as bearer token or a software statement in the body."""
        hints = self.tenant_hints(tenant_id, {})
        information = await registrations.create(self.services, call, hints, self.bearer_token(), body)
        return Reply(information, status=201, headers=NO_CACHE)


class ClientConfigurationHandler(OAuth2Handler):
    """The client configuration endpoint of one client; its registration access token is the bearer token."""

    @oauth_endpoint(access=Access.BEARER, answer=_INFORMATION)
    async def get(self, call: Call, client_id: str, tenant_id: str | None = None) -> Reply:
        """Return the registered metadata."""
        hints = self.tenant_hints(tenant_id, {})
        information = await registrations.retrieve(self.services, call, hints, client_id, self.bearer_token())
        return Reply(information, headers=NO_CACHE)

    @oauth_endpoint(access=Access.BEARER, raw_body=True, takes=_REQUEST, answer=_INFORMATION)
    async def put(self, call: Call, body: Document, client_id: str, tenant_id: str | None = None) -> Reply:
        """Replace the registered metadata; the response contains another registration access token."""
        hints = self.tenant_hints(tenant_id, {})
        information = await registrations.update(self.services, call, hints, client_id, self.bearer_token(), body)
        return Reply(information, headers=NO_CACHE)

    @oauth_endpoint(access=Access.BEARER, answer={204: None})
    async def delete(self, call: Call, client_id: str, tenant_id: str | None = None) -> Reply:
        """Delete the client; its tokens become invalid."""
        hints = self.tenant_hints(tenant_id, {})
        await registrations.delete(self.services, call, hints, client_id, self.bearer_token())
        return Reply(status=204)


ROUTES = tenant_routes(
    [
        (registrations.PATH, RegistrationEndpointHandler),
        (f"{registrations.PATH}/{{client_id}}", ClientConfigurationHandler),
    ]
)
