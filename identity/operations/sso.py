"""The SSO session of a browser: found by its cookie, begun by a completed login, ended by a logout."""

from __future__ import annotations

from identity.call import Call, Document
from identity.ids import TenantId, UserId, new_id, new_secret
from identity.instants import Instant
from identity.services import Services
from identity.store.sso_sessions import SsoSession

COOKIE = "fusionauth.sso"


async def find(services: Services, tenant: Document, secret: str) -> SsoSession | None:
    """The live session behind a cookie; being looked at counts as use. None where the tenant has SSO switched off."""
    idle_seconds = tenant["httpSessionMaxInactiveInterval"]
    if not secret or idle_seconds <= 0:
        return None
    return await services.sso_sessions.use(TenantId(tenant["id"]), secret, idle_seconds)


async def begin(
    services: Services,
    call: Call,
    tenant: Document,
    user_id: UserId,
    authentication_type: str,
    *,
    client_id: str,
    is_persistent: bool,
    replacing: str,
) -> tuple[str, SsoSession]:
    """Begin a session after a login and answer its secret; the browser's earlier session ends.

    The secret is always new: one that was set from outside before the login never becomes a session. Where the
    tenant has SSO switched off the session exists for this request alone, and the secret is empty.
    """
    tenant_id = TenantId(tenant["id"])
    if replacing:
        await services.sso_sessions.end(tenant_id, replacing)
    session = SsoSession(
        new_id(), user_id, Instant(call.now), authentication_type, is_persistent, frozenset({client_id})
    )
    idle_seconds = tenant["httpSessionMaxInactiveInterval"]
    if idle_seconds <= 0:
        return "", session
    secret = new_secret()
    await services.sso_sessions.create(tenant_id, secret, session, idle_seconds)
    return secret, session
