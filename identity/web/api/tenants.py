"""/api/tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.errors import Unauthorized
from identity.ids import TenantId
from identity.operations.configuration import tenants as operations
from identity.web import crud
from identity.web.base_handlers import ApiHandler, Route
from identity.web.endpoint import Access, Reply, Tenancy, endpoint


class TenantsHandler(crud.CollectionHandler, tenancy=Tenancy.BY_OPERATION):
    """Create with a random id, retrieve all. The tenant header has no effect: the path names the tenant."""


class TenantHandler(crud.ObjectHandler, tenancy=Tenancy.BY_OPERATION):
    """One tenant."""

    @endpoint(
        access=Access.API_KEY,
        tenancy=Tenancy.BY_OPERATION,
        query={"async": "boolean"},
        body="api/tenant-delete.request.json",
        body_required=False,
        answer={200: None, 202: None},
    )
    async def delete(self, call: Call, object_id: str, body: Document) -> Reply:
        """Delete the tenant and its objects, with `async` after responding with 202."""
        is_async = self.is_flag_set("async", body)
        await operations.delete(self.services, call, object_id)
        if is_async:
            return Reply(status=202)
        await operations.finish_deletion(self.services, TenantId(object_id))
        return Reply()


class TenantSearchHandler(crud.SearchHandler):
    """Search, for global keys that name no tenant."""

    async def search(self, call: Call, criteria: Mapping[str, Any], prefix: str) -> Reply:
        """Search by criteria. Raises Unauthorized where the request names a tenant, which would be the only result."""
        if self.request.headers.get("X-FusionAuth-TenantId"):
            raise Unauthorized(log_detail="search of tenants with a tenant header")
        return await super().search(call, criteria, prefix)


class PasswordRulesHandler(ApiHandler):
    """The rules for passwords, for forms that ask for one."""

    @endpoint(access=Access.PUBLIC, answer="api/password-validation-rules.response.json")
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Retrieve the rules of the tenant in the path, or else of the call."""
        rules = await operations.retrieve_password_rules(self.services, call, tenant_id)
        return Reply({"passwordValidationRules": rules})


ROUTES = [
    Route("/api/tenant/password-validation-rules", PasswordRulesHandler),
    Route("/api/tenant/password-validation-rules/{tenant_id}", PasswordRulesHandler),
    *crud.routes(operations.RESOURCE, collection=TenantsHandler, item=TenantHandler, search=TenantSearchHandler),
]
