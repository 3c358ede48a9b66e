"""What clients discover: the metadata of the provider (OpenID Connect Discovery 3, RFC 8414), its keys (RFC 7517)."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from identity.call import Document
from identity.domain.authorization import client_authentication, jwt_claims
from identity.domain.configuration import feature_settings, key_rotation
from identity.domain.objects import catalogues
from identity.ids import fingerprint
from identity.instants import Instant
from identity.operations import grants
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
"""What a proof of possession may be signed with, as challenges name it (RFC 9449 section 7.1)."""

_CLIENT_AUTHENTICATION: Final = list(client_authentication.METHODS)
_CLIENT_ALGORITHMS: Final = sorted({*signing_keys.SECRET_ALGORITHMS, *external_keys.CLIENT_ALGORITHMS})
_KEPT_SETS: Final = 1000
_RESPONSE_TYPES: Final = ["code", "id_token", "token id_token"]
_HYBRID_TYPES: Final = ["code id_token", "code token", "code id_token token"]
_WITH_OPTIONS: Final = {
    "active": True,
    "$or": [
        {"oauthConfiguration.hybridResponseTypesEnabled": True},
        {"oauthConfiguration.authenticationContextClass": {"$exists": True}},
    ],
}
"""The applications that make a difference to the metadata of their tenant."""

_ALGORITHMS: Final = ["ES256", "ES384", "ES512", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512"]


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
_OF_EVERY_TENANT: Final[Document] = {
    "authorization_response_iss_parameter_supported": True,
    "backchannel_logout_session_supported": True,
    "backchannel_logout_supported": True,
    "claims_parameter_supported": True,
    "claims_supported": list(jwt_claims.CLAIMS_SUPPORTED),
    "code_challenge_methods_supported": ["S256"],
    "dpop_signing_alg_values_supported": sorted(dpop.ALGORITHMS),
    "frontchannel_logout_session_supported": True,
    "frontchannel_logout_supported": True,
    "id_token_signing_alg_values_supported": _ALGORITHMS,
    "introspection_endpoint_auth_methods_supported": _CLIENT_AUTHENTICATION,
    "introspection_endpoint_auth_signing_alg_values_supported": _CLIENT_ALGORITHMS,
    "prompt_values_supported": ["none", "login", "consent"],
    "request_object_signing_alg_values_supported": _CLIENT_ALGORITHMS,
    "request_parameter_supported": True,
    "request_uri_parameter_supported": False,
    "require_pushed_authorization_requests": False,
    "require_request_uri_registration": False,
    "require_signed_request_object": False,
    "response_modes_supported": ["form_post", "fragment", "query"],
    "revocation_endpoint_auth_methods_supported": _CLIENT_AUTHENTICATION,
    "revocation_endpoint_auth_signing_alg_values_supported": _CLIENT_ALGORITHMS,
    "scopes_supported": ["openid", "offline_access", "profile", "email", "address", "phone"],
    "subject_types_supported": ["public"],
    "token_endpoint_auth_methods_supported": _CLIENT_AUTHENTICATION,
    "token_endpoint_auth_signing_alg_values_supported": _CLIENT_ALGORITHMS,
    "ui_locales_supported": sorted(catalogues.LANGUAGES),
    "userinfo_signing_alg_values_supported": _ALGORITHMS,
}


class KeySetCache:
    """The key sets as bytes, each made anew only when something that it is made of changed, and each key only once."""

    def __init__(self) -> None:
        self._jwks: dict[tuple[str, str], Document] = {}
        self._sets: collections.OrderedDict[str, _CachedKeySet] = collections.OrderedDict()

    async def get(self, services: Services, hints: TenantHints, now: Instant) -> JsonDocument:
        """The public keys of a tenant, of all tenants when none is named. Raises InvalidRequest for an unknown one."""
        tenant = await clients.find_named_tenant(services, hints)
        name = "" if tenant is None else tenant["id"]
        sources = await published_keys.find_sources(services, tenant)
        known = self._sets.get(name)
        if known is None or not known.holds(sources, now):
            known = self._made(sources, now)
            self._sets[name] = known
            while len(self._sets) > _KEPT_SETS:
                self._sets.popitem(last=False)
        self._sets.move_to_end(name)
        return known.prepared

    def _made(self, sources: KeySources, now: Instant) -> _CachedKeySet:
        keys, until = published_keys.select_published(sources, now)
        # The material of a key never changes; an id may come back with another, and then the kid differs.
        ours = {(key["id"], key["kid"]): key for key in keys}
        fresh = [named for named in ours if named not in self._jwks]
        made = jwks.to_jwk_set(ours[named] for named in fresh)["keys"]
        existing = {(key["id"], key.get("kid")) for key in sources.keys}
        kept = {named: jwk for named, jwk in self._jwks.items() if named in existing}
        self._jwks = {**kept, **dict(zip(fresh, made, strict=True))}
        return _CachedKeySet(sources, until, JsonDocument({"keys": [self._jwks[named] for named in ours]}))


class JsonDocument:
    """A JSON document as bytes, and the ETag that names its content."""

    def __init__(self, document: Document) -> None:
        self.body = orjson.dumps(document)
        self.etag = f'"{fingerprint(self.body.decode())}"'


@dataclasses.dataclass(frozen=True, slots=True)
class _CachedKeySet:
    sources: KeySources
    until: Instant | None
    prepared: JsonDocument

    def holds(self, sources: KeySources, now: Instant) -> bool:
        """Whether the set is still made of these documents, and none of its keys has left it."""
        return self.sources.is_same(sources) and (self.until is None or now < self.until)


async def prefetch_key_set(services: Services, hints: TenantHints) -> None:
    """Read what the key set of a tenant is made of into the caches. Raises InvalidRequest for an unknown tenant."""
    await published_keys.find_sources(services, await clients.find_named_tenant(services, hints))


async def public_pems(services: Services, now: Instant) -> dict[str, str]:
    """The keys of all tenants as PEM, by their kid."""
    keys, _ = published_keys.select_published(await published_keys.find_sources(services, None), now)
    return {key["kid"]: key["publicKey"] for key in keys}


async def signing_kid(services: Services, application_id: str, now: Instant) -> str | None:
    """The kid of the key that signs access tokens of an application now; None for one that is no client."""
    client = await clients.client_finder(services)(application_id)
    if client is None:
        return None
    key = await services.configuration.keys.find_cached(
        None, key_rotation.signing_key(*client, "accessTokenKeyId", now)
    )
    kid: str | None = None if key is None else key.get("kid")
    return kid


async def configuration(services: Services, hints: TenantHints, base_url: str) -> JsonDocument:
    """The metadata of a tenant, the default one when none is named. Raises InvalidRequest for an unknown one."""
    named = await clients.find_named_tenant(services, hints)
    tenant = named or await clients.get_default_tenant(services)
    applications = await services.configuration.applications.list_cached(tenant["id"], "metadata", _WITH_OPTIONS)
    options = [application["oauthConfiguration"] for application in applications]
    grant_types = {*grants.GRANTS, "implicit"}
    if features.off(services, [entity_types.FEATURE]):
        grant_types.discard(client_credentials.grant_type)
    document = metadata(tenant, base_url, options, grant_types)
    if features.off(services, [feature_settings.DPOP]):
        del document["dpop_signing_alg_values_supported"]
    if named is not None:
        document["jwks_uri"] = f"{base_url}/{named['id']}{_PATHS['jwks_uri']}"
    return JsonDocument(document)


def metadata(tenant: Document, base_url: str, options: Sequence[Document], grant_types: Iterable[str]) -> Document:
    """The provider metadata, in alphabetical order; what is not built is published as unsupported.

    `options` are the oauthConfigurations of the applications that have something switched on which is published only
    when some application of the tenant has it (docs/decisions/0027).
    """
    speaks_hybrid = any(oauth.get("hybridResponseTypesEnabled") for oauth in options)
    classes = {oauth["authenticationContextClass"] for oauth in options if "authenticationContextClass" in oauth}
    found: Document = {
        **_OF_EVERY_TENANT,
        **{name: base_url + path for name, path in _PATHS.items()},
        "grant_types_supported": sorted(grant_types),
        "issuer": tenant["issuer"],
        "response_types_supported": [*_RESPONSE_TYPES, *(_HYBRID_TYPES if speaks_hybrid else ())],
    }
    if classes:
        found["acr_values_supported"] = sorted(classes)
    return dict(sorted(found.items()))
