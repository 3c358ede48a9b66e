"""The response to an authorization request: a code, tokens, or an error (RFC 6749 sections 4.1.2 and 4.2.2)."""

from __future__ import annotations

import dataclasses

from identity.call import Call
from identity.domain.authorization import authorization_request
from identity.domain.authorization.authorization_codes import AuthorizationCode
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.clients import scopes, security_profiles
from identity.domain.users import registrations
from identity.errors import OAuth2Error
from identity.ids import new_secret
from identity.operations.authorization import device_grants, request_sources
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients.clients import Client
from identity.operations.lambdas import token_lambdas
from identity.operations.login_transactions.authorization_steps import (
    AuthorizationResponse,
    CurrentLogin,
    SsoCookie,
    VerifiedClient,
)
from identity.services import Services
from identity.store.device_grants import DeviceGrant
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import IssuedToken


def error_response(verified_client: VerifiedClient, error: OAuth2Error) -> AuthorizationResponse:
    """Return the error response (RFC 6749 section 4.1.2.1); under strict with the standard parameters only."""
    channel, with_reason = verified_client.channel, not security_profiles.is_strict(verified_client.client.application)
    parameters = authorization_request.error_parameters(
        error, channel.state, verified_client.client.issuer, with_reason=with_reason
    )
    return AuthorizationResponse(str(channel.redirect_uri), channel.mode, parameters)


async def success_response(
    services: Services,
    call: Call,
    client: Client,
    request: AuthorizationRequest,
    current: CurrentLogin,
    device: DeviceGrant | None = None,
) -> AuthorizationResponse:
    """Return the successful response with a code or tokens, and the SSO cookie. The request's scopes are granted.

    A `device` that the user approved gets its tokens when the first tokens are issued: now, or for the code. Raises
    InvalidRequestUri for a pushed request that has had its response.
    """
    await request_sources.consume(services, client, request)
    code = _code(client, request, current, device)
    context = TokenContext.of_code(client.tenant, client.application, current.user, code, "implicit")
    if device is not None and not request.response_type.gives("code"):
        approver = Approver.of(context, device.request.scopes)
        await device_grants.approve(services, call, client, device, approver)
    parameters = await _issue(services, call, client, request, context, code)
    if request.state is not None:
        parameters["state"] = request.state
    if request.locales:
        parameters["locale"] = request.locales[0]
    if not security_profiles.is_strict(client.application):
        parameters["userState"] = registrations.user_state(current.user, client.tenant, client.application)
    parameters["iss"] = client.issuer
    return AuthorizationResponse(request.redirect_uri, request.response_mode, parameters, SsoCookie.of(client, current))


async def _issue(
    services: Services,
    call: Call,
    client: Client,
    request: AuthorizationRequest,
    context: TokenContext,
    code: AuthorizationCode,
) -> dict[str, str]:
    """Issue the code and tokens of the response type (RFC 6749 sections 4.1.2 and 4.2.2, OpenID Connect Core 3)."""
    response_type, parameters = request.response_type, {}
    access_token = await token_lambdas.access_token(services, call, context) if response_type.gives("token") else None
    if response_type.gives("code"):
        parameters["code"] = await _issue_code(services, client, code, access_token)
    if access_token is not None:
        parameters["access_token"] = access_token.token
        parameters |= {"token_type": "Bearer", "expires_in": str(access_token.expires_in)}
    if response_type.gives("id_token"):
        token = None if access_token is None else access_token.token
        id_token = await token_lambdas.id_token(
            services, call, context, access_token=token, code=parameters.get("code")
        )
        parameters["id_token"] = id_token.token
    if request.scopes and response_type.words != {"code"}:
        parameters["scope"] = scopes.join(request.scopes)
    return parameters


async def _issue_code(
    services: Services, client: Client, code: AuthorizationCode, access_token: IssuedToken | None
) -> str:
    """Issue a code. A replay also revokes the access token of the same response, which leaked with the code."""
    if access_token is not None:
        code = dataclasses.replace(code, token_ids=(access_token.token_id,))
    value = new_secret()
    ttl_seconds = security_profiles.code_lifetime_seconds(client.tenant, client.application)
    await services.tokens.authorization_codes.issue(client.tenant_id, value, code.to_document(), ttl_seconds)
    return value


def _code(
    client: Client, request: AuthorizationRequest, current: CurrentLogin, device: DeviceGrant | None
) -> AuthorizationCode:
    """Return the authorization that the code and the tokens of a response represent."""
    return AuthorizationCode(
        client_id=client.client_id,
        redirect_uri=request.redirect_uri,
        user_id=current.user["id"],
        scopes=request.scopes,
        auth_instant=current.session.auth_instant,
        authentication_type=current.authentication_type,
        nonce=request.nonce,
        code_challenge=request.code_challenge,
        dpop_jkt=request.dpop_jkt,
        sso_session_id=current.session.session_id if current.secret else None,
        authentication_methods=current.methods,
        claims=request.claims,
        resources=request.resources,
        device=request.device,
        user_code=None if device is None else device.request.user_code,
        device_grant_id=None if device is None else device.grant_id,
    )
