"""User codes for applications with their own activation page: describe, validate and approve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import client_id_of
from identity.domain.login import login_outcomes
from identity.domain.providers import identity_providers
from identity.domain.users import users
from identity.errors import InvalidGrant, InvalidRequest, InvalidToken, NotFound, OAuth2Error, WebhookTransactionFailed
from identity.ids import TenantId, parse_id
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver, AttemptSubject
from identity.operations.clients import bearer_tokens
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import Client
from identity.operations.login import password_login, second_factor_decisions
from identity.operations.users import identity_provider_links
from identity.services import Services
from identity.store.device_grants import DeviceGrant
from identity.tokens import jws

_LINK_MEMBERS = (
    "displayName",
    "identityProviderId",
    "identityProviderName",
    "identityProviderType",
    "identityProviderUserId",
)
_LOGIN_PREVENTED_REASONS = frozenset({"user_locked", "user_expired"})


def required_user_code(form: Document) -> str:
    """Return the user code of a request. Raises InvalidRequest."""
    if "user_code" not in form:
        raise InvalidRequest("missing_user_code", "The request is missing a required parameter: user_code.")
    return str(form["user_code"])


async def describe_for_client(
    services: Services, call: Call, authenticated: AuthenticatedClient, form: Document
) -> Document:
    """Describe the device of a user code to its client. Raises InvalidClient and InvalidRequest."""
    client = authenticated.client
    subject = device_grants.attempt_subject(call, client, is_authenticated=authenticated.has_credentials)
    return await describe(services, call, client.tenant_id, required_user_code(form), subject, client.client_id)


async def describe(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    user_code: str,
    subject: AttemptSubject,
    client_id: str | None = None,
) -> Document:
    """Return the API response that describes the device of a user code. Raises InvalidRequest."""
    found = await device_grants.get_pending(services, call, tenant_id, user_code, subject, client_id)
    application = await services.configuration.applications.find_cached(tenant_id, found.client_id)
    requested = [scope for scope in found.request.scopes if scope not in scopes.RESERVED]
    answer: dict[str, Any] = {
        "client_id": found.client_id if application is None else client_id_of(application),
        "deviceInfo": dict(found.request.device),
        "expires_in": max(1, (found.expires - call.now) // 1000),
        "pendingIdPLink": await find_pending_link(services, call, tenant_id, found),
        "scope": scopes.join(requested),
        "tenantId": tenant_id,
        "user_code": found.request.user_code,
    }
    return {name: value for name, value in answer.items() if value}


async def validate(services: Services, call: Call, client: Client, user_code: str) -> None:
    """Raise InvalidRequest unless a device of the client is pending with this user code."""
    await device_grants.get_pending(
        services, call, client.tenant_id, user_code, device_grants.ANONYMOUS, client.client_id
    )


async def find_pending_link(services: Services, call: Call, tenant_id: TenantId, found: DeviceGrant) -> Document:
    """Return the provider account that the device links; empty for none, or if the provider was deleted."""
    pending_id = found.request.pending_link_id
    if pending_id is None:
        return {}
    try:
        shown = await identity_provider_links.retrieve_pending(services, call.within(tenant_id), pending_id, None)
    except NotFound:
        return {}
    link: Document = shown["pendingIdPLink"]
    return {name: link[name] for name in _LINK_MEMBERS if name in link}


async def approve(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Approve a device for the user of an access token, and return the API response.

    Raises InvalidClient, InvalidRequest, InvalidScope; InvalidToken for an invalid token; InvalidGrant for a user who
    was deleted or may not log in to the application.
    """
    client = authenticated.client
    if "token" not in form:
        raise InvalidRequest("missing_token", "The request is missing a required parameter: token.")
    user_code = required_user_code(form)
    bearer = await _get_bearer(services, call, client, form["token"])
    subject = device_grants.attempt_subject(call, client, is_authenticated=authenticated.has_credentials)
    grant = await device_grants.get_pending(services, call, client.tenant_id, user_code, subject, client.client_id)
    await _require_login(services, call, client, bearer.user, bearer.authentication_type)
    approver = Approver(
        bearer.user,
        bearer.auth_instant,
        bearer.authentication_type,
        bearer.token.scopes if bearer.token.application["id"] == client.client_id else (),
        tuple(bearer.token.claims.get("amr", ())),
    )
    link = await device_grants.approve(services, call, client, grant, approver)
    answer = {
        "deviceGrantStatus": "Approved",
        "deviceInfo": dict(grant.request.device),
        "tenantId": client.tenant_id,
        "userId": bearer.user["id"],
    }
    shown = {name: value for name, value in link.items() if name != "token"}
    return answer | ({"identityProviderLink": shown} if shown else {})


async def _get_bearer(services: Services, call: Call, client: Client, token: str) -> Bearer:
    """Return the user of a token of the tenant; the token of a third party is valid for that client only."""
    read = jws.parse(token)
    claims = {} if isinstance(read, jws.Rejection) else read.claims
    if claims and "sub" not in claims:
        raise InvalidRequest("missing_user_id", "The token has no sub.")
    try:
        found = await bearer_tokens.verify(services, call, token)
        found.require_usable_for(client.client_id)
    except InvalidToken as error:
        raise _approval_error(error, claims) from error
    if found.token.tenant["id"] != client.tenant_id:
        raise _invalid_token(InvalidToken("access_token_invalid", "The access token is of another tenant."))
    return found


def _approval_error(error: InvalidToken, claims: Mapping[str, Any]) -> OAuth2Error:
    """Return the error of the endpoint; `claims` are verified for every error about the user."""
    if error.reason in _LOGIN_PREVENTED_REASONS:
        return InvalidGrant("login_prevented", error.description)
    if error.reason != "user_not_found":
        return _invalid_token(error)
    if parse_id(claims.get("sub")) is None:
        return InvalidRequest("invalid_user_id", "The sub of the token is not the id of a user.")
    return InvalidGrant("user_not_found", error.description)


def _invalid_token(error: InvalidToken) -> InvalidToken:
    """Return 400 instead of 401: the token is a parameter, not the caller's authentication."""
    error.status = InvalidRequest.status
    return error


async def _require_login(
    services: Services, call: Call, client: Client, user: Document, authentication_type: str
) -> None:
    """Require that the user meets the requirements of a login. Raises InvalidGrant."""
    is_federated = authentication_type in identity_providers.AUTHENTICATION_TYPES.values()
    authenticated = login_outcomes.Authenticated(
        client.tenant, client.application, user, call.now, is_federated=is_federated
    )
    lacks_registration = client.oauth.require_registration and users.find_registration(user, client.client_id) is None
    authenticated = await second_factor_decisions.decide(services, call, authenticated, None)
    if login_outcomes.find_halt(authenticated) is not None or lacks_registration:
        raise InvalidGrant("login_prevented", "The user may not log in to the application now.")
    try:
        await password_login.resume_session(services, call.within(client.tenant_id), user, client.application)
    except WebhookTransactionFailed as error:
        raise InvalidGrant("login_prevented", "A webhook rejected this login.") from error
