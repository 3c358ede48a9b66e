"""`/oauth2/revoke`: the revocation endpoint (RFC 7009)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.api import revocation
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler, tenant_routes


class RevokeHandler(OAuth2Handler):
    """The revocation endpoint."""

    @endpoint(access=Access.CLIENT, form="oauth2/revoke.request.json", tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Revoke a token of the client; the response is empty, also for an unknown token."""
        client = await self.identify_client_or_entity(form, tenant_id)
        await revocation.revoke(self.services, call, client, form)
        return Reply(headers={"Pragma": "no-cache"})


ROUTES = tenant_routes([("/oauth2/revoke", RevokeHandler)])
