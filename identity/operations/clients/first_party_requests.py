"""Authorization requests of our own pages: they speak for an application, with settings of their own, and end at us."""

from __future__ import annotations

import dataclasses
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
"""What an application asks of requests for codes and tokens: no request of ours can meet it, nor gets either."""


def request(call: Call, client: Client, path: str) -> dict[str, str]:
    """The request by which a page goes on to the login, and that ends at a page of ours."""
    return {
        "client_id": client.client_id,
        "tenantId": client.tenant_id,
        "response_type": "code",
        "redirect_uri": address(call, client, path),
    }


def speaking(client: Client, redirect_uri: str) -> Client:
    """The client as a page of ours speaks for it, in a request that ends there."""
    settings = {**client.oauth, **_SETTINGS, "authorizedRedirectURLs": [redirect_uri]}
    return dataclasses.replace(client, application={**client.application, "oauthConfiguration": settings})


def address(call: Call, client: Client, path: str) -> str:
    """The whole address of a page of ours, for an application."""
    place = {"client_id": client.client_id, "tenantId": client.tenant_id}
    return redirect_uris.with_query(f"{call.origin.base_url}{path}", place)
