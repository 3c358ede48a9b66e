"""/api/identity-provider: providers, lookup by domain, logins through them, and links; /api/jwt/reconcile."""

from __future__ import annotations

from typing import ClassVar

from identity.call import Call, Document
from identity.domain.providers.identity_providers import EXTERNAL_JWT
from identity.operations.providers import connection_tests, provider_login, unlinking
from identity.operations.providers import identity_providers as operations
from identity.operations.users import identity_provider_links
from identity.web import crud
from identity.web.api.login import LOGIN_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Query, Reply, calls, endpoint

_REQUEST = "api/identity-provider-login.request.json"
_REFUSED = {400: "api/errors.response.json"}
_QUERY: Query = {"identityProviderId": "uuid", "identityProviderUserId": "text", "userId": "uuid"}
_CREATED = {200: "api/identity-provider-link.json#identityProviderLink", 409: None}


class ProvidersHandler(crud.CollectionHandler):
    """Create with a random id, retrieve all or by type."""

    @endpoint(access=Access.API_KEY, query={"type": "text"})
    async def get(self, call: Call) -> Reply:
        """Retrieve all, or those of one type."""
        found = await operations.retrieve_all(self.services, call, self.query().get("type") or None)
        return Reply({self.resource.plural: [await self.to_response(provider) for provider in found]})


class LookupHandler(ApiHandler):
    """The lookup of the provider of a domain."""

    @endpoint(
        access=Access.PUBLIC,
        answer="api/identity-provider-lookup.response.json",
        query={"domain": "text", "tenantId": "uuid"},
    )
    async def get(self, call: Call) -> Reply:
        """Look up by `?domain=`, a domain or an email address, and `&tenantId=`."""
        domain, tenant_id = self.query().get("domain"), self.query_id("tenantId")
        return Reply({"identityProvider": await operations.lookup(self.services, call, domain, tenant_id)})


class StartHandler(ApiHandler):
    """The start of logins, which no supported type of provider has."""

    post = calls(
        provider_login.start,
        "Refuse with the reason.",
        access=Access.PUBLIC,
        takes="api/identity-provider-start.request.json",
        answer=_REFUSED,
    )


class ConnectionTestHandler(ApiHandler):
    """Tests of the connection to a provider."""

    @endpoint(
        access=Access.API_KEY, answer="api/identity-provider-test.response.json", query={"connectionTestId": "text"}
    )
    async def get(self, call: Call) -> Reply:
        """Retrieve the result."""
        return Reply(await connection_tests.retrieve(self.services, call, self.query().get("connectionTestId")))

    post = calls(
        connection_tests.start,
        "Start a test.",
        takes="api/identity-provider-test.request.json",
        answer="api/identity-provider-test.response.json",
    )


class ProviderLoginHandler(LoginApiHandler):
    """Logins with the credentials of a provider."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes=_REQUEST, answer=LOGIN_ANSWERS | {204: None})
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in, or complete a connection test."""
        return self.respond(await provider_login.log_in(self.services, call, body, trust_id=self.trust_id))


class ReconcileHandler(LoginApiHandler):
    """The deprecated form of a login with a JWT."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes=_REQUEST, answer=LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in through a provider of type ExternalJWT."""
        return self.respond(
            await provider_login.log_in(self.services, call, body, only=EXTERNAL_JWT, trust_id=self.trust_id)
        )


class LinksHandler(ApiHandler):
    """Links, identified by provider, account and user."""

    @endpoint(access=Access.API_KEY, raw_body=True, takes="api/identity-provider-link.json", answer=_CREATED)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create, or complete a pending one."""
        link = await identity_provider_links.create(self.services, call, body)
        return Reply({"identityProviderLink": await identity_provider_links.to_response(self.services, call, link)})

    @endpoint(access=Access.API_KEY, answer="api/identity-provider-links.response.json", query=_QUERY)
    async def get(self, call: Call) -> Reply:
        """Retrieve one by its account, or those of a user."""
        return Reply(await identity_provider_links.retrieve(self.services, call, **self._identifiers()))

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
        return Reply(await identity_provider_links.retrieve_pending(self.services, call, pending_id, user_id))


ROUTES = [
    Route("/api/identity-provider/link", LinksHandler),
    Route("/api/identity-provider/link/pending/{pending_id}", PendingLinkHandler),
    Route("/api/identity-provider/lookup", LookupHandler),
    Route("/api/identity-provider/start", StartHandler),
    Route("/api/identity-provider/test", ConnectionTestHandler),
    Route("/api/identity-provider/login", ProviderLoginHandler),
    *crud.routes(operations.RESOURCE, collection=ProvidersHandler),
    Route("/api/jwt/reconcile", ReconcileHandler),
]
