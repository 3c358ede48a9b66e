"""Authorization requests of our own pages: they use an application with fixed settings, and return to our pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.clients import redirect_uris
from identity.operations.clients.clients import Client

_SETTINGS: Final[Mapping[str, Any]] = {
    "authorizedOriginURLs": [],
    "authorizedURLValidationPolicy": "ExactMatch",
    "enabledGrants": ["authorization_code"],
    "profile": "baseline",
    "proofKeyForCodeExchangePolicy": "NotRequired",
    "requirePushedAuthorizationRequests": False,
    "requireSignedRequestObject": False,
}
"""Replacements for settings that protect codes and tokens: our pages cannot comply with them, and receive neither."""


def parameters(call: Call, client: Client, path: str) -> dict[str, str]:
    """Return the parameters of an authorization request that returns to one of our pages."""
    return {
        "client_id": client.presented_client_id,
        "tenantId": client.tenant_id,
        "response_type": "code",
        "redirect_uri": page_url(call, client, path),
    }


def with_first_party_settings(client: Client, redirect_uri: str) -> Client:
    """Return the client with the fixed settings and `redirect_uri` as its only redirect URI."""
    return client.with_settings("oauthConfiguration", **_SETTINGS, authorizedRedirectURLs=[redirect_uri])


def page_url(call: Call, client: Client, path: str) -> str:
    """Return the absolute URL of one of our pages for an application."""
    query = {"client_id": client.presented_client_id, "tenantId": client.tenant_id}
    return redirect_uris.with_query(f"{call.origin.base_url}{path}", query)
