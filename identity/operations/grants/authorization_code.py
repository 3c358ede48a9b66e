"""grant_type=authorization_code: exchange a code for tokens (RFC 6749 section 4.1.3, RFC 7636 section 4.5)."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.authorization import pkce
from identity.domain.authorization.authorization_codes import AuthorizationCode
from identity.domain.clients import resource_indicators, security_profiles
from identity.errors import InvalidGrant
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import active_users
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import Client
from identity.operations.issuance import token_responses
from identity.services import Services
from identity.tokens.access_tokens import TokenContext

grant_type = "authorization_code"
parameters = ("code", "redirect_uri", "code_verifier", "resource")


async def exchange(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the token response for a code, which is consumed even if the exchange fails.

    A replay revokes the tokens that the code issued. Raises InvalidRequest, InvalidClient and InvalidGrant.
    """
    code, user, pkce_verified = await redeem(services, call, authenticated, form)
    client, code_value = authenticated.client, str(form["code"])
    context = dataclasses.replace(
        TokenContext.of_code(client.tenant, client.application, user, code, grant_type),
        resources=resource_indicators.for_code(form.get("resource"), code.resources, client.oauth),
        confirmation=authenticated.confirmation,
    )
    if code.user_code is not None and code.device_grant_id is not None:
        device = await device_grants.get_pending_by_id(services, call, client, code.user_code, code.device_grant_id)
        # The user approved the device and its scopes before the code was issued.
        approver = Approver.of(context, device.request.scopes)
        await device_grants.approve(services, call, client, device, approver)
    access_token, response = await token_responses.issue_tokens(
        services,
        call,
        client,
        context,
        code.device,
        pkce_verified=pkce_verified,
        code=code_value,
        resources=code.resources,
    )
    issued = token_responses.issued_document(access_token, response, user, code.token_ids)
    if not await services.tokens.authorization_codes.record_redemption(client.tenant_id, code_value, issued):
        await token_responses.revoke_issued_tokens(services, call, client, issued)
    return response


async def redeem(
    services: Services, call: Call, authenticated: AuthenticatedClient, form: Document
) -> tuple[AuthorizationCode, Document, bool]:
    """Consume a code; return what it authorizes, its user, and whether PKCE was verified. Raises as `exchange`."""
    code_value = token_responses.required_parameter(form, "code", "missing_code")
    redirect_uri = token_responses.required_parameter(form, "redirect_uri", "missing_redirect_uri")
    client = authenticated.client
    code = await _consume(services, call, client, code_value)
    if code.client_id != client.client_id:
        raise _not_found()
    if code.redirect_uri != redirect_uri:
        raise InvalidGrant("invalid_redirect_uri", "The redirect_uri is not that of the authorization request.")
    pkce_verified = _verify_pkce(authenticated, code.code_challenge, form.get("code_verifier"))
    authenticated.require_pkce(is_verified=pkce_verified)
    if code.dpop_jkt not in {None, authenticated.key_thumbprint}:
        raise InvalidGrant("unknown", "The code is bound to a key for which the request has no DPoP proof.")
    user = await active_users.get_active_user(
        services, client.tenant_id, code.user_id, call.now, InvalidGrant, logging_in_to=client.client_id
    )
    return code, user, pkce_verified


async def _consume(services: Services, call: Call, client: Client, code_value: str) -> AuthorizationCode:
    """Consume a code. A replay revokes what the first use issued, and raises InvalidGrant."""
    consumption = await services.tokens.authorization_codes.consume(client.tenant_id, code_value)
    if consumption.issued is not None:
        await token_responses.revoke_issued_tokens(services, call, client, consumption.issued)
    if consumption.grant is None:
        raise _not_found()
    return AuthorizationCode.from_document(consumption.grant)


def _verify_pkce(authenticated: AuthenticatedClient, code_challenge: str | None, code_verifier: str | None) -> bool:
    """Verify the code_verifier; False if the policy allows a code without a challenge. Raises InvalidGrant.

    A verifier without a challenge indicates a downgrade attack (RFC 9700 section 2.1.1).
    """
    if code_challenge is None:
        policy = security_profiles.pkce_policy(authenticated.client.application)
        is_exempt = policy == "NotRequiredWhenUsingClientAuthentication" and authenticated.has_credentials
        if code_verifier is not None:
            raise InvalidGrant("invalid_pkce_code_verifier", "The code was issued without a code_challenge.")
        if policy == "NotRequired" or is_exempt:
            return False
    if code_verifier is None:
        message = "The request is missing a required parameter: code_verifier."
        raise InvalidGrant("missing_code_verifier", message)
    if code_challenge is None or not pkce.verify(code_verifier, code_challenge):
        raise InvalidGrant("invalid_pkce_code_verifier", "The code_verifier does not match the code_challenge.")
    return True


def _not_found() -> InvalidGrant:
    return InvalidGrant("auth_code_not_found", "The code is invalid, expired, or was issued to another client.")
