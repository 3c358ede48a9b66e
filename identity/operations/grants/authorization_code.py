"""grant_type=authorization_code: a code for tokens (RFC 6749 section 4.1.3, RFC 7636 section 4.5)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import pkce
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.clients import resource_indicators, security_profiles
from identity.errors import InvalidGrant
from identity.instants import Instant
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import active_users, dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client
from identity.operations.issuance import token_responses
from identity.services import Services
from identity.tokens.access_tokens import TokenContext

grant_type = "authorization_code"
parameters = ("code", "redirect_uri", "code_verifier", "resource")


async def exchange(services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
    """The token response for a code. The code is used up whatever comes of it.

    Raises InvalidRequest, InvalidClient and InvalidGrant; a replay takes back what the first use gave.
    """
    code = token_responses.required_parameter(form, "code", "missing_code")
    redirect_uri = token_responses.required_parameter(form, "redirect_uri", "missing_redirect_uri")
    client = identified.client
    grant = await _consumed(services, call, client, code)
    if grant["clientId"] != client.client_id:
        raise _not_found()
    if grant["redirectUri"] != redirect_uri:
        raise InvalidGrant("invalid_redirect_uri", "The redirect_uri is not that of the authorization request.")
    pkce_verified = _has_proof(client, identified, grant.get("codeChallenge"), form.get("code_verifier"))
    identified.require(grant_type, pkce_verified=pkce_verified)
    if grant.get("dpopJkt") not in {None, identified.key_thumbprint}:
        raise InvalidGrant("unknown", "The code is bound to a key, which the request does not prove to have.")
    user = await active_users.get_active_user(
        services, client.tenant_id, grant["userId"], call.now, InvalidGrant, logging_in_to=client.client_id
    )
    granted = tuple(grant.get("resources", ()))
    login = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=tuple(grant["scopes"]),
        grants=(grant_type,),
        authentication_type=grant["authenticationType"],
        auth_instant=Instant(grant["authInstant"]),
        nonce=grant.get("nonce"),
        sso_session_id=grant.get("ssoSessionId"),
        authentication_methods=tuple(grant.get("authenticationMethods", ())),
        claims_request=ClaimsRequest.of(grant.get("claims")),
        resources=resource_indicators.for_code(form.get("resource"), granted, client.oauth),
        confirmation=dpop_proofs.confirmation_claim(identified.key_thumbprint),
    )
    if "userCode" in grant:
        waiting = await device_grants.get_pending_by_id(
            services, call, client, grant["userCode"], grant["deviceGrantId"]
        )
        # What the device gets was shown, and agreed to, before the code was given.
        await device_grants.approve(services, call, client, waiting, Approver.of(login, waiting.grant["scopes"]))
    access_token, answer = await token_responses.issue_tokens(
        services, call, client, login, grant["device"], pkce_verified=pkce_verified, code=code, resources=granted
    )
    given: Document = {"tokenIds": [*grant.get("tokenIds", ()), *access_token.token_ids], "userId": user["id"]}
    if "refresh_token_id" in answer:
        given["refreshTokenId"] = answer["refresh_token_id"]
    if not await services.authorization_codes.record_redemption(client.tenant_id, code, given):
        await token_responses.revoke_issued_tokens(services, call, client, client.tenant_id, given)
    return answer


async def _consumed(services: Services, call: Call, client: Client, code: str) -> Document:
    consumption = await services.authorization_codes.consume(client.tenant_id, code)
    if consumption.given is not None:
        await token_responses.revoke_issued_tokens(services, call, client, client.tenant_id, consumption.given)
    if consumption.grant is None:
        raise _not_found()
    return consumption.grant


def _has_proof(client: Client, identified: IdentifiedClient, challenge: str | None, verifier: str | None) -> bool:
    """Whether the exchange is bound by PKCE. A verifier without a challenge is a downgrade (RFC 9700 section 2.1.1)."""
    if challenge is None:
        policy = security_profiles.pkce_policy(client.application)
        excused = policy == "NotRequiredWhenUsingClientAuthentication" and identified.has_credentials
        if verifier is not None:
            raise InvalidGrant("invalid_pkce_code_verifier", "The code was issued without a code_challenge.")
        if policy == "NotRequired" or excused:
            return False
    if verifier is None:
        message = "The request is missing a required parameter: code_verifier."
        raise InvalidGrant("missing_code_verifier", message)
    if challenge is None or not pkce.is_verified_by(verifier, challenge):
        raise InvalidGrant("invalid_pkce_code_verifier", "The code_verifier does not belong to the code_challenge.")
    return True


def _not_found() -> InvalidGrant:
    return InvalidGrant("auth_code_not_found", "The code is invalid, expired, or was issued to another client.")
