"""The redirect URI of the administrators' console, which is valid for its application without being registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.operations.authorization import account_logins
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client

PATH: Final = "/admin/callback"
"""The path that receives authorization responses."""

_NAME: Final = "Administration"
"""The name of the console on the login page; that of the application is fixed, because tools look it up."""


def redirect_uri(call: Call) -> str:
    """Return the redirect URI of the console."""
    return call.origin.base_url + PATH


def is_redirect_uri(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether the response to an authorization request goes to the console."""
    return client.client_id == ADMINISTRATOR_APPLICATION_ID and given.get("redirect_uri") == redirect_uri(call)


def with_redirect_uri(call: Call, client: Client) -> Client:
    """Return the client with the settings of the console: its redirect URI alone, PKCE, and the second factor."""
    client = account_logins.with_second_factor_required(client)
    client = first_party_requests.with_first_party_settings(client, redirect_uri(call))
    client = client.with_settings("oauthConfiguration", proofKeyForCodeExchangePolicy="Required")
    return dataclasses.replace(client, application={**client.application, "name": _NAME})
