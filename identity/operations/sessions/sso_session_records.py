"""SSO sessions in the form of the refresh token APIs: records without an application, which issue no tokens.

Their token is the secret of a browser and is never returned.
"""

from __future__ import annotations

from identity import write_guard
from identity.call import Call, Document
from identity.events.changes import Event
from identity.ids import TenantId, UserId
from identity.instants import later
from identity.operations.messaging import user_events
from identity.operations.sessions import sso_sessions
from identity.services import Services
from identity.store.browser_sessions import SsoSession

REVOCATION_EVENT = "jwt.refresh-token.revoke"


async def find_of_user(services: Services, call: Call, tenant_id: TenantId, user_id: UserId) -> list[Document]:
    """Return the records of a user's live sessions."""
    idle_seconds = await _idle_seconds(services, tenant_id)
    found = await services.sessions.sso_sessions.find_of_user(tenant_id, user_id) if idle_seconds > 0 else []
    return [_with_last_use(call, tenant_id, session, idle_seconds) for session in found]


async def find(services: Services, call: Call, tenant_id: TenantId, session_id: str) -> Document | None:
    """Return the record of a live session, or None."""
    idle_seconds = await _idle_seconds(services, tenant_id)
    session = await services.sessions.sso_sessions.find_by_id(tenant_id, session_id) if idle_seconds > 0 else None
    return None if session is None else _with_last_use(call, tenant_id, session, idle_seconds)


async def end(services: Services, call: Call, record: Document) -> None:
    """End the session of a record and notify its applications.

    Raises WebhookTransactionFailed, and Unauthorized if the guard of the request refuses the user.
    """
    tenant_id = TenantId(record["tenantId"])
    user = await services.directory.users.find(tenant_id, UserId(record["userId"]))
    if user is not None:
        await write_guard.check_sign_out(user)
        await services.bus.request_approval(call.within(tenant_id), [revocation(record, user)])
    await sso_sessions.end_by_id(services, call, tenant_id, record["id"])


def from_session(tenant_id: str, session: SsoSession) -> Document:
    """Return a session as a refresh token record without an application."""
    instants = {"insertInstant": session.auth_instant, "startInstant": session.auth_instant}
    return {"id": session.session_id, "tenantId": tenant_id, "userId": session.user_id, **instants}


def revocation(record: Document, user: Document) -> Event:
    """Return the event of an ended session. Its lifetimes are empty, since access tokens stay valid."""
    return user_events.user_event(
        REVOCATION_EVENT, user, applicationTimeToLiveInSeconds={}, refreshToken=record, userId=record["userId"]
    )


def _with_last_use(call: Call, tenant_id: TenantId, session: SsoSession, idle_seconds: int) -> Document:
    """Return the record; its `startInstant` is the last use, from which clients compute when the session expires."""
    record = from_session(tenant_id, session)
    last_use = later(call.now, seconds=-idle_seconds) + session.remaining_ms
    return {**record, "startInstant": max(record["insertInstant"], last_use)}


async def _idle_seconds(services: Services, tenant_id: TenantId) -> int:
    tenant = await services.configuration.tenants.find_cached(None, tenant_id)
    return 0 if tenant is None else int(tenant["httpSessionMaxInactiveInterval"])
