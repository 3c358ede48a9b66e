"""`/oauth2/revoke`: the end of a token before its time (RFC 7009)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.api import revocation
from identity.web.base_handlers import Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler


class RevokeHandler(OAuth2Handler):
    """The revocation endpoint."""

    @endpoint(access=Access.CLIENT, form="oauth2/revoke.request.json", tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """End a token of the client; the answer is empty, whatever there was to end."""
        client = await self.identified_any(form, tenant_id)
        await revocation.revoke(self.services, call, client, form)
        return Reply(headers={"Pragma": "no-cache"})


ROUTES = [Route("/oauth2/revoke", RevokeHandler), Route("/{tenant_id}/oauth2/revoke", RevokeHandler)]
