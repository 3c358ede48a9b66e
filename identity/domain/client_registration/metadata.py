"""Client metadata (RFC 7591 sections 2 and 5): the application that represents the client, and what is valid.

All of it is self-asserted. Redirect URIs are those of the `application_type`: https for web clients; for native ones
also loopback http, or a private-use scheme (RFC 8252 section 7). URLs that users see have to be on the host of a
redirect URI.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from identity.call import Document
from identity.domain.authorization import response_types
from identity.domain.authorization.client_authentication import CERTIFICATES
from identity.domain.clients import redirect_uris, scopes
from identity.errors import InvalidClientMetadata, InvalidRedirectUri

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
    "application_type", "client_uri", "contacts", "initiate_login_uri", "logo_uri", "policy_uri",
    "post_logout_redirect_uris", "redirect_uris", "response_types", "scope", "software_id", "software_version",
    "tos_uri",
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
        "hybridResponseTypesEnabled": any(map(_is_hybrid, metadata["response_types"])),
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


def _is_hybrid(response_type: str) -> bool:
    found = response_types.find(response_type, hybrid=True)
    return found is not None and found.is_hybrid


def _tls_name(metadata: Document) -> dict[str, Any] | None:
    for kind in _TLS_NAMES:
        if (value := metadata.get(f"tls_client_auth_{kind}")) is not None:
            return {"type": kind, "value": value}
    return None


NATIVE: Final = "native"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PRIVATE_USE = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+", re.IGNORECASE)
_SHOWN_URLS: Final = ("client_uri", "logo_uri", "policy_uri", "tos_uri")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_LETTERS: Final = frozenset({"Ll", "Lo", "Lt", "Lu"})
_WRITTEN_TOGETHER: Final = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)


def require_valid(metadata: Document, grant_types: Collection[str], scopes: Collection[str]) -> None:
    """Validate metadata against the grants and scopes that the operator allows.

    Raises InvalidRedirectUri and InvalidClientMetadata.
    """
    for uri in [*metadata["redirect_uris"], *metadata["post_logout_redirect_uris"]]:
        if problem := redirect_uri_problem(uri, metadata["application_type"]):
            raise InvalidRedirectUri(None, f"The redirect URI {uri[:200]} cannot be registered: {problem}.")
    if "authorization_code" in metadata["grant_types"] and not metadata["redirect_uris"]:
        raise InvalidRedirectUri(None, "The grant authorization_code needs redirect_uris.")
    for problem in _problems(metadata, grant_types, scopes):
        raise InvalidClientMetadata(None, problem)


def redirect_uri_problem(uri: str, application_type: str) -> str | None:
    """Return why a client of this type cannot register a redirect URI, or None."""
    problem = redirect_uris.registration_problem(uri, redirect_uris.EXACT)
    if problem is not None:
        return problem
    parts = urlsplit(uri)
    host = parts.hostname or ""
    if "*" in uri or parts.username is not None:
        return "it contains a wildcard or user information"
    if parts.scheme == "https":
        return "it is on this machine" if redirect_uris.is_on_this_machine(host) else None
    if application_type != NATIVE:
        return "a web client needs https"
    if parts.scheme == "http":
        return None if host in _LOOPBACK else "http is for loopback addresses only"
    return None if _PRIVATE_USE.fullmatch(parts.scheme) else "its scheme needs the dots of a domain name"


def _has_one_script(name: str) -> bool:
    """Return whether the letters of a name are of one script, or of scripts that are written together.

    A letter of another script can look like one of the name: the highly restrictive level of UTS 39 section 5.2. The
    name of a character starts with that of its script.
    """
    letters = (each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) in _LETTERS)
    scripts = {unicodedata.name(letter, "").partition(" ")[0].partition("-")[0] for letter in letters}
    return len(scripts) <= 1 or any(scripts <= together for together in _WRITTEN_TOGETHER)


def comparable_name(name: str) -> str:
    """Return a name without differences that users do not see: case, width, and spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _problems(metadata: Document, grant_types: Collection[str], scopes: Collection[str]) -> Iterator[str]:
    refused = [grant for grant in metadata["grant_types"] if grant not in grant_types]
    if refused:
        yield f"The grant_types are not allowed: {' '.join(refused)[:200]}"
    for response_type in metadata["response_types"]:
        found = response_types.find(response_type, hybrid=True)
        if found is None or not set(found.grant_types) <= set(metadata["grant_types"]):
            yield f"The response_type {response_type[:100]} does not fit the grant_types."
    unknown = [scope for scope in metadata["scope"].split() if scope not in scopes]
    if unknown:
        yield f"The scope is not allowed: {' '.join(unknown)[:200]}"
    if metadata.get("subject_type", "public") != "public":
        yield "The subject_type is not supported."
    if "jwks" in metadata and "jwks_uri" in metadata:
        yield "A client has either jwks or jwks_uri."
    name = metadata.get("client_name", "")
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        yield "The client_name contains invisible characters."
    if not _has_one_script(name):
        yield "The client_name mixes letters of several scripts."
    yield from _url_problems(metadata)


def _url_problems(metadata: Document) -> Iterator[str]:
    hosts = set(_hosts(metadata["redirect_uris"])) or set(_hosts([metadata.get("client_uri", "")]))
    for name in _SHOWN_URLS:
        url = metadata.get(name)
        if url is None:
            continue
        if redirect_uri_problem(url, "web") is not None:
            yield f"The {name} must be an https URL of another machine."
        elif not hosts.issuperset(_hosts([url])):
            yield f"The {name} must be on the host of a redirect URI."
    if "initiate_login_uri" in metadata and redirect_uri_problem(metadata["initiate_login_uri"], "web") is not None:
        yield "The initiate_login_uri must be an https URL of another machine."


def _hosts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of https URLs."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname:
            yield parts.hostname
