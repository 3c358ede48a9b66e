"""Breach detection at logins: the tenant's `breachDetection.onLogin` policy."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.login import breach_detection as breach_rules
from identity.ids import TenantId, UserId
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import mail, user_events
from identity.operations.passwords import breach_detection
from identity.services import Services
from identity.store.mongo import Session

_OFF: Final = "Off"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginBreachCheck:
    """The result of a check: the user with the breach status, and the side effects to commit with the login."""

    user: Document
    side_effects: LoginSideEffects


async def check_login(
    services: Services, call: Call, tenant: Document, user: Document, password: str
) -> LoginBreachCheck | None:
    """Check a password that was just verified; None where checks are off or the source of breach data is unavailable.

    A breached password is recorded and announced at every login, which webhooks may veto. Depending on the policy the
    user is mailed at the first detection, or has to change the password.
    """
    on_login = breach_rules.settings_of(tenant)["onLogin"]
    if on_login == _OFF or not breach_detection.is_enabled(services, tenant):
        return None
    status = await breach_detection.check_password(services, tenant, user, password)
    if status is None:
        return None
    is_breached, is_news = status != breach_rules.NOT_BREACHED, status != user.get("breachedPasswordStatus")
    updated = breach_rules.with_breach_status(user, status, call.now)
    if is_breached and on_login == "RequireChange":
        updated = {**updated, "passwordChangeRequired": True, "passwordChangeReason": "Breached"}
    notifies = is_breached and is_news and on_login == "NotifyUser"
    side_effects = LoginSideEffects(
        functools.partial(_record_status, services, user, updated),
        before_success=[user_events.user_event("user.password.breach", updated)] if is_breached else [],
        on_commit=functools.partial(_send_mail, services, call, tenant, updated) if notifies else None,
    )
    return LoginBreachCheck(updated, side_effects)


async def _record_status(services: Services, before: Document, user: Document, session: Session | None) -> None:
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    changed = {name: value for name, value in user.items() if before.get(name) != value}
    password_hash = before["private"]["password"]["hash"]
    await services.directory.users.update_unless_password_changed(tenant_id, user_id, password_hash, changed, session)


async def _send_mail(services: Services, call: Call, tenant: Document, user: Document) -> None:
    template_id = breach_rules.settings_of(tenant).get("notifyUserEmailTemplateId")
    if template_id is not None and user.get("email"):
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, {})
