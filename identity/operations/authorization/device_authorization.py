"""The beginning of a device grant: a code for the device, a code for the user (RFC 8628 sections 3.1 and 3.2)."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris, scopes, security_profiles, user_codes
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.domain.objects import ip_addresses
from identity.errors import InvalidRequest, InvalidScope, Unavailable
from identity.ids import new_id, new_secret
from identity.instants import later
from identity.operations.authorization import device_grants
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client
from identity.operations.objects import features
from identity.operations.providers import device_links
from identity.services import Services
from identity.store.device_grants import NewDeviceGrant
from identity.store.rate_limits import Limit

INTERVAL_SECONDS: Final = 5
ADDRESS_DEVICES: Final = 1000
"""How many devices an address may begin in ten minutes for clients that do not authenticate."""

_LONGEST: Final = 1024
_LONGEST_SCOPE: Final = 4096
_ATTEMPTS: Final = 20
_DEVICE: Final = "metaData.device."


async def begin(services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
    """The device authorization response.

    A client that presents credentials has to present good ones; one that presents none is let in even where its policy
    asks for them, as the published API does, unless its profile is strict (RFC 8628 section 3.1). Raises InvalidClient,
    UnauthorizedClient, InvalidRequest and InvalidScope, and Unavailable when the tenant has no user codes left.
    """
    client = identified.client
    if identified.has_credentials or security_profiles.is_strict(client.application):
        identified.require(DEVICE_GRANT, pkce_verified=True)
    device_grants.require_enabled(client)
    verification_uri = client.oauth.get("deviceVerificationURL")
    if not verification_uri:
        raise InvalidRequest("missing_verification_uri", "The application has no deviceVerificationURL.")
    links, requested = device_links.split_scopes(scopes.parse(form.get("scope")))
    granted = scopes.apply_policy(requested, client.oauth, client.application["scopes"])
    features.require_request(services, client.application, granted)
    await _require_room(services, call, identified, form, granted)
    grant: Document = {
        "scopes": list(granted),
        "address": call.origin.ip_address,
        "device": {name[len(_DEVICE) :]: value for name, value in form.items() if name.startswith(_DEVICE)},
    }
    limits = client.tenant["externalIdentifierConfiguration"]
    expires_in: int = limits["deviceCodeTimeToLiveInSeconds"]
    if links is not None:
        counted = dataclasses.replace(call, is_client_authenticated=identified.has_credentials)
        grant["pendingIdPLinkId"] = await device_links.store_pending_link(services, counted, client, links, expires_in)
    device_code, user_code = await _issued(services, call, client, grant, expires_in)
    return {
        "device_code": device_code,
        "expires_in": expires_in,
        "interval": INTERVAL_SECONDS,
        "user_code": user_code,
        "verification_uri": verification_uri,
        "verification_uri_complete": redirect_uris.with_query(verification_uri, {"user_code": user_code}),
    }


async def _require_room(
    services: Services, call: Call, identified: IdentifiedClient, form: Document, granted: tuple[str, ...]
) -> None:
    """Raise InvalidRequest and InvalidScope for what is too much: anybody may come here, and it is kept for a while."""
    if len(scopes.join(granted)) > _LONGEST_SCOPE:
        raise InvalidScope("unknown_scope", f"The scopes are longer than {_LONGEST_SCOPE} characters.")
    if sum(len(text) for name, text in form.items() if name.startswith(_DEVICE)) > _LONGEST:
        raise InvalidRequest("unknown", f"The metaData.device parameters are longer than {_LONGEST} characters.")
    if identified.has_credentials:
        return
    address = ip_addresses.network(call.origin.ip_address)
    limit = Limit("device-address", address, ADDRESS_DEVICES, device_grants.FAILURE_WINDOW_SECONDS)
    wait_seconds = await services.rate_limits.consume(identified.client.tenant_id, [limit])
    if wait_seconds is not None:
        raise InvalidRequest("unknown", f"Too many devices were begun from there. Try again in {wait_seconds} seconds.")


async def _issued(services: Services, call: Call, client: Client, grant: Document, expires_in: int) -> tuple[str, str]:
    """Device code and user code; a user code that another device has just now is not given again."""
    generator = client.tenant["externalIdentifierConfiguration"]["deviceUserCodeIdGenerator"]
    device_code = new_secret()
    for _ in range(_ATTEMPTS):
        user_code = user_codes.generate(generator)
        new = NewDeviceGrant(
            new_id(),
            client.client_id,
            {**grant, "userCode": user_code},
            later(call.now, seconds=expires_in),
            INTERVAL_SECONDS,
        )
        if await services.device_grants.issue(client.tenant_id, device_code, user_code, new, call.now):
            return device_code, user_code
    raise Unavailable("Too many devices are waiting for their users. Try again.")
