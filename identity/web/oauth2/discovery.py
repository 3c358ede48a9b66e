"""`/.well-known/`: provider metadata and key set, as prepared bytes that clients may keep for five minutes."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import InvalidRequest, NotFound
from identity.operations.api import discovery
from identity.operations.clients.clients import TenantHints
from identity.store.cache import stale_if_unavailable
from identity.web import cross_origin
from identity.web.base_handlers import Route
from identity.web.cross_origin import CrossOriginAccess
from identity.web.endpoint import Access, Reply, Tenancy, endpoint
from identity.web.oauth2.oauth_handlers import OAuth2Handler

_REQUEST = "oauth2/discovery.request.json"


class _PreparedHandler(OAuth2Handler):
    cache_control = "public, max-age=300"
    cross_origin = CrossOriginAccess.OPEN

    def caching(self) -> str:
        """The Cache-Control header."""
        return self.cache_control

    def shown(self, prepared: discovery.JsonDocument) -> Reply:
        """The document, or 304 to a client that has it."""
        headers = {"Cache-Control": self.caching(), "ETag": prepared.etag, **cross_origin.OPEN_HEADERS}
        if prepared.etag in self.request.headers.get("If-None-Match", ""):
            return Reply(status=304, headers=headers)
        return Reply(prepared.body, headers={**headers, "Content-Type": "application/json"})


class ConfigurationHandler(_PreparedHandler):
    """The metadata of a tenant (OpenID Connect Discovery 4, RFC 8414 section 3)."""

    def caching(self) -> str:
        """Without `server.base_url` the addresses come from the Host header, and no cache may keep them for others."""
        return super().caching() if self.services.config.server.base_url is not None else "no-store"

    @endpoint(
        access=Access.PUBLIC,
        query=_REQUEST,
        tenancy=Tenancy.BY_OPERATION,
        answer={200: "oauth2/openid-configuration.response.json", 304: None},
    )
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Describe the provider. Raises InvalidRequest, answered with 404, for a tenant that does not exist."""
        given: Document = self.parameters(_REQUEST)
        hints = TenantHints(tenant_id, given.get("tenantId"))
        try:
            with stale_if_unavailable():
                return self.shown(await discovery.configuration(self.services, hints, call.origin.base_url))
        except InvalidRequest as error:
            error.status = NotFound.status
            raise


class KeysHandler(_PreparedHandler):
    """The key set (RFC 7517 section 5)."""

    # A client that meets a kid it does not know asks again (OpenID Connect Core 10.1.1). A proxy in between must not
    # answer that from memory, or it would hide a key that signs already.
    cache_control = "public, max-age=300, s-maxage=1"

    prepared_keys: discovery.KeySetCache

    @endpoint(
        access=Access.PUBLIC,
        tenancy=Tenancy.BY_OPERATION,
        answer={200: "oauth2/jwks.response.json", 304: None},
    )
    async def get(self, call: Call, tenant_id: str | None = None) -> Reply:
        """Show the public keys of a tenant, or of all. Raises InvalidRequest, answered with 404, as above."""
        try:
            with stale_if_unavailable():
                return self.shown(await self.prepared_keys.get(self.services, TenantHints(tenant_id), call.now))
        except InvalidRequest as error:
            error.status = NotFound.status
            raise


_CONFIGURATION = "/.well-known/openid-configuration"
_METADATA = "/.well-known/oauth-authorization-server"
_KEYS = "/.well-known/jwks.json"
_PREPARED_KEYS = discovery.KeySetCache()

ROUTES = [
    Route(_CONFIGURATION, ConfigurationHandler),
    Route(f"/{{tenant_id}}{_CONFIGURATION}", ConfigurationHandler),
    Route(_METADATA, ConfigurationHandler),
    Route(f"{_METADATA}/{{tenant_id}}", ConfigurationHandler),
    *(Route(prefix + _KEYS, KeysHandler, {"prepared_keys": _PREPARED_KEYS}) for prefix in ("", "/{tenant_id}")),
]
