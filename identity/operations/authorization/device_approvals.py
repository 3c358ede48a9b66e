"""A login that approves a device; the approval page comes last (RFC 8628 section 3.3).

The `user_code` of an authorization request names the device. The request comes from the application's own activation
page, which also gets the response; or from our page `/oauth2/device`, whose requests end at `/oauth2/device-complete`.
Every approval shows what the device gets, even with single sign-on (section 5.4).
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
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    AuthorizationResponse,
    CurrentLogin,
    IntermediatePage,
    SsoCookie,
    VerifiedClient,
)
from identity.services import Services
from identity.store.device_grants import DeviceGrant

PAGE: Final = "device"
_COMPLETE_PATH: Final = "/oauth2/device-complete"


def request_parameters(call: Call, client: Client, user_code: str) -> dict[str, str]:
    """Return the authorization request by which our device page continues to the login."""
    return {**first_party_requests.parameters(call, client, _COMPLETE_PATH), "user_code": user_code}


def is_hosted(call: Call, client: Client, given: Mapping[str, Any]) -> bool:
    """Whether a request comes from our device page, and ends at our completion page."""
    return "user_code" in given and given.get("redirect_uri") == first_party_requests.page_url(
        call, client, _COMPLETE_PATH
    )


def hosted(call: Call, client: Client) -> Client:
    """Return the client with the settings of our page. Raises UnauthorizedClient if it disables the device grant."""
    device_grants.require_enabled(client)
    redirect_uri = first_party_requests.page_url(call, client, _COMPLETE_PATH)
    return first_party_requests.with_first_party_settings(client, redirect_uri)


async def require_pending(services: Services, call: Call, client: Client, request: AuthorizationRequest) -> None:
    """Raise InvalidRequest if the request names a device that does not wait for approval."""
    if request.user_code is not None:
        await get_pending(services, call, client, request.user_code)


async def get_pending(services: Services, call: Call, client: Client, user_code: str) -> DeviceGrant:
    """Return the pending grant of a user code. Raises InvalidRequest."""
    return await device_grants.get_pending(
        services, call, client.tenant_id, user_code, device_grants.ANONYMOUS, client.client_id
    )


async def request_approval(
    services: Services, verified_client: VerifiedClient, request: AuthorizationRequest, current: CurrentLogin
) -> IntermediatePage:
    """Redirect to the approval page. Raises ConsentRequired under `prompt=none`."""
    if request.forbids_pages:
        raise ConsentRequired("consent_required", "The user has to approve the device.")
    # Only the granted scopes: what the user declined is not requested again when the login is restored.
    given = {**verified_client.given, "scope": scopes.join(request.scopes)}
    verified_client = dataclasses.replace(verified_client, given=given)
    return await login_transactions.store_authenticated(services, verified_client, current, PAGE)


async def complete(
    services: Services, call: Call, verified_client: VerifiedClient, current: CurrentLogin, device: DeviceGrant
) -> AuthorizationResponse:
    """Approve the device, and redirect to our completion page. Raises as `device_grants.approve` does."""
    client, session = verified_client.client, current.session
    approver = Approver(
        current.user,
        session.auth_instant,
        current.authentication_type,
        device.request.scopes,
        current.methods,
    )
    link = await device_grants.approve(services, call, client, device, approver)
    parameters = {"linked": link["identityProviderId"]} if link else {}
    if "locale" in verified_client.given:
        parameters["locale"] = verified_client.given["locale"]
    page_url = first_party_requests.page_url(call, client, _COMPLETE_PATH)
    return AuthorizationResponse(page_url, "query", parameters, SsoCookie.of(client, current))
