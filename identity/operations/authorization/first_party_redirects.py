"""Redirect URIs of our own pages: valid without being registered, each with settings that suit the page.

The table `_REDIRECTS` lists them all. No code or token of such a request leaves the service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.authorization import hosted_backend as hosted_backend_rules
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.operations.authorization import account_logins, device_approvals
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client

CONSOLE_PATH: Final = "/admin/callback"
"""The path of the administrators' console that receives authorization responses."""
HOSTED_BACKEND_PATH: Final = "/app/callback"
"""The path of the hosted backend that receives authorization responses."""

_CONSOLE_NAME: Final = "Administration"
"""The name of the console on the login page; that of the application is fixed, because tools look it up."""


def with_page_settings(call: Call, client: Client, given: Mapping[str, Any]) -> Client:
    """Return the client with the settings of the page that a request returns to, if it is one of ours.

    Raises UnauthorizedClient if the application cannot use the page.
    """
    for is_target, with_settings in _REDIRECTS:
        if is_target(call, client, given):
            return with_settings(call, client, given)
    return client


def console_uri(call: Call) -> str:
    """Return the redirect URI of the administrators' console."""
    return call.origin.base_url + CONSOLE_PATH


def for_console(call: Call, client: Client) -> Client:
    """Return the client with the settings of the console: its redirect URI alone, PKCE, and the second factor."""
    client = account_logins.with_second_factor_required(client)
    client = first_party_requests.with_first_party_settings(client, console_uri(call))
    client = client.with_settings("oauthConfiguration", proofKeyForCodeExchangePolicy="Required")
    return dataclasses.replace(client, application={**client.application, "name": _CONSOLE_NAME})


def trial_uri(call: Call, client_id: str) -> str:
    """Return the redirect URI of the console's page that tries an application.

    Its response contains a code that only the page can exchange: the page has the code verifier, and the state is bound
    to the browser of the administrator.
    """
    return f"{call.origin.base_url}/admin/applications/{client_id}/try"


def for_trial(call: Call, client: Client) -> Client:
    """Return the client with the trial page as its redirect URI, and with PKCE. Raises UnauthorizedClient."""
    hosted_backend_rules.require_supported(client.application)
    return client.with_settings(
        "oauthConfiguration",
        authorizedRedirectURLs=[trial_uri(call, client.client_id)],
        proofKeyForCodeExchangePolicy="Required",
    )


def hosted_backend_uri(call: Call, client: Client) -> str:
    """Return the redirect URI of the hosted backend for a client."""
    return first_party_requests.page_url(call, client, HOSTED_BACKEND_PATH)


def _for_hosted_backend(call: Call, client: Client) -> Client:
    """Return the client with the hosted backend among its redirect URIs. Raises UnauthorizedClient."""
    hosted_backend_rules.require_supported(client.application)
    registered = client.application["oauthConfiguration"]["authorizedRedirectURLs"]
    return client.with_settings(
        "oauthConfiguration", authorizedRedirectURLs=[*registered, hosted_backend_uri(call, client)]
    )


def _is_console(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    return client.client_id == ADMINISTRATOR_APPLICATION_ID and given.get("redirect_uri") == console_uri(call)


_IsTarget = Callable[[Call, Client, Mapping[str, Any]], bool]
_WithSettings = Callable[[Call, Client, Mapping[str, Any]], Client]
_REDIRECTS: Final[tuple[tuple[_IsTarget, _WithSettings], ...]] = (
    (device_approvals.is_hosted, lambda call, client, _: device_approvals.hosted(call, client)),
    (account_logins.is_hosted, lambda _, client, given: account_logins.hosted(client, given)),
    (_is_console, lambda call, client, _: for_console(call, client)),
    (
        lambda call, client, given: given.get("redirect_uri") == trial_uri(call, client.client_id),
        lambda call, client, _: for_trial(call, client),
    ),
    (
        lambda call, client, given: given.get("redirect_uri") == hosted_backend_uri(call, client),
        lambda call, client, _: _for_hosted_backend(call, client),
    ),
)
"""A test of the request, and the settings for it; the first row that matches applies."""
