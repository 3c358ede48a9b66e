"""/api/identity-provider: providers, who manages a domain, and logins through them; /api/jwt/reconcile."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource
from identity.domain.providers.identity_providers import EXTERNAL_JWT
from identity.errors import Invalid
from identity.ids import parse_id
from identity.operations.providers import identity_providers as operations
from identity.operations.providers import provider_login
from identity.operations.two_factor import two_factor_trust
from identity.web.api.login import LOGIN_ANSWERS, LoginApiHandler
from identity.web.base_handlers import ApiHandler, Route
from identity.web.crud import CollectionHandler, ObjectHandler, ResourceHandler, SearchHandler
from identity.web.endpoint import Access, Reply, endpoint

_REQUEST = "api/identity-provider-login.request.json"
_REFUSED = {400: "api/errors.response.json"}


class ProviderFamily(ResourceHandler):
    """Shared by the paths of providers: what is shown depends on who asks."""

    resource: Resource = operations.RESOURCE

    def one(self, call: Call, provider: Document) -> Reply:
        """One provider in its wrapper."""
        return Reply({self.resource.name: operations.visible_to(self.services, call, provider)})

    def many(self, call: Call, providers: list[Document]) -> list[Document]:
        """Providers, each as its caller may see it."""
        return [operations.visible_to(self.services, call, provider) for provider in providers]


class ProvidersHandler(ProviderFamily, CollectionHandler):
    """Create with a random id, retrieve all or by type."""

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return self.one(call, await operations.create(self.services, call, body, None))

    @endpoint(access=Access.API_KEY, query={"type": "text"})
    async def get(self, call: Call) -> Reply:
        """Retrieve all, or those of one type."""
        found = await operations.retrieve_all(self.services, call, self.query().get("type") or None)
        return Reply({self.resource.plural: self.many(call, found)})


class ProviderHandler(ProviderFamily, ObjectHandler):
    """One provider."""

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return self.one(call, await operations.create(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return self.one(call, await operations.retrieve(self.services, call, object_id))

    @endpoint(access=Access.API_KEY, raw_body=True)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        return self.one(call, await operations.update(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return self.one(call, await operations.patch(self.services, call, kind, patch, object_id))

    @endpoint(access=Access.API_KEY)
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Remove the provider, and every link to it."""
        await operations.delete(self.services, call, object_id)
        return Reply()


class ProviderSearchHandler(ProviderFamily, SearchHandler):
    """Search among the providers that the caller may see."""

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """The answer to both forms."""
        total, providers = await operations.search(self.services, call, criteria, prefix)
        return Reply({"total": total, self.resource.plural: self.many(call, providers)})


class LookupHandler(ApiHandler):
    """Who manages a domain."""

    @endpoint(
        access=Access.PUBLIC,
        answer="api/identity-provider-lookup.response.json",
        query={"domain": "text", "tenantId": "uuid"},
    )
    async def get(self, call: Call) -> Reply:
        """By `?domain=`, a domain or an email address, and `&tenantId=`."""
        query = self.query()
        tenant = query.get("tenantId")
        if tenant and parse_id(tenant) is None:
            raise Invalid.field("couldNotConvert", "tenantId", "The [tenantId] parameter must be a UUID.")
        found = await operations.lookup(self.services, call, query.get("domain"), parse_id(tenant))
        return Reply({"identityProvider": found})


class StartHandler(ApiHandler):
    """Logins that begin here: of the types that need that, none is served."""

    @endpoint(access=Access.PUBLIC, raw_body=True, takes="api/identity-provider-start.request.json", answer=_REFUSED)
    async def post(self, call: Call, body: Document) -> Reply:
        """Refuse, saying why."""
        await provider_login.start(self.services, call, body)
        return Reply()


class ProviderLoginHandler(LoginApiHandler):
    """Log in with what a provider gave."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes=_REQUEST, answer=LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in."""
        trust_id = self.cookie(two_factor_trust.COOKIE)
        return self.answered(await provider_login.log_in(self.services, call, body, trust_id=trust_id))


class ReconcileHandler(LoginApiHandler):
    """The older form of a login with a JWT."""

    @endpoint(access=Access.RECOGNIZED_KEY, raw_body=True, takes=_REQUEST, answer=LOGIN_ANSWERS)
    async def post(self, call: Call, body: Document) -> Reply:
        """Log in through a provider of type ExternalJWT."""
        trust_id = self.cookie(two_factor_trust.COOKIE)
        return self.answered(
            await provider_login.log_in(self.services, call, body, only=EXTERNAL_JWT, trust_id=trust_id)
        )


ROUTES = [
    Route("/api/identity-provider/search", ProviderSearchHandler),
    Route("/api/identity-provider/lookup", LookupHandler),
    Route("/api/identity-provider/start", StartHandler),
    Route("/api/identity-provider/login", ProviderLoginHandler),
    Route("/api/identity-provider", ProvidersHandler),
    Route("/api/identity-provider/{object_id}", ProviderHandler),
    Route("/api/jwt/reconcile", ReconcileHandler),
]
