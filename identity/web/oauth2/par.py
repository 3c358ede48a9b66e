"""`/oauth2/par`: pushed authorization requests (RFC 9126 section 2)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import OAuth2Error
from identity.operations.authorization import pushed_requests
from identity.operations.clients import oauth_debug
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler, tenant_routes


class PushedRequestHandler(OAuth2Handler):
    """The pushed authorization request endpoint."""

    accepts_dpop_proof = True

    @endpoint(
        access=Access.CLIENT,
        form="oauth2/par.request.json",
        tenancy=Tenancy.BY_OPERATION,
        answer={201: "oauth2/par.response.json"},
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Store an authorization request for a minute and return its request_uri."""
        identified = await self.identify_client(form, tenant_id)
        try:
            answer = await pushed_requests.push(self.services, call, identified, form, self.dpop_proof(call))
        except OAuth2Error as error:
            await oauth_debug.log_failure(self.services, call, identified.client, form, error, subject="request_uri")
            raise
        return Reply(answer, status=201, headers={"Pragma": "no-cache"})


ROUTES = tenant_routes([("/oauth2/par", PushedRequestHandler)])
