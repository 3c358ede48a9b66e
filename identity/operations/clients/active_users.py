"""Whether the user of a grant or token still is one: asked at every use, so that a lock-out acts at once."""

from __future__ import annotations

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
    refusal: type[OAuth2Error],
    *,
    logging_in_to: str | None = None,
) -> Document:
    """The user, who is shared: nobody may change it. Raises `refusal` for one that is gone, locked or expired.

    `logging_in_to`: the application for which this ends a login, which an action on the user may prevent. What came of
    a login before is ended, or not, as the tenant's onLoginPrevented has it.
    """
    user = await services.users.find_cached(tenant_id, user_id)
    if user is None:
        raise refusal("user_not_found", "The user does not exist any more.")
    if not user["active"]:
        raise refusal("user_locked", "The user is locked.")
    if user.get("expiry") is not None and user["expiry"] <= now:
        raise refusal("user_expired", "The user has expired.")
    if logging_in_to is not None and action_logs.preventing(user, logging_in_to, now):
        raise refusal("login_prevented", "An action on the user prevents the login.")
    return user
