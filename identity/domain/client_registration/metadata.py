"""Client metadata (RFC 7591 section 2) and the application that represents the client."""

from __future__ import annotations

from typing import Any, Final

from identity.call import Document
from identity.domain.authorization.client_authentication import CERTIFICATES
from identity.domain.clients import redirect_uris, scopes

_MEMBERS: Final = {
    "dpop_bound_access_tokens": "dpopBoundAccessTokens",
    "jwks": "jwks",
    "jwks_uri": "jwksURI",
    "require_pushed_authorization_requests": "requirePushedAuthorizationRequests",
    "require_signed_request_object": "requireSignedRequestObject",
    "tls_client_certificate_bound_access_tokens": "tlsClientCertificateBoundAccessTokens",
}
"""Metadata that an application has under another name."""
_TLS_NAMES: Final = ("subject_dn", "san_dns", "san_uri", "san_ip", "san_email")
_SECRET_METHODS: Final = frozenset({"client_secret_basic", "client_secret_post", "client_secret_jwt"})
_KEPT: Final = (
    "application_type", "client_uri", "contacts", "logo_uri", "policy_uri", "post_logout_redirect_uris",
    "redirect_uris", "response_types", "scope", "software_id", "software_version", "tos_uri",
)  # fmt: skip
"""Metadata that is kept with the registration, because an application has no such member, or one for two purposes."""


def to_oauth_configuration(metadata: Document) -> Document:
    """Return the oauthConfiguration of a client: a third party that has to use PKCE."""
    method = metadata["token_endpoint_auth_method"]
    requested = metadata["scope"].split()
    oauth: Document = {
        "authorizedRedirectURLs": list(
            dict.fromkeys([*metadata["redirect_uris"], *metadata["post_logout_redirect_uris"]])
        ),
        "authorizedURLValidationPolicy": redirect_uris.EXACT,
        "clientAuthenticationMethods": [method],
        "clientAuthenticationPolicy": "NotRequired" if method == "none" else "Required",
        "enabledGrants": metadata["grant_types"],
        "generateRefreshTokens": scopes.OFFLINE_ACCESS in requested,
        "proofKeyForCodeExchangePolicy": "Required",
        "providedScopePolicy": {name: {"enabled": name in requested} for name in scopes.PROVIDED},
        "relationship": "ThirdParty",
        "unknownScopePolicy": "Reject",
    }
    oauth |= {member: metadata[name] for name, member in _MEMBERS.items() if name in metadata}
    if method in CERTIFICATES and (named := _tls_name(metadata)) is not None:
        oauth["tlsClientAuthConfiguration"] = named
    return oauth


def with_requested(stored_oauth: Document, metadata: Document) -> Document:
    """Return the oauthConfiguration after an update, which also removes what the metadata omit (RFC 7592 2.2)."""
    replaced = {*_MEMBERS.values(), "tlsClientAuthConfiguration"}
    kept = {name: value for name, value in stored_oauth.items() if name not in replaced}
    return {**kept, **to_oauth_configuration(metadata)}


def kept_metadata(metadata: Document) -> Document:
    """Return the metadata that are stored with the registration."""
    return {name: metadata[name] for name in _KEPT if name in metadata}


def client_information(application: Document, kept: Document) -> Document:
    """Return the registered metadata and credentials of a client (RFC 7591 section 3.2.1)."""
    oauth = application["oauthConfiguration"]
    method = next(iter(oauth.get("clientAuthenticationMethods", ["client_secret_basic"])))
    only_after_logout = set(kept["post_logout_redirect_uris"]).difference(kept["redirect_uris"])
    information: Document = {
        **kept,
        "client_id": application["id"],
        "client_name": application["name"],
        "grant_types": oauth["enabledGrants"],
        "redirect_uris": [url for url in oauth["authorizedRedirectURLs"] if url not in only_after_logout],
        "token_endpoint_auth_method": method,
    }
    information |= {name: oauth[member] for name, member in _MEMBERS.items() if member in oauth}
    if (named := oauth.get("tlsClientAuthConfiguration")) is not None:
        information[f"tls_client_auth_{named['type']}"] = named["value"]
    if method in _SECRET_METHODS:
        information |= {"client_secret": oauth["clientSecret"], "client_secret_expires_at": 0}
    return information


def _tls_name(metadata: Document) -> dict[str, Any] | None:
    for kind in _TLS_NAMES:
        if (value := metadata.get(f"tls_client_auth_{kind}")) is not None:
            return {"type": kind, "value": value}
    return None
