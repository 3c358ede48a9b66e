"""Breached passwords at logins: the tenant's `onLogin`."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.login import breach_detection as rules
from identity.events.changes import Write
from identity.ids import TenantId, UserId
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import mail, user_events
from identity.operations.passwords import breach_detection
from identity.services import Services
from identity.store.mongo import Session

_OFF: Final = "Off"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginBreachCheck:
    """What came of looking for a password: the user as marked with it, and what is done about it at the login."""

    user: Document
    side_effects: LoginSideEffects


async def check_login(
    services: Services, call: Call, tenant: Document, user: Document, password: str
) -> LoginBreachCheck | None:
    """Look for the password of a user who has just shown it; None where nothing is looked for or nobody could say.

    What is found is noted and told with the outcome of the login: to webhooks each time, which may veto the login, and
    where the tenant has it to the user, the first time; or the password has to be changed.
    """
    on_login = rules.settings_of(tenant)["onLogin"]
    if on_login == _OFF or not breach_detection.is_enabled(services, tenant):
        return None
    status = await breach_detection.check_password(services, tenant, user, password)
    if status is None:
        return None
    is_found, is_news = status != rules.NOT_BREACHED, status != user.get("breachedPasswordStatus")
    marked = rules.with_breach_status(user, status, call.now)
    if is_found and on_login == "RequireChange":
        marked = {**marked, "passwordChangeRequired": True, "passwordChangeReason": "Breached"}
    events = [user_events.about("user.password.breach", marked)] if is_found else []

    async def tell() -> None:
        if is_found and is_news and on_login == "NotifyUser":
            await _send_mail(services, call, tenant, marked)

    return LoginBreachCheck(marked, LoginSideEffects(_record_status(services, user, marked), found=events, after=tell))


def _record_status(services: Services, before: Document, user: Document) -> Write[None]:
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    changed = {name: value for name, value in user.items() if before.get(name) != value}
    password_hash = before["private"]["password"]["hash"]

    async def write(session: Session | None) -> None:
        await services.users.update_unless_password_changed(tenant_id, user_id, password_hash, changed, session)

    return write


async def _send_mail(services: Services, call: Call, tenant: Document, user: Document) -> None:
    template_id = rules.settings_of(tenant).get("notifyUserEmailTemplateId")
    if template_id is not None and user.get("email"):
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, {})
