"""Provider metadata (OpenID Connect Discovery 3, RFC 8414) and public keys (RFC 7517)."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

import orjson
from cachetools import LRUCache

from identity.call import Document
from identity.domain.authorization import client_authentication, jwt_claims
from identity.domain.configuration import feature_settings, key_rotation
from identity.domain.configuration.token_settings import ACCESS_MEMBER
from identity.domain.objects import catalogues
from identity.domain.objects.data_files import load_yaml
from identity.ids import fingerprint
from identity.instants import Instant
from identity.operations import grants
from identity.operations.client_registration import registrations
from identity.operations.clients import clients
from identity.operations.clients.clients import TenantHints
from identity.operations.configuration import published_keys
from identity.operations.configuration.published_keys import KeySources
from identity.operations.entities import entity_types
from identity.operations.grants import client_credentials
from identity.operations.objects import features
from identity.services import Services
from identity.tokens import dpop, external_keys, jwks, signing_keys

DPOP_ALGORITHMS: Final = " ".join(sorted(dpop.ALGORITHMS))
"""The algorithms of DPoP proofs, as challenges list them (RFC 9449 section 7.1)."""

_CLIENT_AUTHENTICATION: Final = list(client_authentication.METHODS)
_CLIENT_ALGORITHMS: Final = sorted({*signing_keys.SECRET_ALGORITHMS, *external_keys.ALGORITHMS})
_MAX_CACHED_SETS: Final = 1000
_MAX_CACHED_KEYS: Final = 10_000
_AUTHENTICATED: Final = ("introspection", "revocation", "token")
"""The endpoints with client authentication."""
_ALIASED: Final = (
    "device_authorization_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
    "revocation_endpoint",
    "token_endpoint",
    "userinfo_endpoint",
)
"""The endpoints that read client certificates."""
_RESPONSE_TYPES: Final = ["code", "id_token", "token id_token"]
_HYBRID_TYPES: Final = ["code id_token", "code token", "code id_token token"]
_WITH_OPTIONS: Final = {
    "active": True,
    "$or": [
        {"oauthConfiguration.hybridResponseTypesEnabled": True},
        {"oauthConfiguration.authenticationContextClass": {"$exists": True}},
        {"oauthConfiguration.stepUpConfiguration": {"$exists": True}},
    ],
}
"""The applications that the metadata of their tenant depends on."""


_PATHS: Final = {
    "authorization_endpoint": "/oauth2/authorize",
    "device_authorization_endpoint": "/oauth2/device_authorize",
    "end_session_endpoint": "/oauth2/logout",
    "introspection_endpoint": "/oauth2/introspect",
    "jwks_uri": "/.well-known/jwks.json",
    "pushed_authorization_request_endpoint": "/oauth2/par",
    "revocation_endpoint": "/oauth2/revoke",
    "token_endpoint": "/oauth2/token",
    "userinfo_endpoint": "/oauth2/userinfo",
}
_CONSTANT: Final[Document] = {
    **load_yaml(__file__, "provider_metadata.yaml"),
    "claims_supported": jwt_claims.CLAIMS_SUPPORTED,
    "dpop_signing_alg_values_supported": sorted(dpop.ALGORITHMS),
    "request_object_signing_alg_values_supported": _CLIENT_ALGORITHMS,
    "ui_locales_supported": sorted(catalogues.LANGUAGES),
    **{f"{name}_endpoint_auth_methods_supported": _CLIENT_AUTHENTICATION for name in _AUTHENTICATED},
    **{f"{name}_endpoint_auth_signing_alg_values_supported": _CLIENT_ALGORITHMS for name in _AUTHENTICATED},
}
"""The metadata of every tenant."""


class KeySetCache:
    """The key sets as bytes; a set is built again after a change of its sources, and each key is converted once."""

    def __init__(self) -> None:
        self._jwks: LRUCache[tuple[str, str], Document] = LRUCache(_MAX_CACHED_KEYS)
        self._sets: collections.OrderedDict[str, _CachedKeySet] = collections.OrderedDict()

    async def get(self, services: Services, hints: TenantHints, now: Instant) -> JsonDocument:
        """Return the public keys of a tenant, or of all without one. Raises InvalidRequest for an unknown tenant."""
        tenant = await clients.find_named_tenant(services, hints)
        name = "" if tenant is None else tenant["id"]
        cached = self._sets.get(name)
        sources = await published_keys.find_sources(services, tenant, cached.sources if cached is not None else None)
        if cached is None or not cached.is_current(sources, now):
            cached = self._build(sources, now)
            self._sets[name] = cached
            while len(self._sets) > _MAX_CACHED_SETS:
                self._sets.popitem(last=False)
        self._sets.move_to_end(name)
        return cached.document

    def _build(self, sources: KeySources, now: Instant) -> _CachedKeySet:
        keys, until = published_keys.select_published(sources, now)
        # The material of a key never changes. If its id is reused, the kid differs.
        published = {(key["id"], key["kid"]): key for key in keys}
        return _CachedKeySet(sources, until, JsonDocument({"keys": [self._jwk(*one) for one in published.items()]}))

    def _jwk(self, key_id: tuple[str, str], key: Document) -> Document:
        jwk = self._jwks.get(key_id)
        if jwk is None:
            jwk = self._jwks[key_id] = jwks.to_jwk(key)
        return jwk


class JsonDocument:
    """A JSON document as bytes, with its ETag."""

    def __init__(self, document: Document) -> None:
        self.body = orjson.dumps(document)
        self.etag = f'"{fingerprint(self.body.decode())}"'


@dataclasses.dataclass(frozen=True, slots=True)
class _CachedKeySet:
    sources: KeySources
    until: Instant | None
    document: JsonDocument

    def is_current(self, sources: KeySources, now: Instant) -> bool:
        """Return whether the set has these sources, and all its keys are still published."""
        return self.sources.is_same(sources) and (self.until is None or now < self.until)


async def prefetch_key_set(services: Services, hints: TenantHints) -> None:
    """Read the sources of a tenant's key set into the caches. Raises InvalidRequest for an unknown tenant."""
    await published_keys.find_sources(services, await clients.find_named_tenant(services, hints))


async def public_pems(services: Services, now: Instant) -> dict[str, str]:
    """Return the keys of all tenants as PEM, by their kid."""
    keys, _ = published_keys.select_published(await published_keys.find_sources(services, None), now)
    return {key["kid"]: key["publicKey"] for key in keys}


async def signing_kid(services: Services, application_id: str, now: Instant) -> str | None:
    """Return the kid of the key that signs access tokens of an application; None for an inactive application."""
    client = await clients.client_finder(services)(application_id)
    if client is None:
        return None
    key = await services.configuration.keys.find_cached(None, key_rotation.signing_key(*client, ACCESS_MEMBER, now))
    kid: str | None = None if key is None else key.get("kid")
    return kid


async def configuration(services: Services, hints: TenantHints, base_url: str) -> JsonDocument:
    """Return the metadata of a tenant, or of the default tenant. Raises InvalidRequest for an unknown tenant."""
    named = await clients.find_named_tenant(services, hints)
    tenant = named or await clients.get_default_tenant(services)
    applications = await services.configuration.applications.list_cached(tenant["id"], "metadata", _WITH_OPTIONS)
    options = [application["oauthConfiguration"] for application in applications]
    grant_types = {*(name for name in grants.GRANTS if grants.is_supported(services, name)), "implicit"}
    if features.off(services, [entity_types.FEATURE]):
        grant_types.discard(client_credentials.grant_type)
    document = _metadata(tenant, base_url, options, grant_types)
    if features.off(services, [feature_settings.DPOP]):
        del document["dpop_signing_alg_values_supported"]
    if registrations.is_enabled(services, tenant):
        prefix = base_url if named is None else f"{base_url}/{named['id']}"
        document["registration_endpoint"] = prefix + registrations.PATH
    if services.config.mutual_tls.enabled:
        document |= _mutual_tls_metadata(services, base_url)
    if named is not None:
        document["jwks_uri"] = f"{base_url}/{named['id']}{_PATHS['jwks_uri']}"
    return JsonDocument(dict(sorted(document.items())))


def _mutual_tls_metadata(services: Services, base_url: str) -> Document:
    """Return the members of RFC 8705: authentication methods, and the endpoints that request certificates."""
    settings = services.config.mutual_tls
    certificates = set(client_authentication.CERTIFICATES)
    if settings.authorities_file is None:
        certificates.discard(client_authentication.PKI_CERTIFICATE)
    methods = [*_CLIENT_AUTHENTICATION, *sorted(certificates)]
    aliased = settings.alias or base_url
    return {
        **{f"{name}_endpoint_auth_methods_supported": methods for name in _AUTHENTICATED},
        "mtls_endpoint_aliases": {name: aliased + _PATHS[name] for name in _ALIASED},
        "tls_client_certificate_bound_access_tokens": True,
    }


def _metadata(tenant: Document, base_url: str, options: Sequence[Document], grant_types: Iterable[str]) -> Document:
    """Return the provider metadata.

    `options` are the oauthConfigurations of the applications with options that are published only if an application
    of the tenant uses them (docs/decisions/0027).
    """
    has_hybrid = any(oauth.get("hybridResponseTypesEnabled") for oauth in options)
    classes = {oauth["authenticationContextClass"] for oauth in options if "authenticationContextClass" in oauth}
    classes |= {oauth["stepUpConfiguration"]["contextClass"] for oauth in options if "stepUpConfiguration" in oauth}
    document: Document = {
        **_CONSTANT,
        **{name: base_url + path for name, path in _PATHS.items()},
        "grant_types_supported": sorted(grant_types),
        "issuer": tenant["issuer"],
        "response_types_supported": [*_RESPONSE_TYPES, *(_HYBRID_TYPES if has_hybrid else ())],
    }
    if classes:
        document["acr_values_supported"] = sorted(classes)
    return document
