"""Logins of the account pages: an authorization request for the application that returns to the page, without a code.

The pages need only the browser's session, which the application's own login creates. Like the device page, the request
uses the application with first-party settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.two_factor import two_factor
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import AuthorizationResponse, CurrentLogin, SsoCookie

PAGES: Final = (
    "/account",
    "/account/edit",
    "/account/phone",
    "/account/password",
    "/account/two-factor",
    "/account/sessions",
    "/account/applications",
    "/account/links",
    "/account/data",
    "/account/delete",
    "/account/webauthn",
)
"""The pages that such a login may return to."""


def request_parameters(call: Call, client: Client, page: str, *, max_age_seconds: int | None = None) -> dict[str, str]:
    """Return the authorization request by which a page redirects to the login."""
    parameters = first_party_requests.parameters(call, client, page)
    return parameters if max_age_seconds is None else {**parameters, "max_age": str(max_age_seconds)}


def is_hosted(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether a request returns to an account page."""
    redirect_uri = str(given.get("redirect_uri", ""))
    if not redirect_uri.startswith(f"{call.origin.base_url}{PAGES[0]}"):
        return False
    return any(redirect_uri == first_party_requests.page_url(call, client, page) for page in PAGES)


def hosted(client: Client, given: Mapping[str, Any]) -> Client:
    """Return the client with the settings of the account page that the request returns to."""
    client = with_second_factor_required(client)
    return first_party_requests.with_first_party_settings(client, given["redirect_uri"])


def with_second_factor_required(client: Client) -> Client:
    """Return the client with two-factor logins enabled, even if the application disables them.

    Changes on an account page, such as those of two-factor methods, take effect in every application.
    """
    if two_factor.login_policy(client.tenant, client.application) != two_factor.DISABLED:
        return client
    return client.with_settings("multiFactorConfiguration", loginPolicy=two_factor.ENABLED)


def complete(client: Client, given: Mapping[str, Any], current: CurrentLogin) -> AuthorizationResponse:
    """Redirect back to the page, with the SSO cookie alone."""
    return AuthorizationResponse(given["redirect_uri"], "query", {}, SsoCookie.of(client, current))
