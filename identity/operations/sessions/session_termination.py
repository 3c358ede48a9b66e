"""Terminate what a user is logged in with: refresh tokens, their access tokens, and SSO sessions.

A change that logs a user out calls `prepare` first, commits `writes` and the termination's events with its own, and
calls `finish` after the commit.
"""

from __future__ import annotations

import dataclasses
import functools

from identity import write_guard
from identity.call import Call, Document
from identity.domain.configuration.token_settings import effective_ttl_seconds
from identity.events.changes import Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.messaging import user_events
from identity.operations.sessions import back_channel_logout, sso_sessions
from identity.services import Services
from identity.store.mongo import Write
from identity.store.work_queues import LogoutNotice


@dataclasses.dataclass(frozen=True, slots=True)
class SessionTermination:
    """The refresh tokens of a user, all or those of one application, that are to be revoked, with their `events`.

    With all of them the SSO sessions end; `notices` are the back-channel logout notices of their applications.
    """

    tenant_id: TenantId
    user_id: UserId
    application_id: ApplicationId | None
    record_ids: tuple[str, ...]
    ttl_seconds: int
    events: tuple[Event, ...]
    notices: tuple[LogoutNotice, ...]


async def prepare(
    services: Services, call: Call, user: Document, application_id: ApplicationId | None = None
) -> SessionTermination:
    """Return what is to be terminated; it has no events if the user has no live refresh token.

    The event states the maximum lifetime of access tokens per application, for which resource servers reject older
    ones. Raises Unauthorized if the guard of the request refuses the user.
    """
    await write_guard.check_sign_out(user)
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    records = [
        record
        for record in await services.tokens.refresh_tokens.find_of_user(tenant_id, user_id, call.now)
        if application_id in {None, record["applicationId"]}
    ]
    lifetimes = await _access_token_lifetimes(services, tenant_id, {record["applicationId"] for record in records})
    payload: Document = {
        "userId": user_id,
        "applicationTimeToLiveInSeconds": lifetimes,
        "applicationId": application_id,
    }
    events = (user_events.user_event("jwt.refresh-token.revoke", user, **payload),) if records else ()
    record_ids = tuple(record["id"] for record in records)
    notices = () if application_id else await _notices(services, call, tenant_id, user_id)
    maximum_seconds = max(lifetimes.values(), default=0)
    return SessionTermination(tenant_id, user_id, application_id, record_ids, maximum_seconds, events, notices)


def writes(services: Services, call: Call, termination: SessionTermination | None) -> list[Write]:
    """Return the writes that revoke the refresh tokens and store the logout notices; none for None."""
    if termination is None:
        return []
    tenant_id, user_id, application_id = termination.tenant_id, termination.user_id, termination.application_id
    revoke = functools.partial(services.tokens.refresh_tokens.revoke_user, tenant_id, user_id, application_id)
    if not termination.notices:
        return [revoke]
    return [revoke, functools.partial(services.sessions.logout_notices.add, termination.notices, call.now)]


async def finish(services: Services, call: Call, termination: SessionTermination | None) -> None:
    """After the commit: deny the access tokens of the refresh tokens for their lifetime, and end the SSO sessions."""
    if termination is None:
        return
    await services.tokens.revocations.revoke(termination.tenant_id, termination.record_ids, termination.ttl_seconds)
    if termination.application_id is None:
        await sso_sessions.end_all(services, call, termination.tenant_id, termination.user_id, termination.notices)


async def _notices(services: Services, call: Call, tenant_id: TenantId, user_id: UserId) -> tuple[LogoutNotice, ...]:
    receivers = await back_channel_logout.find_receivers(services, tenant_id)
    sessions = await services.sessions.sso_sessions.find_of_user(tenant_id, user_id) if receivers else []
    return back_channel_logout.new_notices(call, tenant_id, sessions, receivers)


async def _access_token_lifetimes(services: Services, tenant_id: TenantId, application_ids: set[str]) -> dict[str, int]:
    """Return the access token lifetime of each application in seconds."""
    tenant = await services.configuration.tenants.get(None, tenant_id)
    return {
        one: effective_ttl_seconds(tenant, await services.configuration.applications.find_cached(tenant_id, one))
        for one in sorted(application_ids)
    }
