"""grant_type=urn:ietf:params:oauth:grant-type:device_code: tokens for an approved device (RFC 8628 section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization.device_grants import DeviceApproval
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
from identity.operations.clients import active_users
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.issuance import token_responses
from identity.services import Services
from identity.store.device_grants import DevicePoll
from identity.tokens.access_tokens import TokenContext

grant_type = DEVICE_GRANT
parameters = ("device_code", "resource")

_ERRORS: Final[Mapping[str, tuple[type[OAuth2Error], str | None, str]]] = {
    "Pending": (AuthorizationPending, None, "The user has not decided yet."),
    "TooFast": (SlowDown, None, "The user has not decided yet. The device polls too frequently."),
    "Denied": (AccessDenied, "consent_canceled", "The user denied the device."),
    "Expired": (ExpiredToken, None, "The device_code has expired."),
}


async def exchange(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the token response for an approved device code, and consume the code.

    A second use revokes the tokens of the first. Raises AuthorizationPending, SlowDown, AccessDenied, ExpiredToken,
    InvalidRequest and InvalidGrant.
    """
    device_code = token_responses.required_parameter(form, "device_code", "missing_device_code")
    client = authenticated.client
    resources = resource_indicators.parse(form.get("resource"), client.oauth)
    client_id = client.client_id
    poll = await services.tokens.device_grants.poll(client.tenant_id, device_code, client_id, call.now)
    if poll.issued is not None:
        await token_responses.revoke_issued_tokens(services, call, client, poll.issued)
    if poll.approval is None:
        raise _error(poll)
    context = await _token_context(services, call, authenticated, poll.approval, resources)
    access_token, response = await token_responses.issue_tokens(
        services, call, client, context, poll.device, pkce_verified=not authenticated.has_credentials
    )
    issued = token_responses.issued_document(access_token, response, context.user)
    if not await services.tokens.device_grants.record_redemption(client.tenant_id, device_code, client_id, issued):
        await token_responses.revoke_issued_tokens(services, call, client, issued)
    return response


async def _token_context(
    services: Services,
    call: Call,
    authenticated: AuthenticatedClient,
    approval: DeviceApproval,
    resources: tuple[str, ...],
) -> TokenContext:
    """Return the login of the approving user. It is independent of the browser session that approved the device."""
    client = authenticated.client
    user = await active_users.get_active_user(
        services,
        client.tenant_id,
        approval.user_id,
        call.now,
        InvalidGrant,
        logging_in_to=client.client_id,
    )
    return TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=approval.scopes,
        grants=(grant_type,),
        authentication_type=approval.authentication_type,
        auth_instant=approval.auth_instant,
        authentication_methods=approval.authentication_methods,
        resources=resources,
        confirmation=authenticated.confirmation,
    )


def _error(poll: DevicePoll) -> OAuth2Error:
    if poll.outcome not in _ERRORS:
        return InvalidRequest("invalid_device_code", "The device_code is invalid, or was used before.")
    error_class, reason, description = _ERRORS[poll.outcome]
    return error_class(reason, description)
