"""The response to an authorization request: a code, tokens, or an error (RFC 6749 sections 4.1.2 and 4.2.2)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import authorization_request as rules
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.clients import scopes, security_profiles
from identity.domain.users import user_state
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
    """The error response (RFC 6749 section 4.1.2.1); under strict it has the parameters of the standards only."""
    channel, with_reason = verified_client.channel, not security_profiles.is_strict(verified_client.client.application)
    parameters = rules.error_parameters(error, channel.state, verified_client.client.issuer, with_reason=with_reason)
    return AuthorizationResponse(str(channel.redirect_uri), channel.mode, parameters)


async def success_response(
    services: Services,
    call: Call,
    client: Client,
    request: AuthorizationRequest,
    current: CurrentLogin,
    device: DeviceGrant | None = None,
) -> AuthorizationResponse:
    """The successful response, with a code or tokens, and the session's cookie. The request's scopes are granted.

    A `device` that the user agreed to is approved when tokens are given: here, or when the code is redeemed.
    Raises InvalidRequestUri for a pushed request that was answered already.
    """
    await request_sources.consume(services, client, request)
    granted = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=current.user,
        scopes=request.scopes,
        grants=("implicit",),
        authentication_type=current.authentication_type,
        auth_instant=current.session.auth_instant,
        nonce=request.nonce,
        sso_session_id=current.session.session_id if current.secret else None,
        authentication_methods=current.methods,
        claims_request=request.claims,
        resources=request.resources,
    )
    if device is not None and not request.response_type.gives("code"):
        approver = Approver.of(granted, device.grant["scopes"])
        await device_grants.approve(services, call, client, device, approver)
    parameters = await _given(services, call, client, request, granted, device)
    if request.state is not None:
        parameters["state"] = request.state
    if request.locales:
        parameters["locale"] = request.locales[0]
    if not security_profiles.is_strict(client.application):
        parameters["userState"] = user_state.of(current.user, client.tenant, client.application)
    parameters["iss"] = client.issuer
    return AuthorizationResponse(request.redirect_uri, request.response_mode, parameters, SsoCookie.of(client, current))


async def _given(
    services: Services,
    call: Call,
    client: Client,
    request: AuthorizationRequest,
    granted: TokenContext,
    device: DeviceGrant | None,
) -> dict[str, str]:
    """Code and tokens, whichever the response type names (RFC 6749 sections 4.1.2 and 4.2.2, OpenID Connect Core 3)."""
    wanted, parameters = request.response_type, {}
    access_token = await token_lambdas.access_token(services, call, granted) if wanted.gives("token") else None
    if wanted.gives("code"):
        parameters["code"] = await _code(services, client, request, granted, access_token, device)
    if access_token is not None:
        parameters["access_token"] = access_token.token
        parameters |= {"token_type": "Bearer", "expires_in": str(access_token.expires_in)}
    if wanted.gives("id_token"):
        token = None if access_token is None else access_token.token
        id_token = await token_lambdas.id_token(
            services, call, granted, access_token=token, code=parameters.get("code")
        )
        parameters["id_token"] = id_token.token
    if request.scopes and wanted.words != {"code"}:
        parameters["scope"] = scopes.join(request.scopes)
    return parameters


async def _code(
    services: Services,
    client: Client,
    request: AuthorizationRequest,
    granted: TokenContext,
    beside: IssuedToken | None,
    device: DeviceGrant | None,
) -> str:
    """A new code. A replay of it takes back the access token `beside` it too: whoever read one has the other."""
    code = new_secret()
    grant: Document = {
        "clientId": client.client_id,
        "redirectUri": request.redirect_uri,
        "userId": granted.user["id"],
        "scopes": list(request.scopes),
        "nonce": request.nonce,
        "codeChallenge": request.code_challenge,
        "dpopJkt": request.dpop_jkt,
        "authInstant": granted.auth_instant,
        "authenticationType": granted.authentication_type,
        "ssoSessionId": granted.sso_session_id,
        "device": dict(request.device),
        "authenticationMethods": granted.authentication_methods,
        "claims": request.claims.document(),
        "resources": list(request.resources),
        "tokenIds": [] if beside is None else [beside.token_id],
    }
    if device is not None:
        grant |= {"userCode": device.grant["userCode"], "deviceGrantId": device.grant_id}
    ttl_seconds = security_profiles.code_lifetime_seconds(client.tenant, client.application)
    await services.authorization_codes.issue(client.tenant_id, code, grant, ttl_seconds)
    return code
