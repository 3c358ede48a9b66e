"""`/oauth2/token`: the token endpoint (RFC 6749 section 3.2)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations import grants
from identity.operations.clients import oauth_debug
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler, tenant_routes


class TokenHandler(OAuth2Handler):
    """The token endpoint."""

    accepts_dpop_proof = True

    @endpoint(
        access=Access.CLIENT,
        form="oauth2/token.request.json",
        tenancy=Tenancy.BY_OPERATION,
        answer="oauth2/token.response.json",
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Exchange a grant for tokens."""
        client = await grants.identify(self.services, *self.client_parameters(form, tenant_id))
        if original := self.cookie("access_token"):
            form = {**form, "access_token": original}
        try:
            response = await grants.exchange(self.services, call, client, form, self.dpop_proof(call))
        except OAuth2Error as error:
            if isinstance(client, IdentifiedClient):
                await oauth_debug.log_failure(self.services, call, client.client, form, error)
            raise
        return Reply(response, headers={"Pragma": "no-cache"})


ROUTES = tenant_routes([("/oauth2/token", TokenHandler)])
