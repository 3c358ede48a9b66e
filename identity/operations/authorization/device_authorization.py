"""Device authorization: issue a device code and a user code (RFC 8628 sections 3.1 and 3.2)."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization.device_grants import DeviceRequest, generate_user_code
from identity.domain.clients import redirect_uris, scopes, security_profiles
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.domain.objects import ip_addresses
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import InvalidRequest, InvalidScope, Unavailable
from identity.ids import new_id, new_secret
from identity.instants import later
from identity.operations.authorization import device_grants
from identity.operations.clients.client_authentication import AuthenticatedClient, IdentifiedClient
from identity.operations.clients.clients import Client
from identity.operations.objects import features
from identity.operations.providers import device_links
from identity.services import Services
from identity.store.device_grants import NewDeviceGrant
from identity.store.rate_limits import Limit

INTERVAL_SECONDS: Final = 5
MAXIMUM_PER_ADDRESS: Final = 1000
"""The maximum number of requests per address in ten minutes, for clients that do not authenticate."""

_MAXIMUM_DEVICE_CHARACTERS: Final = 1024
_MAXIMUM_SCOPE_CHARACTERS: Final = 4096
_ATTEMPTS: Final = 20
_DEVICE: Final = "metaData.device."


def authenticate(identified: IdentifiedClient) -> AuthenticatedClient:
    """Verify the credentials if presented, and require them only under strict. Raises InvalidClient.

    The published API accepts requests without credentials, whatever the policy (RFC 8628 section 3.1).
    """
    if security_profiles.is_strict(identified.client.application):
        return identified.authenticate(DEVICE_GRANT)
    return identified.authenticate_if_presented(DEVICE_GRANT)


async def begin(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the device authorization response.

    Raises UnauthorizedClient, InvalidRequest and
    InvalidScope, and Unavailable if no user code is free.
    """
    client = authenticated.client
    device_grants.require_enabled(client)
    verification_uri = client.oauth.device_verification_url
    if not verification_uri:
        raise InvalidRequest("missing_verification_uri", "The application has no deviceVerificationURL.")
    links, requested = device_links.split_scopes(scopes.parse(form.get("scope")))
    granted = scopes.apply_policy(requested, client.oauth, client.application["scopes"])
    features.require_request(services, client.application, granted)
    await _require_within_limits(services, call, authenticated, form, granted)
    device = {name[len(_DEVICE) :]: value for name, value in form.items() if name.startswith(_DEVICE)}
    request = DeviceRequest(granted, call.origin.ip_address, device)
    expires_in = Lifetimes.of(client.tenant).device_code_seconds
    if links is not None:
        client_call = dataclasses.replace(call, is_client_authenticated=authenticated.has_credentials)
        link_id = await device_links.store_pending_link(services, client_call, client, links, expires_in)
        request = dataclasses.replace(request, pending_link_id=link_id)
    device_code, user_code = await _issue_codes(services, call, client, request, expires_in)
    return {
        "device_code": device_code,
        "expires_in": expires_in,
        "interval": INTERVAL_SECONDS,
        "user_code": user_code,
        "verification_uri": verification_uri,
        "verification_uri_complete": redirect_uris.with_query(verification_uri, {"user_code": user_code}),
    }


async def _require_within_limits(
    services: Services, call: Call, authenticated: AuthenticatedClient, form: Document, granted: tuple[str, ...]
) -> None:
    """Limit what an unauthenticated request may store. Raises InvalidRequest and InvalidScope."""
    if len(scopes.join(granted)) > _MAXIMUM_SCOPE_CHARACTERS:
        raise InvalidScope("unknown_scope", f"The scopes are longer than {_MAXIMUM_SCOPE_CHARACTERS} characters.")
    if sum(len(text) for name, text in form.items() if name.startswith(_DEVICE)) > _MAXIMUM_DEVICE_CHARACTERS:
        raise InvalidRequest(
            "unknown", f"The metaData.device parameters are longer than {_MAXIMUM_DEVICE_CHARACTERS} characters."
        )
    if authenticated.has_credentials:
        return
    address = ip_addresses.network(call.origin.ip_address)
    limit = Limit("device-address", address, MAXIMUM_PER_ADDRESS, device_grants.FAILURE_WINDOW_SECONDS)
    wait_seconds = await services.limits.rate_limits.consume(authenticated.client.tenant_id, [limit])
    if wait_seconds is not None:
        raise InvalidRequest(
            "unknown", f"Too many device authorization requests from this address. Try again in {wait_seconds} seconds."
        )


async def _issue_codes(
    services: Services, call: Call, client: Client, request: DeviceRequest, expires_in: int
) -> tuple[str, str]:
    """Store the grant under a device code and a user code that no live grant has. Raises Unavailable."""
    generator = client.tenant["externalIdentifierConfiguration"]["deviceUserCodeIdGenerator"]
    device_code = new_secret()
    for _ in range(_ATTEMPTS):
        user_code = generate_user_code(generator)
        new = NewDeviceGrant(
            new_id(),
            client.client_id,
            dataclasses.replace(request, user_code=user_code),
            later(call.now, seconds=expires_in),
            INTERVAL_SECONDS,
        )
        if await services.tokens.device_grants.issue(client.tenant_id, device_code, user_code, new, call.now):
            return device_code, user_code
    raise Unavailable("No free user code is available. Try again.")
