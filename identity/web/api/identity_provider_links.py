"""/api/identity-provider/link: links between accounts at providers and users, and pending links."""

from __future__ import annotations

from typing import ClassVar

from identity.call import Call, Document
from identity.operations.providers import unlinking
from identity.operations.users import identity_provider_links as operations
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, endpoint

_QUERY: Query = {"identityProviderId": "uuid", "identityProviderUserId": "text", "userId": "uuid"}


_CREATED = {200: "api/identity-provider-link.json#identityProviderLink", 409: None}


class LinksHandler(ApiHandler):
    """Links, identified by provider, account and user."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/identity-provider-link.json", answer=_CREATED)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create, or complete a pending one."""
        link = await operations.create(self.services, call, body)
        return Reply({"identityProviderLink": await operations.to_response(self.services, call, link)})

    @endpoint(access=Access.API_KEY, answer="api/identity-provider-links.response.json", query=_QUERY)
    async def get(self, call: Call) -> Reply:
        """Retrieve one by its account, or those of a user."""
        return Reply(await operations.retrieve(self.services, call, **self._identifiers()))

    @endpoint(access=Access.API_KEY, query=_QUERY)
    async def delete(self, call: Call) -> Reply:
        """Delete one, and have its token revoked."""
        await unlinking.unlink(self.services, call, **self._identifiers())
        return Reply()

    def _identifiers(self) -> dict[str, str | None]:
        """Return the identifiers of a link in the query. Raises Invalid."""
        return {
            "provider_id": self.query_id("identityProviderId"),
            "account": self.query().get("identityProviderUserId"),
            "user_id": self.query_id("userId"),
        }


class PendingLinkHandler(ApiHandler):
    """A pending link of a login."""

    uuid_paths: ClassVar[bool] = False

    @endpoint(access=Access.API_KEY, answer="api/pending-idp-link.response.json", query={"userId": "uuid"})
    async def get(self, call: Call, pending_id: str) -> Reply:
        """Retrieve, optionally for the user of `?userId=`."""
        user_id = self.query_id("userId")
        return Reply(await operations.retrieve_pending(self.services, call, pending_id, user_id))


ROUTES = [
    Route("/api/identity-provider/link", LinksHandler),
    Route("/api/identity-provider/link/pending/{pending_id}", PendingLinkHandler),
]
