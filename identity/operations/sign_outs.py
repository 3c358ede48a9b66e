"""Ending what a user is signed in with, because of a change to the user: refresh tokens, and what came of them."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.events.bus import Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations import user_events
from identity.services import Services
from identity.store.mongo import Session
from identity.tokens.issuer import ttl_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class SignOut:
    """A user's refresh tokens, all or those for one application, that are about to end; `events` tell of it."""

    tenant_id: TenantId
    user_id: UserId
    application_id: ApplicationId | None
    record_ids: tuple[str, ...]
    ttl_seconds: int
    events: tuple[Event, ...]


async def prepare(
    services: Services, call: Call, user: Document, application_id: ApplicationId | None = None
) -> SignOut:
    """What is to end; without any live token there is nothing to tell.

    Receivers refuse older access tokens of an application for as long as the event says that they can live.
    """
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    records = [
        record
        for record in await services.refresh_tokens.find_all(tenant_id, user_id, call.now)
        if application_id in {None, record["applicationId"]}
    ]
    lives = await _lives(services, tenant_id, {record["applicationId"] for record in records})
    payload: Document = {"userId": user_id, "applicationTimeToLiveInSeconds": lives, "applicationId": application_id}
    events = (user_events.about("jwt.refresh-token.revoke", user, **payload),) if records else ()
    record_ids = tuple(record["id"] for record in records)
    return SignOut(tenant_id, user_id, application_id, record_ids, max(lives.values(), default=0), events)


async def write(services: Services, sign_out: SignOut, session: Session | None) -> None:
    """End the refresh tokens, in the transaction of the change."""
    await services.refresh_tokens.revoke_user(sign_out.tenant_id, sign_out.user_id, sign_out.application_id, session)


async def finish(services: Services, sign_out: SignOut) -> None:
    """After the commit: deny the access tokens that came of the refresh tokens, for as long as they could live."""
    await services.revocations.revoke(sign_out.tenant_id, sign_out.record_ids, sign_out.ttl_seconds)


async def _lives(services: Services, tenant_id: TenantId, application_ids: set[str]) -> dict[str, int]:
    """How many seconds access tokens of each application live."""
    tenant = await services.tenants.get(None, tenant_id)
    found = {one: await services.applications.cached(tenant_id, one) for one in sorted(application_ids)}
    return {
        one: int(tenant["jwtConfiguration"]["timeToLiveInSeconds"]) if app is None else ttl_seconds(tenant, app)
        for one, app in found.items()
    }
