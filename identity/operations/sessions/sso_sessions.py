"""SSO sessions of browsers: started by a completed login, found by their cookie, ended by a logout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from identity.call import Call, Document
from identity.ids import TenantId, UserId, new_id, new_secret
from identity.instants import Instant
from identity.operations.login_transactions.authorization_steps import NewLogin
from identity.operations.sessions import back_channel_logout
from identity.services import Services
from identity.store.browser_sessions import SsoSession
from identity.store.work_queues import LogoutNotice

COOKIE = "fusionauth.sso"


async def find(services: Services, tenant: Document, secret: str) -> SsoSession | None:
    """Return the live session of a cookie and extend it; None if the tenant disables SSO."""
    idle_seconds = tenant["httpSessionMaxInactiveInterval"]
    if not secret or idle_seconds <= 0:
        return None
    return await services.sessions.sso_sessions.touch(TenantId(tenant["id"]), secret, idle_seconds)


async def begin(
    services: Services, call: Call, tenant: Document, login: NewLogin, *, client_id: str, replacing: str
) -> tuple[str, SsoSession]:
    """Start a session after a login and return its secret; the browser's earlier session ends.

    The secret is always new, which prevents session fixation. If the same user logs in again the session keeps its id,
    so that no application needs a logout notice; for another user's session they receive one. If the tenant disables
    SSO the session exists for this request only, and the secret is empty.
    """
    user_id = UserId(login.user["id"])
    tenant_id, idle_seconds = TenantId(tenant["id"]), tenant["httpSessionMaxInactiveInterval"]
    previous = await services.sessions.sso_sessions.find(tenant_id, replacing) if replacing else None
    if previous is not None and (previous.user_id != user_id or idle_seconds <= 0):
        await end(services, call, tenant_id, replacing)
        previous = None
    session_id, joined = (
        (new_id(), frozenset[str]()) if previous is None else (previous.session_id, previous.client_ids)
    )
    sessions, provider_session = services.sessions.sso_sessions, "" if previous is None else previous.provider_session
    if login.provider_session is not None:
        provider_session = sessions.seal_provider_session(session_id, login.provider_session)
    session = SsoSession(
        session_id,
        user_id,
        login.auth_instant or Instant(call.now),
        login.authentication_type,
        login.is_persistent,
        joined | {client_id},
        login.second_factor,
        login.realm,
        login.start_instant,
        provider_session,
    )
    if idle_seconds <= 0:
        return "", session
    secret = new_secret()
    await sessions.create(tenant_id, secret, session, idle_seconds)
    if previous is not None:
        await _move(services, tenant_id, replacing, secret, session)
    return secret, session


async def end(services: Services, call: Call, tenant_id: TenantId, secret: str) -> SsoSession | None:
    """End the session of a browser, notify its applications, and return it.

    The notices are stored before the session ends: after a crash in between applications may receive a notice of a
    session that still exists and that the user is about to end again, but none misses a notice.
    """
    sessions = services.sessions.sso_sessions
    return await _end_one(services, call, tenant_id, secret, sessions.find, sessions.end)


async def end_by_id(services: Services, call: Call, tenant_id: TenantId, session_id: str) -> SsoSession | None:
    """End the session with an id, as `end` does."""
    sessions = services.sessions.sso_sessions
    return await _end_one(services, call, tenant_id, session_id, sessions.find_by_id, sessions.end_by_id)


_SessionLookup = Callable[[TenantId, str], Awaitable[SsoSession | None]]


async def _end_one(
    services: Services, call: Call, tenant_id: TenantId, key: str, find: _SessionLookup, end_it: _SessionLookup
) -> SsoSession | None:
    receivers = await back_channel_logout.find_receivers(services, tenant_id)
    session = await find(tenant_id, key) if receivers else None
    notices = back_channel_logout.new_notices(call, tenant_id, [session] if session else [], receivers)
    await services.sessions.logout_notices.add(notices, call.now)
    ended = await end_it(tenant_id, key)
    if ended is not None:
        await _notify_late_joiners(services, call, tenant_id, [ended], notices)
    return ended


async def end_all(
    services: Services, call: Call, tenant_id: TenantId, user_id: UserId, stored: Collection[LogoutNotice] = ()
) -> None:
    """End every session of a user and notify their applications, except for the notices that are `stored` already."""
    ended = await services.sessions.sso_sessions.end_of_user(tenant_id, user_id)
    if ended:
        await _notify_late_joiners(services, call, tenant_id, ended, stored)


async def _notify_late_joiners(
    services: Services, call: Call, tenant_id: TenantId, ended: Collection[SsoSession], stored: Collection[LogoutNotice]
) -> None:
    """Notify the applications that joined the sessions after the notices were stored."""
    receivers = await back_channel_logout.find_receivers(services, tenant_id)
    late = [one for one in back_channel_logout.new_notices(call, tenant_id, ended, receivers) if one not in stored]
    await services.sessions.logout_notices.add(late, call.now)


async def _move(services: Services, tenant_id: TenantId, old: str, new: str, session: SsoSession) -> None:
    """End the session under its old secret; applications that joined it meanwhile join it under the new one."""
    ended = await services.sessions.sso_sessions.end(tenant_id, old)
    for client_id in ended.client_ids - session.client_ids if ended is not None else ():
        await services.sessions.sso_sessions.add_client(tenant_id, new, client_id)
