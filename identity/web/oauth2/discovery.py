"""`/.well-known/`: provider metadata and key set, as prepared bytes that clients may cache for five minutes."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import InvalidRequest, NotFound
from identity.operations.api import discovery
from identity.operations.clients.clients import TenantHints
from identity.store.cache import stale_if_unavailable
from identity.web.base_handlers import Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Reply, oauth_endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler

_CONFIGURATION = "/.well-known/openid-configuration"
_METADATA = "/.well-known/oauth-authorization-server"
_KEYS = "/.well-known/jwks.json"
_PREPARED_KEYS = discovery.KeySetCache()


class ConfigurationHandler(OAuth2Handler):
    """The metadata of a tenant (OpenID Connect Discovery 4, RFC 8414 section 3)."""

    cross_origin = CrossOriginAccess.OPEN

    @oauth_endpoint(
        access=Access.PUBLIC,
        query="oauth2/discovery.request.json",
        answer={200: "oauth2/openid-configuration.response.json", 304: None},
    )
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Describe the provider. Raises InvalidRequest with status 404 for an unknown tenant."""
        given: Document = self.parameters()
        hints = TenantHints(tenant_id, given.get("tenantId"))
        try:
            with stale_if_unavailable():
                metadata = await discovery.configuration(self.services, hints, call.origin.base_url)
        except InvalidRequest as error:
            error.status = NotFound.status
            raise
        # Without `server.base_url`, URLs in the metadata depend on the Host header.
        has_base_url = self.services.config.server.base_url is not None
        return self.prepared_reply(metadata, "public, max-age=300" if has_base_url else "no-store")


class KeysHandler(OAuth2Handler):
    """The key set (RFC 7517 section 5)."""

    cross_origin = CrossOriginAccess.OPEN
    # A client that receives an unknown kid fetches the keys again (OpenID Connect Core 10.1.1). A shared cache must not
    # serve that request, because it would hide a new key.
    cache_control = "public, max-age=300, s-maxage=1"

    prepared_keys: discovery.KeySetCache

    @oauth_endpoint(access=Access.PUBLIC, answer={200: "oauth2/jwks.response.json", 304: None})
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Return the public keys of a tenant, or of all. Raises InvalidRequest, with status 404, as above."""
        try:
            with stale_if_unavailable():
                keys = await self.prepared_keys.get(self.services, TenantHints(tenant_id), call.now)
        except InvalidRequest as error:
            error.status = NotFound.status
            raise
        return self.prepared_reply(keys, self.cache_control)


ROUTES = [
    Route(_CONFIGURATION, ConfigurationHandler),
    Route(f"/{{tenant_id}}{_CONFIGURATION}", ConfigurationHandler),
    Route(_METADATA, ConfigurationHandler),
    Route(f"{_METADATA}/{{tenant_id}}", ConfigurationHandler),
    *(Route(prefix + _KEYS, KeysHandler, {"prepared_keys": _PREPARED_KEYS}) for prefix in ("", "/{tenant_id}")),
]
