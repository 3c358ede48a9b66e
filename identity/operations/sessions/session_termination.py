"""Ending what a user is signed in with, because the user changes: refresh tokens, what came of them, sessions."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.events.changes import Event, Write
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.messaging import user_events
from identity.operations.sessions import back_channel_logout, sso_sessions
from identity.services import Services
from identity.store.logout_notices import LogoutNotice
from identity.store.mongo import Session
from identity.tokens.issuer import ttl_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class SessionTermination:
    """A user's refresh tokens, all or those for one application, that are about to end; `events` tell of it.

    With all of them the sessions end; `notices` tell the applications that joined those.
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
    """What is to end; without any live token there is nothing to tell.

    Receivers refuse older access tokens of an application for as long as the event says that they can live.
    """
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    records = [
        record
        for record in await services.refresh_tokens.find_of_user(tenant_id, user_id, call.now)
        if application_id in {None, record["applicationId"]}
    ]
    lives = await _lives(services, tenant_id, {record["applicationId"] for record in records})
    payload: Document = {"userId": user_id, "applicationTimeToLiveInSeconds": lives, "applicationId": application_id}
    events = (user_events.about("jwt.refresh-token.revoke", user, **payload),) if records else ()
    record_ids = tuple(record["id"] for record in records)
    notices = () if application_id else await _notices(services, call, tenant_id, user_id)
    ttl = max(lives.values(), default=0)
    return SessionTermination(tenant_id, user_id, application_id, record_ids, ttl, events, notices)


def together(
    services: Services, call: Call, sign_out: SessionTermination | None, change: Write[object], *, as_one: bool = False
) -> Write[object]:
    """The change and, where there is any, the end of the refresh tokens.

    In one transaction `as_one`, and where applications are to be told: who is killed in between has forgotten nobody.
    """
    if sign_out is None:
        return change

    async def write(session: Session | None) -> None:
        if session is None and (as_one or sign_out.notices):
            await services.database.in_transaction(write)
            return
        await change(session)
        await services.refresh_tokens.revoke_user(
            sign_out.tenant_id, sign_out.user_id, sign_out.application_id, session
        )
        await services.logout_notices.add(sign_out.notices, call.now, session)

    return write


async def finish(services: Services, call: Call, sign_out: SessionTermination | None) -> None:
    """After the commit: deny the access tokens that came of the refresh tokens, for as long as they could live.

    Where everything was to end, end the sessions.
    """
    if sign_out is None:
        return
    await services.revocations.revoke(sign_out.tenant_id, sign_out.record_ids, sign_out.ttl_seconds)
    if sign_out.application_id is None:
        await sso_sessions.end_all(services, call, sign_out.tenant_id, sign_out.user_id, sign_out.notices)


async def _notices(services: Services, call: Call, tenant_id: TenantId, user_id: UserId) -> tuple[LogoutNotice, ...]:
    wanted = await back_channel_logout.find_receivers(services, tenant_id)
    sessions = await services.sso_sessions.find_of_user(tenant_id, user_id) if wanted else []
    return back_channel_logout.new_notices(call, tenant_id, sessions, wanted)


async def _lives(services: Services, tenant_id: TenantId, application_ids: set[str]) -> dict[str, int]:
    """How many seconds access tokens of each application live."""
    tenant = await services.tenants.get(None, tenant_id)
    found = {one: await services.applications.find_cached(tenant_id, one) for one in sorted(application_ids)}
    return {
        one: int(tenant["jwtConfiguration"]["timeToLiveInSeconds"]) if app is None else ttl_seconds(tenant, app)
        for one, app in found.items()
    }
