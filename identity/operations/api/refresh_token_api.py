"""The refresh token API and the Logout API (spec: users, tokens).

SSO sessions are listed as refresh tokens without an application and without a value.
"""

from __future__ import annotations

import functools

from identity import permissions, write_guard
from identity.call import ApiKeyCaller, Call, Document
from identity.domain.clients import refresh_tokens as refresh_token_rules
from identity.domain.clients import security_profiles
from identity.domain.configuration.token_settings import effective_ttl_seconds
from identity.domain.objects.owner_settings import LoginSettings
from identity.domain.objects.secret_masking import MASK
from identity.errors import Invalid, InvalidRequest, NotFound, OAuth2Error, Unauthorized
from identity.events.changes import Change, Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.clients import bearer_tokens, client_authentication, clients
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.grants import refresh_token
from identity.operations.groups import administrators
from identity.operations.issuance import token_responses
from identity.operations.objects import crud
from identity.operations.sessions import session_termination, sso_session_records
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services
from identity.store.refresh_tokens import PresentedRefreshToken

_ENDPOINT = "/api/jwt/refresh"
_REFRESH = "api/jwt-refresh.request.json"
_REVOKE = "api/refresh-token-revoke.request.json"


async def refresh(services: Services, call: Call, body: Document) -> LoginResponse:
    """Refresh an access token without client authentication, if the application permits it.

    Raises Invalid, also for a token that is unknown, used, or bound to a key, and WebhookTransactionFailed.
    """
    request = services.schemas[_REFRESH].read(body)
    value = request.get("refreshToken")
    if value is None:
        raise Invalid.field("missing", "refreshToken", "A [refreshToken] is required.")
    presented = await _find_presented(services, call, value)
    client = None if presented is None else await _find_client(services, presented.record)
    if presented is None or client is None or not _allows_refresh(client.application):
        raise _unusable("The [refreshToken] is unknown, expired, or cannot be used here.")
    tenant_id = client.tenant_id
    if refresh_token_rules.RefreshToken.from_record(presented.record).is_bound:
        raise _unusable("The [refreshToken] is bound to a key.")
    form = {"refresh_token": value, "access_token": request.get("token")}
    if "timeToLiveInSeconds" in request:
        form["expires_in"] = str(request["timeToLiveInSeconds"])
    unauthenticated = client_authentication.without_credentials(client)
    try:
        response = await refresh_token.refresh(services, call.within(tenant_id), unauthenticated, presented, form)
    except OAuth2Error as error:
        if error.status >= 500:
            raise
        name = "timeToLiveInSeconds" if error.reason == "invalid_expires_in" else "refreshToken"
        raise _unusable(error.description, name) from error
    policy, record = client.refresh_policy, presented.record
    expires = policy.expires(record["insertInstant"], policy.start(record, call.now))
    members = {
        "refreshToken": response.get("refresh_token", value),
        "refreshTokenId": record["id"],
        "token": response["access_token"],
    }
    return LoginResponse(200, members, expires)


async def retrieve(services: Services, call: Call, record_id: str) -> Document:
    """Return a refresh token or session by its id. Raises NotFound."""
    tenant_id = crud.require_tenant(call)
    record = await services.tokens.refresh_tokens.find(tenant_id, record_id)
    if record is not None and record["expiresAt"] > call.now:
        return await _to_response(services, call, record)
    session = await sso_session_records.find(services, call, tenant_id, record_id)
    if session is None:
        raise NotFound
    return session


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the valid refresh tokens and sessions of a user, the newest first; an unknown user has none."""
    tenant_id = await _find_tenant_of_user(services, call, user_id)
    if tenant_id is None:
        return []
    tokens = await services.tokens.refresh_tokens.find_of_user(tenant_id, UserId(user_id), call.now)
    sessions = await sso_session_records.find_of_user(services, call, tenant_id, UserId(user_id))
    records = [*[await _to_response(services, call, record) for record in tokens], *sessions]
    return sorted(records, key=lambda record: -int(record["insertInstant"]))


async def revoke(services: Services, call: Call, record_id: str, token: str | None = None) -> None:
    """Revoke a refresh token with its access tokens, or end a session.

    Without an API key the caller needs an access token, and can revoke tokens of its user only. Raises NotFound and
    InvalidToken.
    """
    if isinstance(call.caller, ApiKeyCaller):
        record = await _find_record(services, call, crud.require_tenant(call), record_id)
    else:
        owner = await bearer_tokens.verify(services, call, token)
        record = await _find_record(services, call, TenantId(owner.user["tenantId"]), record_id)
        if record is not None and record["userId"] != owner.user["id"]:
            record = None
        owner.require_usable_for(None if record is None else record.get("applicationId"))
    if record is None:
        raise NotFound
    if "applicationId" in record:
        await revoke_record(services, call, record)
    else:
        await sso_session_records.end(services, call, record)


async def _find_record(services: Services, call: Call, tenant_id: TenantId, record_id: str) -> Document | None:
    """Return the refresh token or session with an id."""
    record = await services.tokens.refresh_tokens.find(tenant_id, record_id)
    return record or await sso_session_records.find(services, call, tenant_id, record_id)


async def revoke_matching(services: Services, call: Call, body: Document, token: str | None = None) -> None:
    """Revoke a refresh token by value, or those of a user, of an application, or of a user for an application.

    Unknown ones are ignored. Without an API key the caller needs an access token, and can revoke tokens of its user
    only. Raises Invalid for a request without criteria, InvalidToken, and Unauthorized for another user.
    """
    request = services.schemas[_REVOKE].read(body)
    if not isinstance(call.caller, ApiKeyCaller):
        await _revoke_own(services, call, await bearer_tokens.verify(services, call, token), request)
        return
    value, user_id, application_id = (request.get(name) for name in ("token", "userId", "applicationId"))
    if value is not None:
        presented = await _find_presented(services, call, value)
        if presented is not None:
            await revoke_record(services, call, presented.record)
    elif user_id is not None:
        tenant_id = await _find_tenant_of_user(services, call, user_id)
        if tenant_id is not None:
            await revoke_of_user(services, call, tenant_id, user_id, application_id)
    elif application_id is not None:
        await _revoke_of_application(services, call, application_id)
    else:
        raise _no_criteria()


async def _revoke_own(services: Services, call: Call, owner: Bearer, request: Document) -> None:
    """Revoke refresh tokens of the user of an access token: one by value, those for an application, or all."""
    user = owner.user
    tenant_id, user_id = TenantId(user["tenantId"]), request.get("userId")
    value, application_id = request.get("token"), request.get("applicationId")
    if user_id not in {None, user["id"]}:
        raise Unauthorized(log_detail="refresh tokens of another user than the access token's")
    if value is not None:
        presented = await services.tokens.refresh_tokens.find_by_value(tenant_id, value, call.now)
        if presented is not None and presented.record["userId"] == user["id"]:
            owner.require_usable_for(presented.record["applicationId"])
            await revoke_record(services, call, presented.record)
    elif user_id is None and application_id is None:
        raise _no_criteria()
    else:
        owner.require_usable_for(application_id)
        await revoke_of_user(services, call, tenant_id, user["id"], application_id)


async def log_out(services: Services, call: Call, value: str | None, *, everywhere: bool) -> None:
    """Revoke a refresh token or, with `everywhere`, all refresh tokens and sessions of its user.

    Unknown and rotated tokens are ignored: a leaked old token must not sign its user out. Raises
    WebhookTransactionFailed.
    """
    presented = await _find_presented(services, call, value) if value else None
    if presented is None or not presented.is_current:
        return
    record = presented.record
    if everywhere:
        await revoke_of_user(services, call, TenantId(record["tenantId"]), record["userId"], None)
    else:
        await revoke_record(services, call, record)


async def revoke_record(services: Services, call: Call, record: Document) -> None:
    """Revoke a refresh token, unless a webhook vetoes it, with its access tokens.

    Raises Unauthorized if the guard of the request refuses the user.
    """
    tenant_id, application_id = TenantId(record["tenantId"]), record["applicationId"]
    tenant = await services.configuration.tenants.get(None, tenant_id)
    application = await services.configuration.applications.find_cached(tenant_id, application_id)
    ttl = effective_ttl_seconds(tenant, application)
    user = await services.directory.users.find(tenant_id, record["userId"])
    if user is not None:
        await write_guard.check_sign_out(user)
    revoke = functools.partial(services.tokens.refresh_tokens.revoke, tenant_id, record["id"])
    events = [] if user is None else [token_responses.revocation_event(application_id, user, record, ttl)]
    await services.bus.commit(call.within(tenant_id), Change([revoke], events))
    await services.tokens.revocations.revoke(tenant_id, [record["id"]], ttl)


async def revoke_of_user(
    services: Services, call: Call, tenant_id: TenantId, user_id: str, application_id: str | None
) -> None:
    """Revoke the refresh tokens of a user for an application, or all of them with the sessions."""
    user = await services.directory.users.find(tenant_id, UserId(user_id))
    if user is None:
        return
    client_id = None if application_id is None else ApplicationId(application_id)
    sign_out = await session_termination.prepare(services, call, user, client_id)
    change = Change(session_termination.writes(services, call, sign_out), sign_out.events)
    await services.bus.commit(call.within(tenant_id), change)
    await session_termination.finish(services, call, sign_out)


async def _revoke_of_application(services: Services, call: Call, application_id: str) -> None:
    """Revoke all refresh tokens of an application and their access tokens, with one event."""
    administrators.require_all_permissions(call, application_id)
    application = await services.configuration.applications.find_cached_across_tenants(application_id)
    if application is None or call.tenant_id not in {None, application["tenantId"]}:
        return
    tenant_id = TenantId(application["tenantId"])
    ttl = effective_ttl_seconds(await services.configuration.tenants.get(None, tenant_id), application)
    record_ids = await services.tokens.refresh_tokens.ids_of_application(tenant_id, ApplicationId(application_id))
    if not record_ids:
        return
    payload = {"applicationId": application_id, "applicationTimeToLiveInSeconds": {application_id: ttl}}
    event = Event("jwt.refresh-token.revoke", payload)
    revoke = functools.partial(
        services.tokens.refresh_tokens.revoke_application, tenant_id, ApplicationId(application_id)
    )
    await services.bus.commit(call.within(tenant_id), Change([revoke], [event]))
    await services.tokens.revocations.revoke(tenant_id, record_ids, ttl)


async def _find_tenant_of_user(services: Services, call: Call, user_id: str) -> TenantId | None:
    """Return the tenant of the call, or else that of the user; None for an unknown user."""
    if call.tenant_id is not None:
        return call.tenant_id
    user = await services.directory.users.find_cached_across_tenants(user_id)
    return None if user is None else TenantId(user["tenantId"])


async def _find_presented(services: Services, call: Call, value: str) -> PresentedRefreshToken | None:
    """Return the valid refresh token with a value, in the tenant of the call if there is one."""
    if call.tenant_id is None:
        return await services.tokens.refresh_tokens.find_by_value_across_tenants(value, call.now)
    return await services.tokens.refresh_tokens.find_by_value(call.tenant_id, value, call.now)


async def _find_client(services: Services, record: Document) -> Client | None:
    """Return the client of a refresh token, if its application is active."""
    try:
        return await clients.get_client(services, TenantHints(path=record["tenantId"]), record["applicationId"])
    except InvalidRequest:
        return None


def _no_criteria() -> Invalid:
    return Invalid.field("missing", "token", "You must specify [token], [userId] or [applicationId].")


def _allows_refresh(application: Document) -> bool:
    return LoginSettings.of(application).allow_token_refresh and security_profiles.allows_tokens_by_api(application)


def _unusable(message: str, name: str = "refreshToken") -> Invalid:
    return Invalid.field("invalid", name, message)


async def _to_response(services: Services, call: Call, record: Document) -> Document:
    """Return the record with its value, as the published API does.

    The value is masked for callers that may only read, and for tokens of administrators with more permissions.
    """
    return {
        **refresh_token_rules.to_event(record),
        "token": record["token"] if await _may_have_value(services, call, record) else MASK,
    }


async def _may_have_value(services: Services, call: Call, record: Document) -> bool:
    if not isinstance(call.caller, ApiKeyCaller):
        return False
    granted = call.caller.api_key["permissions"]["endpoints"]
    user = await services.directory.users.find_cached(TenantId(record["tenantId"]), record["userId"])
    is_reader = not permissions.may_call(granted, _ENDPOINT, "DELETE")
    return not is_reader and user is not None and await administrators.has_authority(services, call, user)
