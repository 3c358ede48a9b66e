"""Refresh tokens over the API: who has which, and their end (spec: users, tokens; Logout API)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain import profiles
from identity.domain import refresh_tokens as rules
from identity.domain.client_authentication import Presented
from identity.errors import Invalid, InvalidRequest, NotFound, OAuth2Error
from identity.events.bus import Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations import clients, crud, sign_outs
from identity.operations.api_logins import Answer
from identity.operations.client_authentication import Identified
from identity.operations.clients import Client, TenantHints
from identity.operations.grants import common, refresh_token
from identity.services import Services
from identity.store.mongo import Session
from identity.tokens.issuer import ttl_seconds

_REFRESH = "api/jwt-refresh.request.json"
_REVOKE = "api/refresh-token-revoke.request.json"


async def refresh(services: Services, call: Call, body: Document) -> Answer:
    """A new access token for a refresh token of an application that lets the API refresh; the client proves nothing.

    Raises Invalid, also for a token that is unknown, spent, or bound to a key, and WebhookTransactionFailed.
    """
    request = services.schemas[_REFRESH].read(body)
    tenant_id = crud.require_tenant(call)
    value = request.get("refreshToken")
    if value is None:
        raise Invalid.field("missing", "refreshToken", "A [refreshToken] is required.")
    presented = await services.refresh_tokens.present(tenant_id, value, call.now)
    client = None if presented is None else await _client(services, tenant_id, presented.record)
    if presented is None or client is None or not _allows_refresh(client.application):
        raise _unusable("The [refreshToken] is unknown, expired, or cannot be used here.")
    if presented.record["private"].get("dpopJkt") is not None:
        raise _unusable("The [refreshToken] is bound to a key.")
    form = {"refresh_token": value, "access_token": request.get("token")}
    if "timeToLiveInSeconds" in request:
        form["expires_in"] = str(request["timeToLiveInSeconds"])
    nobody = Identified(client, Presented(client.client_id, "none"))
    try:
        answer = await refresh_token.refreshed(services, call.within(tenant_id), nobody, presented, form)
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
    return Answer(200, shown, expires)


async def retrieve(services: Services, call: Call, record_id: str) -> Document:
    """A refresh token by its id. Raises NotFound."""
    record = await services.refresh_tokens.find(crud.require_tenant(call), record_id)
    if record is None or record["expiresAt"] <= call.now:
        raise NotFound
    return _shown(record)


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """The live refresh tokens of a user, the newest first; of one who does not exist there are none."""
    found = await services.refresh_tokens.find_all(crud.require_tenant(call), UserId(user_id), call.now)
    return [_shown(record) for record in found]


async def revoke(services: Services, call: Call, record_id: str) -> None:
    """End one refresh token, and every access token that came of it. Raises NotFound."""
    record = await services.refresh_tokens.find(crud.require_tenant(call), record_id)
    if record is None:
        raise NotFound
    await _end(services, call, record)


async def revoke_those(services: Services, call: Call, body: Document) -> None:
    """End what a request names: one by its value, those of a user, of an application, or of a user for one.

    What is not there needs no end. Raises Invalid for a request that names nothing.
    """
    tenant_id = crud.require_tenant(call)
    request = services.schemas[_REVOKE].read(body)
    value, user_id, application_id = (request.get(name) for name in ("token", "userId", "applicationId"))
    if value is not None:
        presented = await services.refresh_tokens.present(tenant_id, value, call.now)
        if presented is not None:
            await _end(services, call, presented.record)
    elif user_id is not None:
        await _end_of_user(services, call, tenant_id, user_id, application_id)
    elif application_id is not None:
        await _end_of_application(services, call, tenant_id, application_id)
    else:
        message = "One of [token], [userId] and [applicationId] must be there."
        raise Invalid.field("missing", "token", message)


async def log_out(services: Services, call: Call, value: str | None, *, everywhere: bool) -> None:
    """End a refresh token or, `everywhere`, all of its user and the user's sessions. Without a live token nothing.

    A value that was rotated out is none: who found an old one cannot sign its user out everywhere.

    Raises WebhookTransactionFailed.
    """
    if not value or call.tenant_id is None:
        return
    presented = await services.refresh_tokens.present(call.tenant_id, value, call.now)
    if presented is None or not presented.is_current:
        return
    if not everywhere:
        await _end(services, call, presented.record)
        return
    await _end_of_user(services, call, call.tenant_id, presented.record["userId"], None)


async def _end(services: Services, call: Call, record: Document) -> None:
    """End one refresh token, where no webhook vetoes it, and deny the access tokens that came of it."""
    tenant_id, application_id = TenantId(record["tenantId"]), record["applicationId"]
    tenant = await services.tenants.get(None, tenant_id)
    application = await services.applications.cached(tenant_id, application_id)
    ttl = _ttl_seconds(tenant, application)
    user = await services.users.find(tenant_id, record["userId"])

    async def write(session: Session | None) -> None:
        await services.refresh_tokens.revoke(tenant_id, record["id"], session)

    events = [] if user is None else [common.revocation(application_id, user, record, ttl)]
    await services.bus.perform(call.within(tenant_id), write, offered=events)
    await services.revocations.revoke(tenant_id, [record["id"]], ttl)


async def _end_of_user(
    services: Services, call: Call, tenant_id: TenantId, user_id: str, application_id: str | None
) -> None:
    user = await services.users.find(tenant_id, UserId(user_id))
    if user is None:
        return
    chosen = None if application_id is None else ApplicationId(application_id)
    sign_out = await sign_outs.prepare(services, call, user, chosen)

    async def nothing_else(_session: Session | None) -> None:
        """The sign-out is the whole change."""

    change = sign_outs.together(services, call, sign_out, nothing_else)
    await services.bus.perform(call.within(tenant_id), change, offered=sign_out.events)
    await sign_outs.finish(services, call, sign_out)


async def _end_of_application(services: Services, call: Call, tenant_id: TenantId, application_id: str) -> None:
    """All of an application, with one event; access tokens that came of them are denied, too."""
    application = await services.applications.find(tenant_id, application_id)
    if application is None:
        return
    ttl = ttl_seconds(await services.tenants.get(None, tenant_id), application)
    record_ids = await services.refresh_tokens.ids_of_application(tenant_id, ApplicationId(application_id))
    if not record_ids:
        return
    lives = {application_id: ttl}
    event = Event(
        "jwt.refresh-token.revoke", {"applicationId": application_id, "applicationTimeToLiveInSeconds": lives}
    )

    async def write(session: Session | None) -> None:
        await services.refresh_tokens.revoke_application(tenant_id, ApplicationId(application_id), session)

    await services.bus.perform(call.within(tenant_id), write, offered=[event])
    await services.revocations.revoke(tenant_id, record_ids, ttl)


async def _client(services: Services, tenant_id: TenantId, record: Document) -> Client | None:
    """The active application of a refresh token."""
    try:
        return await clients.find(services, TenantHints(path=tenant_id), record["applicationId"])
    except InvalidRequest:
        return None


def _allows_refresh(application: Document) -> bool:
    is_on = bool(application["loginConfiguration"]["allowTokenRefresh"])
    return is_on and profiles.has_tokens_by_api(application)


def _unusable(message: str, name: str = "refreshToken") -> Invalid:
    return Invalid.field("invalid", name, message)


def _ttl_seconds(tenant: Document, application: Document | None) -> int:
    """How long access tokens live; those of an application that is gone as long as the tenant says."""
    if application is None:
        return int(tenant["jwtConfiguration"]["timeToLiveInSeconds"])
    return ttl_seconds(tenant, application)


def _shown(record: Document) -> Document:
    """The record with its value, which the API has always told."""
    return {**rules.shown(record), "token": record["token"]}
