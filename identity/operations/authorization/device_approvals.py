"""A login that approves a device: the page that asks comes last, however the user got there (RFC 8628 section 3.3).

A request to authorize names the device by its user_code. It comes from the application's own activation page, and its
answer goes back there; or from ours, `/oauth2/device`, and then it ends at ours, and has no other answer than that the
device was approved. Nobody approves a device without having been shown what it gets, single sign-on or not (5.4).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.clients import scopes
from identity.errors import ConsentRequired
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_intents
from identity.operations.login_transactions.authorization_steps import (
    AuthorizationResponse,
    Current,
    Interlude,
    SsoCookie,
    VerifiedClient,
)
from identity.services import Services
from identity.store.device_grants import DeviceGrant

PAGE: Final = "device"
_END: Final = "/oauth2/device-complete"


def request(call: Call, client: Client, user_code: str) -> dict[str, str]:
    """The request by which our own page goes on to the login."""
    return {**first_party_requests.request(call, client, _END), "user_code": user_code}


def is_hosted(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether a request came from our own page, and ends there."""
    return "user_code" in given and given.get("redirect_uri") == first_party_requests.address(call, client, _END)


def hosted(call: Call, client: Client) -> Client:
    """The client as our own page speaks for it. Raises UnauthorizedClient where it has no devices."""
    device_grants.require_enabled(client)
    return first_party_requests.speaking(client, first_party_requests.address(call, client, _END))


async def require(services: Services, call: Call, client: Client, request_: AuthorizationRequest) -> None:
    """Raise InvalidRequest unless the device that a request names, if it does, waits for a user."""
    if request_.user_code is not None:
        await find(services, call, client, request_.user_code)


async def find(services: Services, call: Call, client: Client, user_code: str) -> DeviceGrant:
    """The device that waits under a code. Raises InvalidRequest."""
    return await device_grants.find(
        services, call, client.tenant_id, user_code, device_grants.ANYBODY, client.client_id
    )


async def ask(
    services: Services, proven: VerifiedClient, request_: AuthorizationRequest, current: Current
) -> Interlude:
    """The way to the page that asks. Raises ConsentRequired where no page may be shown."""
    if request_.forbids_pages:
        raise ConsentRequired("consent_required", "The user has to agree to the device.")
    # What the user did not agree to on the way is not asked for again when the login is found again.
    given = {**proven.given, "scope": scopes.joined(request_.scopes)}
    intent = await login_intents.remember(services, dataclasses.replace(proven, given=given), current, PAGE)
    return Interlude(proven.client, PAGE, intent, SsoCookie.of(proven.client, current))


async def complete(
    services: Services, call: Call, proven: VerifiedClient, current: Current, device: DeviceGrant
) -> AuthorizationResponse:
    """Approve the device, and go to the end of our own pages. Raises as `device_grants.approve` does."""
    client, session = proven.client, current.session
    approver = Approver(
        current.user,
        session.auth_instant,
        current.authentication_type,
        tuple(device.grant["scopes"]),
        current.methods,
    )
    link = await device_grants.approve(services, call, client, device, approver)
    told = {"linked": link["identityProviderId"]} if link else {}
    if "locale" in proven.given:
        told["locale"] = proven.given["locale"]
    return AuthorizationResponse(
        first_party_requests.address(call, client, _END), "query", told, SsoCookie.of(client, current)
    )
