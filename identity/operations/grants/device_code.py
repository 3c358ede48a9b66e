"""grant_type=urn:ietf:params:oauth:grant-type:device_code: tokens for a device that a user approved (RFC 8628 3.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.clients import resource_indicators
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.errors import (
    AccessDenied,
    AuthorizationPending,
    ExpiredToken,
    InvalidGrant,
    InvalidRequest,
    OAuth2Error,
    SlowDown,
)
from identity.instants import Instant
from identity.operations.clients import active_users, dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.issuance import token_responses
from identity.services import Services
from identity.store.device_grants import DevicePoll
from identity.tokens.access_tokens import TokenContext

grant_type = DEVICE_GRANT
parameters = ("device_code", "resource")

_REFUSALS: Mapping[str, tuple[type[OAuth2Error], str | None, str]] = {
    "Pending": (AuthorizationPending, None, "The user has not decided yet."),
    "TooFast": (SlowDown, None, "The user has not decided yet, and the device must ask less often."),
    "Denied": (AccessDenied, "consent_canceled", "The user does not want this device."),
    "Expired": (ExpiredToken, None, "The device_code has expired."),
}


async def exchange(services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
    """The token response for a device code that a user approved; the code is used up by it.

    Raises AuthorizationPending, SlowDown, AccessDenied, ExpiredToken, InvalidRequest and InvalidGrant; a second use
    takes back what the first one gave.
    """
    device_code = token_responses.required_parameter(form, "device_code", "missing_device_code")
    client = identified.client
    targets = resource_indicators.parse(form.get("resource"), client.oauth)
    poll = await services.device_grants.poll(client.tenant_id, device_code, client.client_id, call.now)
    if poll.given is not None:
        await token_responses.revoke_issued_tokens(services, call, client, client.tenant_id, poll.given)
    if poll.outcome != "Approved":
        raise _refusal(poll)
    login = dataclasses.replace(await _login(services, call, identified, poll), resources=targets)
    access_token, answer = await token_responses.issue_tokens(
        services, call, client, login, poll.grant["device"], pkce_verified=not identified.has_credentials
    )
    given: Document = {"tokenIds": access_token.token_ids, "userId": login.user["id"]}
    if "refresh_token_id" in answer:
        given["refreshTokenId"] = answer["refresh_token_id"]
    if not await services.device_grants.record_redemption(client.tenant_id, device_code, client.client_id, given):
        await token_responses.revoke_issued_tokens(services, call, client, client.tenant_id, given)
    return answer


async def _login(services: Services, call: Call, identified: IdentifiedClient, poll: DevicePoll) -> TokenContext:
    """Whom the device was approved by. It is no part of the browser session in which that was done."""
    client, approval = identified.client, poll.approval
    user = await active_users.get_active_user(
        services, client.tenant_id, approval["userId"], call.now, InvalidGrant, logging_in_to=client.client_id
    )
    return TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=tuple(approval["scopes"]),
        grants=(grant_type,),
        authentication_type=approval["authenticationType"],
        auth_instant=Instant(approval["authInstant"]),
        authentication_methods=tuple(approval["authenticationMethods"]),
        confirmation=dpop_proofs.confirmation_claim(identified.key_thumbprint),
    )


def _refusal(poll: DevicePoll) -> OAuth2Error:
    if poll.outcome not in _REFUSALS:
        return InvalidRequest("invalid_device_code", "The device_code is invalid, or was used before.")
    kind, reason, description = _REFUSALS[poll.outcome]
    return kind(reason, description)
