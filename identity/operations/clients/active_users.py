"""Check the user of a grant or token again on every use, so that deactivation takes effect immediately."""

from __future__ import annotations

from identity import request_facts
from identity.call import Document
from identity.domain.user_actions import action_logs
from identity.errors import OAuth2Error
from identity.ids import TenantId
from identity.instants import Instant
from identity.services import Services


async def get_active_user(
    services: Services,
    tenant_id: TenantId,
    user_id: str,
    now: Instant,
    error_class: type[OAuth2Error],
    *,
    logging_in_to: str | None = None,
) -> Document:
    """Return the user, a shared document. Raises `error_class` if they are deleted, locked or expired.

    `logging_in_to` is the application of a login that completes now, which user actions may prevent. Earlier logins
    are revoked by the tenant's `onLoginPrevented` instead.
    """
    request_facts.note_user(user_id)
    user = await services.directory.users.find_cached(tenant_id, user_id)
    if user is None:
        raise error_class("user_not_found", "The user does not exist any more.")
    if not user["active"]:
        raise error_class("user_locked", "The user is locked.")
    if user.get("expiry") is not None and user["expiry"] <= now:
        raise error_class("user_expired", "The user has expired.")
    if logging_in_to is not None and action_logs.preventing(user, logging_in_to, now):
        raise error_class("login_prevented", "An action on the user prevents the login.")
    return user
