"""`/oauth2/introspect`: the introspection endpoint (RFC 7662)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.operations.api import introspection
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler, tenant_routes


class IntrospectHandler(OAuth2Handler):
    """The introspection endpoint."""

    @endpoint(
        access=Access.CLIENT,
        form="oauth2/introspect.request.json",
        tenancy=Tenancy.BY_OPERATION,
        answer="oauth2/introspect.response.json",
    )
    async def post(self, call: Call, form: Document, tenant_id: str | None = None) -> Reply:
        """Describe a token of the client."""
        form = introspection.with_client_id(form, self.request.headers.get("Authorization", ""))
        client = await self.identify_client_or_entity(form, tenant_id)
        answer = await introspection.introspect(self.services, call, client, form)
        return Reply(answer, headers={"Pragma": "no-cache"})


ROUTES = tenant_routes([("/oauth2/introspect", IntrospectHandler)])
