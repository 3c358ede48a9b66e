"""Refresh tokens over the API: who has which, and their end (spec: users, tokens; Logout API).

An SSO session is one of them, without an application and without a value.
"""

from __future__ import annotations

import functools

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.authorization import client_authentication
from identity.domain.clients import refresh_tokens as rules
from identity.domain.clients import security_profiles
from identity.errors import Invalid, InvalidRequest, NotFound, OAuth2Error, Unauthorized
from identity.events.changes import Change, Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.grants import refresh_token
from identity.operations.issuance import token_responses
from identity.operations.objects import crud
from identity.operations.sessions import session_termination, sso_session_records
from identity.operations.users.login_responses import LoginResponse
from identity.services import Services
from identity.store.refresh_tokens import PresentedRefreshToken
from identity.tokens.issuer import ttl_seconds

_REFRESH = "api/jwt-refresh.request.json"
_REVOKE = "api/refresh-token-revoke.request.json"


async def refresh(services: Services, call: Call, body: Document) -> LoginResponse:
    """A new access token for a refresh token of an application that lets the API refresh; the client proves nothing.

    Raises Invalid, also for a token that is unknown, spent, or bound to a key, and WebhookTransactionFailed.
    """
    request = services.schemas[_REFRESH].read(body)
    value = request.get("refreshToken")
    if value is None:
        raise Invalid.field("missing", "refreshToken", "A [refreshToken] is required.")
    presented = await _presented(services, call, value)
    client = None if presented is None else await _client(services, presented.record)
    if presented is None or client is None or not _allows_refresh(client.application):
        raise _unusable("The [refreshToken] is unknown, expired, or cannot be used here.")
    tenant_id = client.tenant_id
    if presented.record["private"].get("dpopJkt") is not None:
        raise _unusable("The [refreshToken] is bound to a key.")
    form = {"refresh_token": value, "access_token": request.get("token")}
    if "timeToLiveInSeconds" in request:
        form["expires_in"] = str(request["timeToLiveInSeconds"])
    nobody = IdentifiedClient(client, client_authentication.PresentedCredentials(client.client_id, "none"))
    try:
        answer = await refresh_token.refresh(services, call.within(tenant_id), nobody, presented, form)
    except OAuth2Error as error:
        if error.status >= 500:
            raise
        name = "timeToLiveInSeconds" if error.reason == "invalid_expires_in" else "refreshToken"
        raise _unusable(error.description, name) from error
    policy, record = client.refresh_policy, presented.record
    expires = policy.expires(record["insertInstant"], policy.start(record, call.now))
    shown = {
        "refreshToken": answer.get("refresh_token", value),
        "refreshTokenId": record["id"],
        "token": answer["access_token"],
    }
    return LoginResponse(200, shown, expires)


async def retrieve(services: Services, call: Call, record_id: str) -> Document:
    """A refresh token, or session, by its id. Raises NotFound."""
    tenant_id = crud.require_tenant(call)
    record = await services.tokens.refresh_tokens.find(tenant_id, record_id)
    if record is not None and record["expiresAt"] > call.now:
        return _shown(record)
    session = await sso_session_records.find(services, call, tenant_id, record_id)
    if session is None:
        raise NotFound
    return session


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """The live refresh tokens and sessions of a user, the newest first; of one who does not exist there are none."""
    tenant_id = await _tenant_of_user(services, call, user_id)
    if tenant_id is None:
        return []
    tokens = await services.tokens.refresh_tokens.find_of_user(tenant_id, UserId(user_id), call.now)
    sessions = await sso_session_records.find_of_user(services, call, tenant_id, UserId(user_id))
    found = [*(_shown(record) for record in tokens), *sessions]
    return sorted(found, key=lambda record: -int(record["insertInstant"]))


async def revoke(services: Services, call: Call, record_id: str, token: str | None = None) -> None:
    """End one refresh token, and every access token that came of it; or one session.

    Without an API key the caller shows the access token of a user, and ends tokens of that user alone. Raises NotFound
    and InvalidToken.
    """
    if isinstance(call.caller, ApiKeyCaller):
        record = await _record(services, call, crud.require_tenant(call), record_id)
    else:
        owner = await bearer_tokens.verify(services, call, token)
        found = await _record(services, call, TenantId(owner.user["tenantId"]), record_id)
        record = found if found is not None and found["userId"] == owner.user["id"] else None
        owner.require_usable_for(None if record is None else record.get("applicationId"))
    if record is None:
        raise NotFound
    if "applicationId" in record:
        await _end(services, call, record)
    else:
        await sso_session_records.end(services, call, record)


async def _record(services: Services, call: Call, tenant_id: TenantId, record_id: str) -> Document | None:
    """The refresh token or session of an id."""
    record = await services.tokens.refresh_tokens.find(tenant_id, record_id)
    return record or await sso_session_records.find(services, call, tenant_id, record_id)


async def revoke_those(services: Services, call: Call, body: Document, token: str | None = None) -> None:
    """End what a request names: one by its value, those of a user, of an application, or of a user for one.

    What is not there needs no end. Without an API key the caller shows the access token of a user, and ends tokens of
    that user alone. Raises Invalid for a request that names nothing, InvalidToken, and Unauthorized for another user.
    """
    request = services.schemas[_REVOKE].read(body)
    if not isinstance(call.caller, ApiKeyCaller):
        await _revoke_own(services, call, await bearer_tokens.verify(services, call, token), request)
        return
    value, user_id, application_id = (request.get(name) for name in ("token", "userId", "applicationId"))
    if value is not None:
        presented = await _presented(services, call, value)
        if presented is not None:
            await _end(services, call, presented.record)
    elif user_id is not None:
        tenant_id = await _tenant_of_user(services, call, user_id)
        if tenant_id is not None:
            await _end_of_user(services, call, tenant_id, user_id, application_id)
    elif application_id is not None:
        await _end_of_application(services, call, application_id)
    else:
        raise _names_nothing()


async def _revoke_own(services: Services, call: Call, owner: Bearer, request: Document) -> None:
    """End refresh tokens of the owner of an access token: one by value, those for an application, or all."""
    user = owner.user
    tenant_id, user_id = TenantId(user["tenantId"]), request.get("userId")
    value, application_id = request.get("token"), request.get("applicationId")
    if user_id not in {None, user["id"]}:
        raise Unauthorized(log_detail="refresh tokens of another user than the access token's")
    if value is not None:
        presented = await services.tokens.refresh_tokens.find_by_value(tenant_id, value, call.now)
        if presented is not None and presented.record["userId"] == user["id"]:
            owner.require_usable_for(presented.record["applicationId"])
            await _end(services, call, presented.record)
    elif user_id is None and application_id is None:
        raise _names_nothing()
    else:
        owner.require_usable_for(application_id)
        await _end_of_user(services, call, tenant_id, user["id"], application_id)


async def log_out(services: Services, call: Call, value: str | None, *, everywhere: bool) -> None:
    """End a refresh token or, `everywhere`, all of its user and the user's sessions. Without a live token nothing.

    A value that was rotated out is none: who found an old one cannot sign its user out everywhere.

    Raises WebhookTransactionFailed.
    """
    presented = await _presented(services, call, value) if value else None
    if presented is None or not presented.is_current:
        return
    record = presented.record
    if not everywhere:
        await _end(services, call, record)
        return
    await _end_of_user(services, call, TenantId(record["tenantId"]), record["userId"], None)


async def _end(services: Services, call: Call, record: Document) -> None:
    """End one refresh token, where no webhook vetoes it, and deny the access tokens that came of it."""
    tenant_id, application_id = TenantId(record["tenantId"]), record["applicationId"]
    tenant = await services.configuration.tenants.get(None, tenant_id)
    application = await services.configuration.applications.find_cached(tenant_id, application_id)
    ttl = _ttl_seconds(tenant, application)
    user = await services.directory.users.find(tenant_id, record["userId"])
    revoke = functools.partial(services.tokens.refresh_tokens.revoke, tenant_id, record["id"])
    events = [] if user is None else [token_responses.revocation_event(application_id, user, record, ttl)]
    await services.bus.commit(call.within(tenant_id), Change([revoke], events))
    await services.tokens.revocations.revoke(tenant_id, [record["id"]], ttl)


async def _end_of_user(
    services: Services, call: Call, tenant_id: TenantId, user_id: str, application_id: str | None
) -> None:
    user = await services.directory.users.find(tenant_id, UserId(user_id))
    if user is None:
        return
    chosen = None if application_id is None else ApplicationId(application_id)
    sign_out = await session_termination.prepare(services, call, user, chosen)
    change = Change(session_termination.writes(services, call, sign_out), sign_out.events)
    await services.bus.commit(call.within(tenant_id), change)
    await session_termination.finish(services, call, sign_out)


async def _end_of_application(services: Services, call: Call, application_id: str) -> None:
    """All of an application, with one event; access tokens that came of them are denied, too."""
    application = await services.configuration.applications.find_cached_across_tenants(application_id)
    if application is None or call.tenant_id not in {None, application["tenantId"]}:
        return
    tenant_id = TenantId(application["tenantId"])
    ttl = ttl_seconds(await services.configuration.tenants.get(None, tenant_id), application)
    record_ids = await services.tokens.refresh_tokens.ids_of_application(tenant_id, ApplicationId(application_id))
    if not record_ids:
        return
    lives = {application_id: ttl}
    event = Event(
        "jwt.refresh-token.revoke", {"applicationId": application_id, "applicationTimeToLiveInSeconds": lives}
    )
    revoke = functools.partial(
        services.tokens.refresh_tokens.revoke_application, tenant_id, ApplicationId(application_id)
    )
    await services.bus.commit(call.within(tenant_id), Change([revoke], [event]))
    await services.tokens.revocations.revoke(tenant_id, record_ids, ttl)


async def _tenant_of_user(services: Services, call: Call, user_id: str) -> TenantId | None:
    """The tenant of the call, else that of the user; None where there is no such user."""
    if call.tenant_id is not None:
        return call.tenant_id
    user = await services.directory.users.find_cached_across_tenants(user_id)
    return None if user is None else TenantId(user["tenantId"])


async def _presented(services: Services, call: Call, value: str) -> PresentedRefreshToken | None:
    """The live refresh token of a value, in the call's tenant; where no tenant is known, the token says which."""
    if call.tenant_id is None:
        return await services.tokens.refresh_tokens.find_by_value_across_tenants(value, call.now)
    return await services.tokens.refresh_tokens.find_by_value(call.tenant_id, value, call.now)


async def _client(services: Services, record: Document) -> Client | None:
    """The active application of a refresh token."""
    try:
        return await clients.get_client(services, TenantHints(path=record["tenantId"]), record["applicationId"])
    except InvalidRequest:
        return None


def _names_nothing() -> Invalid:
    return Invalid.field("missing", "token", "One of [token], [userId] and [applicationId] must be there.")


def _allows_refresh(application: Document) -> bool:
    is_on = bool(application["loginConfiguration"]["allowTokenRefresh"])
    return is_on and security_profiles.allows_tokens_by_api(application)


def _unusable(message: str, name: str = "refreshToken") -> Invalid:
    return Invalid.field("invalid", name, message)


def _ttl_seconds(tenant: Document, application: Document | None) -> int:
    """How long access tokens live; those of an application that is gone as long as the tenant says."""
    if application is None:
        return int(tenant["jwtConfiguration"]["timeToLiveInSeconds"])
    return ttl_seconds(tenant, application)


def _shown(record: Document) -> Document:
    """Return the record with its value, as the published API does."""
    return {**rules.to_event(record), "token": record["token"]}
