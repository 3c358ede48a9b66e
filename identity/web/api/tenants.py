"""/api/tenant."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid, Unauthorized
from identity.ids import TenantId
from identity.operations.configuration import tenants as operations
from identity.operations.objects import crud
from identity.web.base_handlers import Route
from identity.web.crud import ResourceHandler, SearchHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_DELETE: Final = "api/tenant-delete.request.json"


class TenantFamily(ResourceHandler):
    """Shared by the paths of tenants. The tenant header does not matter here: the path names the tenant."""

    resource: Resource = operations.RESOURCE


class TenantsHandler(TenantFamily):
    """Create with a random id, retrieve all."""

    @endpoint(access=Access.API_KEY, raw_body=True, tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call, body: Document) -> Reply:
        """Create."""
        return self.shown(await operations.create(self.services, call, body, None))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call) -> Reply:
        """Retrieve all."""
        return await self.all(operations.retrieve_each(self.services, call))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer={})
    async def put(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer={})
    async def patch(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION, answer={})
    async def delete(self, call: Call) -> Reply:
        """Refuse: the id is missing."""
        raise missing_id()


class TenantHandler(TenantFamily):
    """One tenant."""

    @endpoint(access=Access.API_KEY, raw_body=True, tenancy=Tenancy.BY_OPERATION)
    async def post(self, call: Call, object_id: str, body: Document) -> Reply:
        """Create."""
        return self.shown(await operations.create(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def get(self, call: Call, object_id: str) -> Reply:
        """Retrieve."""
        return self.shown(await operations.retrieve(self.services, call, object_id))

    @endpoint(access=Access.API_KEY, raw_body=True, tenancy=Tenancy.BY_OPERATION)
    async def put(self, call: Call, object_id: str, body: Document) -> Reply:
        """Replace."""
        return self.shown(await operations.update(self.services, call, body, object_id))

    @endpoint(access=Access.API_KEY, tenancy=Tenancy.BY_OPERATION)
    async def patch(self, call: Call, object_id: str) -> Reply:
        """Change parts."""
        kind, patch = self.patch_body()
        return self.shown(await operations.patch(self.services, call, kind, patch, object_id))

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.BY_OPERATION,
        query={"async": "boolean"},
        takes=_DELETE,
        answer={200: None, 202: None},
    )
    async def delete(self, call: Call, object_id: str) -> Reply:
        """Remove the tenant and all that is its: at once, or with `async` after answering 202."""
        request = self.services.schemas[_DELETE].read(self.optional_body())
        is_async = self.is_asked("async", request)
        await operations.delete(self.services, call, object_id)
        if is_async:
            return Reply(status=202)
        await operations.finish_deletion(self.services, TenantId(object_id))
        return Reply()


class TenantSearchHandler(SearchHandler):
    """Search, for global keys that name no tenant."""

    resource: Resource = operations.RESOURCE

    async def found(self, call: Call, criteria: Document, prefix: str) -> Reply:
        """The answer to both forms. Raises Unauthorized for a search that names a tenant: it would find that alone."""
        if self.request.headers.get("X-FusionAuth-TenantId"):
            raise Unauthorized(log_detail="search of tenants with a tenant header")
        return await super().found(call, criteria, prefix)


class PasswordRulesHandler(TenantFamily):
    """What a password must be like, for whoever shows a form for one."""

    @endpoint(access=Access.PUBLIC, answer="api/password-validation-rules.response.json")
    async def get(self, call: Call, object_id: str | None = None) -> Reply:
        """The rules of the tenant in the path, else of the header's, else of the only one."""
        tenant = await self.services.tenants.get(None, object_id or crud.require_tenant(call))
        return Reply({"passwordValidationRules": tenant["passwordValidationRules"]})


def missing_id() -> Invalid:
    """The error of a verb that needs an id in the path."""
    return Invalid.field("missing", "tenantId", "You must specify the [tenantId] in the path.")


ROUTES = [
    Route("/api/tenant/password-validation-rules", PasswordRulesHandler),
    Route("/api/tenant/password-validation-rules/{object_id}", PasswordRulesHandler),
    Route("/api/tenant/search", TenantSearchHandler),
    Route("/api/tenant", TenantsHandler),
    Route("/api/tenant/{object_id}", TenantHandler),
]
