"""/api/identity-provider: providers, lookup by domain, and logins through them; /api/jwt/reconcile."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.providers.identity_providers import EXTERNAL_JWT
from identity.operations.providers import connection_tests, provider_login
from identity.operations.providers import identity_providers as operations
from identity.operations.two_factor import two_factor_trust
from identity.web import crud
from identity.web.api.login import LOGIN_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, calls, endpoint

_REQUEST = "api/identity-provider-login.request.json"
_REFUSED = {400: "api/errors.response.json"}


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
        trust_id = self.cookie(two_factor_trust.COOKIE)
        return self.respond(await provider_login.log_in(self.services, call, body, trust_id=trust_id))


class ReconcileHandler(LoginApiHandler):
    """The deprecated form of a login with a JWT."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes=_REQUEST, answer=LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in through a provider of type ExternalJWT."""
        trust_id = self.cookie(two_factor_trust.COOKIE)
        return self.respond(
            await provider_login.log_in(self.services, call, body, only=EXTERNAL_JWT, trust_id=trust_id)
        )


ROUTES = [
    Route("/api/identity-provider/lookup", LookupHandler),
    Route("/api/identity-provider/start", StartHandler),
    Route("/api/identity-provider/test", ConnectionTestHandler),
    Route("/api/identity-provider/login", ProviderLoginHandler),
    *crud.routes(operations.RESOURCE, collection=ProvidersHandler),
    Route("/api/jwt/reconcile", ReconcileHandler),
]
