"""`/oauth2/token`: grants for tokens (RFC 6749 section 3.2)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations import grants
from identity.operations.clients import oauth_debug
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.grants import client_credentials
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler


class TokenHandler(OAuth2Handler):
    """The token endpoint."""

    takes_proof = True

    @endpoint(
        access=Access.CLIENT,
        form="oauth2/token.request.json",
        tenancy=Tenancy.BY_OPERATION,
        answer="oauth2/token.response.json",
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Exchange a grant."""
        if form.get("grant_type") == client_credentials.grant_type:
            client = await self.identified_entity(form, tenant_id)
            if client is not None:
                answer = await client_credentials.exchange(self.services, call, client, form, self.proof(call))
                return Reply(answer, headers={"Pragma": "no-cache"})
        identified = await self.identified(form, tenant_id)
        try:
            return await self.exchanged(call, identified, form)
        except OAuth2Error as error:
            await oauth_debug.log_failure(self.services, call, identified.client, form, error)
            raise

    async def exchanged(self, call: Call, identified: IdentifiedClient, form: Document) -> Reply:
        """The token response."""
        if original := self.cookie("access_token"):
            form = {**form, "access_token": original}
        answer = await grants.exchange(self.services, call, identified, form, self.proof(call))
        return Reply(answer, headers={"Pragma": "no-cache"})


ROUTES = [Route("/oauth2/token", TokenHandler), Route("/{tenant_id}/oauth2/token", TokenHandler)]
