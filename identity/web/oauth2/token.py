"""`/oauth2/token`, `/oauth2/introspect` and `/oauth2/revoke` (RFC 6749 section 3.2, RFC 7662, RFC 7009)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations import grants
from identity.operations.api import introspection, revocation
from identity.operations.clients import oauth_debug
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.grants import refresh_token
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import NO_CACHE, OAuth2Handler, tenant_routes


class TokenHandler(OAuth2Handler):
    """The token endpoint."""

    accepts_dpop_proof = True
    records_refusals = True

    @oauth_endpoint(access=Access.CLIENT, form="oauth2/token.request.json", answer="oauth2/token.response.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Exchange a grant for tokens."""
        count = self.services.runtime.authentication_metrics.count_token_request
        try:
            response = await self.exchange(call, form, tenant_id)
        except OAuth2Error as error:
            count(grants.metric_label(form), error.error)
            raise
        count(grants.metric_label(form), "issued")
        return Reply(response, headers=NO_CACHE)

    async def exchange(self, call: Call, form: Document, tenant_id: str | None) -> Document:
        """Return the token response. Raises OAuth2Error, which the event log records where the client enables it."""
        client = await grants.identify(self.services, *self.client_parameters(form, tenant_id))
        if original := self.cookie("access_token"):
            form = {**form, "access_token": original}
        try:
            return await grants.exchange(self.services, call, client, form, self.dpop_proof(call))
        except OAuth2Error as error:
            if isinstance(client, IdentifiedClient):
                await oauth_debug.log_failure(self.services, call, client.client, form, error)
            raise


class IntrospectHandler(OAuth2Handler):
    """The introspection endpoint."""

    @oauth_endpoint(
        access=Access.CLIENT, form="oauth2/introspect.request.json", answer="oauth2/introspect.response.json"
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Describe a token of the client."""
        form = introspection.with_client_id(form, self.request.headers.get("Authorization", ""))
        client = await self.authenticate_client_or_entity("introspection", form, tenant_id)
        answer = await introspection.introspect(self.services, call, client, form)
        return Reply(answer, headers=NO_CACHE)


class RevokeHandler(OAuth2Handler):
    """The revocation endpoint."""

    @oauth_endpoint(access=Access.CLIENT, form="oauth2/revoke.request.json")
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Revoke a token of the client; the response is empty, also for an unknown token."""
        client = await self.authenticate_client_or_entity(refresh_token.grant_type, form, tenant_id)
        await revocation.revoke(self.services, call, client, form)
        return Reply(headers=NO_CACHE)


ROUTES = tenant_routes(
    [("/oauth2/token", TokenHandler), ("/oauth2/introspect", IntrospectHandler), ("/oauth2/revoke", RevokeHandler)]
)
