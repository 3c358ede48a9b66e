"""The SSO session of a browser: found by its cookie, begun by a completed login, ended by a logout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from identity.call import Call, Document
from identity.ids import TenantId, UserId, new_id, new_secret
from identity.instants import Instant
from identity.operations.login_transactions.authorization_steps import NewLogin
from identity.operations.sessions import back_channel_logout
from identity.services import Services
from identity.store.logout_notices import LogoutNotice
from identity.store.sso_sessions import SsoSession

COOKIE = "fusionauth.sso"


async def find(services: Services, tenant: Document, secret: str) -> SsoSession | None:
    """The live session behind a cookie; being looked at counts as use. None where the tenant has SSO switched off."""
    idle_seconds = tenant["httpSessionMaxInactiveInterval"]
    if not secret or idle_seconds <= 0:
        return None
    return await services.sso_sessions.touch(TenantId(tenant["id"]), secret, idle_seconds)


async def begin(
    services: Services,
    call: Call,
    tenant: Document,
    fresh: NewLogin,
    *,
    client_id: str,
    replacing: str,
) -> tuple[str, SsoSession]:
    """Begin a session after a login and answer its secret; the browser's earlier session ends.

    The secret is always new: one that was set from outside before the login never becomes a session. Who logs in again
    goes on with the session of before under its name, so that no application has to hear of an end; of another user's
    session they hear. Where the tenant has SSO switched off the session exists for this request alone, and the secret
    is empty.
    """
    user_id = UserId(fresh.user["id"])
    tenant_id, idle_seconds = TenantId(tenant["id"]), tenant["httpSessionMaxInactiveInterval"]
    before = await services.sso_sessions.find(tenant_id, replacing) if replacing else None
    if before is not None and (before.user_id != user_id or idle_seconds <= 0):
        await end(services, call, tenant_id, replacing)
        before = None
    session_id, joined = (new_id(), frozenset[str]()) if before is None else (before.session_id, before.client_ids)
    session = SsoSession(
        session_id,
        user_id,
        fresh.auth_instant or Instant(call.now),
        fresh.authentication_type,
        fresh.is_persistent,
        joined | {client_id},
        fresh.second_factor,
    )
    if idle_seconds <= 0:
        return "", session
    secret = new_secret()
    await services.sso_sessions.create(tenant_id, secret, session, idle_seconds)
    if before is not None:
        await _move(services, tenant_id, replacing, secret, session)
    return secret, session


async def end(services: Services, call: Call, tenant_id: TenantId, secret: str) -> SsoSession | None:
    """End the session of a browser; answers what it was. The applications that joined it are told.

    What they are to be told is written before the session ends: who is killed in between tells of a session that the
    user is about to end once more, and never keeps an end from them.
    """
    sessions = services.sso_sessions
    return await _end_one(services, call, tenant_id, secret, sessions.find, sessions.end)


async def end_named(services: Services, call: Call, tenant_id: TenantId, session_id: str) -> SsoSession | None:
    """End the session of a name, as `end` does."""
    sessions = services.sso_sessions
    return await _end_one(services, call, tenant_id, session_id, sessions.find_by_id, sessions.end_by_id)


_Deed = Callable[[TenantId, str], Awaitable[SsoSession | None]]


async def _end_one(
    services: Services, call: Call, tenant_id: TenantId, which: str, find: _Deed, end_it: _Deed
) -> SsoSession | None:
    wanted = await back_channel_logout.find_receivers(services, tenant_id)
    seen = await find(tenant_id, which) if wanted else None
    first = back_channel_logout.new_notices(call, tenant_id, [seen] if seen else [], wanted)
    await services.logout_notices.add(first, call.now)
    ended = await end_it(tenant_id, which)
    if ended is not None:
        await _tell_late(services, call, tenant_id, [ended], first)
    return ended


async def end_all(
    services: Services, call: Call, tenant_id: TenantId, user_id: UserId, told: Collection[LogoutNotice] = ()
) -> None:
    """End every session of a user; the applications that joined them are told, unless they are `told` already."""
    ended = await services.sso_sessions.end_of_user(tenant_id, user_id)
    if ended:
        await _tell_late(services, call, tenant_id, ended, told)


async def _tell_late(
    services: Services, call: Call, tenant_id: TenantId, ended: Collection[SsoSession], told: Collection[LogoutNotice]
) -> None:
    """Tell those who joined when the others were being told already."""
    wanted = await back_channel_logout.find_receivers(services, tenant_id)
    late = [one for one in back_channel_logout.new_notices(call, tenant_id, ended, wanted) if one not in told]
    await services.logout_notices.add(late, call.now)


async def _move(services: Services, tenant_id: TenantId, old: str, new: str, session: SsoSession) -> None:
    """End a session that goes on under another secret, with those who joined it at the last moment."""
    ended = await services.sso_sessions.end(tenant_id, old)
    for client_id in ended.client_ids - session.client_ids if ended is not None else ():
        await services.sso_sessions.add_client(tenant_id, new, client_id)
