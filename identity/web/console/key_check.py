"""`/admin/api-keys/<id>/check`: whether a key would be allowed to make a call, and if not, why."""

from __future__ import annotations

from typing import Final

from identity import permissions
from identity.call import Call, Document
from identity.permissions import KEY_MANAGER_ENDPOINT, endpoint_of
from identity.web.base_handlers import Route
from identity.web.console.resource_handlers import ResourceHandler
from identity.web.endpoint import Access, Reply, Tenancy, endpoint

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class CheckHandler(ResourceHandler):
    """The answer for one method and path."""

    slug = "api-keys"
    section = "api-keys"

    @endpoint(access=Access.BROWSER, tenancy=Tenancy.BY_OPERATION, answer="text/html")
    async def get(self, call: Call, object_id: str) -> Reply:
        """Show the form, and the answer for what was submitted."""
        document = await self.load(object_id)
        method, path = self.parameter("method", "GET"), self.parameter("path").strip()
        reason = self.reason(call, document, method, path) if path else None
        return self.object_page(
            "key_check.html", document, "Check", methods=_METHODS, method=method, path=path, reason=reason
        )

    def reason(self, call: Call, api_key: Document, method: str, path: str) -> str:
        """Return why a call is refused; empty if it is allowed."""
        endpoint_name = self.endpoint_of_path(path)
        if endpoint_name is None:
            return "The API has no such path."
        if endpoint_name.startswith(KEY_MANAGER_ENDPOINT):
            return "" if api_key.get("keyManager") else "Only a key manager may use this path."
        if method not in permissions.ENDPOINTS.get(endpoint_name, ()):
            return f"The API has no method {method} at {endpoint_name}, or it requires no API key."
        if (expires := api_key.get("expirationInstant")) is not None and expires <= call.now:
            return "The key has expired."
        if api_key.get("tenantId") is not None and permissions.is_global_only(endpoint_name, method):
            return "This call requires a key for all tenants, and the key is limited to one."
        granted = api_key["permissions"].get("endpoints", {})
        if not permissions.may_call(granted, endpoint_name, method):
            return f"The permission {method} {endpoint_name} is not selected."
        return ""

    def endpoint_of_path(self, path: str) -> str | None:
        """Return the endpoint that a path, with or without ids, belongs to."""
        steps = path.partition("?")[0].rstrip("/").split("/")
        known = {*permissions.ENDPOINTS, KEY_MANAGER_ENDPOINT, f"{KEY_MANAGER_ENDPOINT}/search"}
        literal = endpoint_of("/".join(steps))
        if literal in known:
            return literal
        words = [step for step in steps if step and not any(character.isdigit() for character in step)]
        found = "/" + "/".join(words)
        return found if found in known else None


ROUTES = [Route("/admin/api-keys/{object_id}/check", CheckHandler)]
