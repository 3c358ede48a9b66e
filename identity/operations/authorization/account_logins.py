"""The login of our own account pages: an authorization request for the application that ends at the page, without code.

The session of the browser is all that the pages need, and it gets there by the application's own login, with everything
that stands in its way. As the device page does, the request speaks for the application with settings of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.two_factor import two_factor
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import AuthorizationResponse, Current, SsoCookie

PAGES: Final = ("/account", "/account/edit", "/account/password", "/account/two-factor")
"""Where such a login may end."""


def request(call: Call, client: Client, page: str, *, max_age_seconds: int | None = None) -> dict[str, str]:
    """The request by which a page goes to the login, and is come back to."""
    asked = first_party_requests.request(call, client, page)
    return asked if max_age_seconds is None else {**asked, "max_age": str(max_age_seconds)}


def is_hosted(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether a request ends at one of our account pages."""
    wanted = str(given.get("redirect_uri", ""))
    is_near = wanted.startswith(f"{call.origin.base_url}{PAGES[0]}")
    return is_near and any(wanted == first_party_requests.address(call, client, page) for page in PAGES)


def hosted(client: Client, given: Mapping[str, Any]) -> Client:
    """The client as our own pages speak for it, for a request that ends at one of them."""
    return first_party_requests.speaking(guarded(client), given["redirect_uri"])


def guarded(client: Client) -> Client:
    """The client, with users who have a second factor asked for it, also where the application does without.

    What an account page changes, a second factor first of all, counts at every application.
    """
    if two_factor.login_policy(client.tenant, client.application) != two_factor.DISABLED:
        return client
    settings = {**client.application["multiFactorConfiguration"], "loginPolicy": two_factor.ENABLED}
    return dataclasses.replace(client, application={**client.application, "multiFactorConfiguration": settings})


def complete(client: Client, given: Mapping[str, Any], current: Current) -> AuthorizationResponse:
    """The way back to the page: nothing but the session's cookie comes with it."""
    return AuthorizationResponse(given["redirect_uri"], "query", {}, SsoCookie.of(client, current))
