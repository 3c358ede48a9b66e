"""The redirect URI of the console's page that tries an application; applications need not register it.

The response contains a code that only the page can exchange: it has the code verifier, and the state is bound to the
browser of the administrator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identity.call import Call
from identity.domain.authorization import hosted_backend
from identity.operations.clients.clients import Client


def redirect_uri(call: Call, client_id: str) -> str:
    """Return the URL of the page."""
    return f"{call.origin.base_url}/admin/applications/{client_id}/try"


def is_redirect_uri(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether the response to an authorization request goes to the page."""
    return bool(given.get("redirect_uri") == redirect_uri(call, client.client_id))


def with_redirect_uri(call: Call, client: Client) -> Client:
    """Return the client with the page as its redirect URI, and with PKCE. Raises UnauthorizedClient."""
    hosted_backend.require_supported(client.application)
    return client.with_settings(
        "oauthConfiguration",
        authorizedRedirectURLs=[redirect_uri(call, client.client_id)],
        proofKeyForCodeExchangePolicy="Required",
    )
