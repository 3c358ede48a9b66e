"""Rules of the hosted backend: supported applications, allowed origins, and the domain of its cookies."""

from __future__ import annotations

import functools
import ipaddress
from typing import Final

from publicsuffixlist import PublicSuffixList

from identity.call import Document
from identity.domain.authorization import authorization_request
from identity.domain.clients import redirect_uris, security_profiles
from identity.errors import InvalidRequest, UnauthorizedClient

DEFAULT_SCOPE: Final = "openid offline_access"

_UNSUPPORTED: Final = (
    "dpopBoundAccessTokens",
    "requirePushedAuthorizationRequests",
    "requireSignedRequestObject",
    "tlsClientCertificateBoundAccessTokens",
)
"""Settings that require a key or signed requests, which browsers with cookies do not have."""


def require_supported(application: Document) -> None:
    """Raise UnauthorizedClient for an application that the hosted backend cannot act for."""
    oauth = application["oauthConfiguration"]
    if unmet := [name for name in _UNSUPPORTED if oauth.get(name)]:
        names = ", ".join(unmet)
        raise UnauthorizedClient("unknown", f"The hosted backend does not support applications with {names}.")


def target(application: Document, redirect_uri: str | None) -> str:
    """Return the URL to redirect back to: the one given, else the first one registered. Raises InvalidRequest."""
    if redirect_uri is None:
        registered = application["oauthConfiguration"]["authorizedRedirectURLs"]
        redirect_uri = next((url for url in registered if "*" not in url), None)
    if redirect_uri is None:
        raise InvalidRequest("missing_redirect_uri", "The request is missing a required parameter: redirect_uri.")
    if not security_profiles.is_redirect_uri_authorized(redirect_uri, application):
        raise authorization_request.invalid_redirect_uri(redirect_uri)
    return redirect_uri


def is_allowed_origin(origin: str, application: Document) -> bool:
    """Whether an origin is that of a redirect URL or authorized origin URL of the application."""
    oauth = application["oauthConfiguration"]
    policy = oauth["authorizedURLValidationPolicy"]
    if security_profiles.is_strict(application):
        policy = redirect_uris.EXACT
    urls = [*oauth["authorizedRedirectURLs"], *oauth["authorizedOriginURLs"]]
    return any(redirect_uris.is_origin_of(origin, url, policy) for url in urls)


def cookie_domain(host: str) -> str | None:
    """Return the broadest domain that browsers accept for a cookie of this host: its registrable domain.

    None, for a host-only cookie, if the host is an IP address, a single label or a public suffix.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        domain: str | None = _public_suffixes().privatesuffix(host.lower())
        return domain
    return None


@functools.cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()
