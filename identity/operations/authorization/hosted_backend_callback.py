"""The redirect URI of the hosted backend, which is valid for every application that the backend supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.authorization import hosted_backend
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client

PATH: Final = "/app/callback"
"""The path that receives authorization responses; applications need not register it."""


def redirect_uri(call: Call, client: Client) -> str:
    """Return the redirect URI of the hosted backend for a client."""
    return first_party_requests.page_url(call, client, PATH)


def is_redirect_uri(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether the response to an authorization request goes to the hosted backend."""
    return bool(given.get("redirect_uri") == redirect_uri(call, client))


def with_redirect_uri(call: Call, client: Client) -> Client:
    """Return the client with the hosted backend among its redirect URIs. Raises UnauthorizedClient."""
    hosted_backend.require_supported(client.application)
    registered = [*client.application["oauthConfiguration"]["authorizedRedirectURLs"], redirect_uri(call, client)]
    return client.with_settings("oauthConfiguration", authorizedRedirectURLs=registered)
