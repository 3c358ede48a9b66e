"""Breached passwords at logins: the tenant's `onLogin`."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain import breaches as rules
from identity.ids import TenantId, UserId
from identity.operations import breaches, mail, user_events
from identity.services import Services
from identity.store.mongo import Session

_OFF: Final = "Off"


async def at_login(services: Services, call: Call, tenant: Document, user: Document, password: str) -> Document:
    """Look for the password of a user who has just shown it; answers the user as it is stored then.

    What is found is noted and told: to webhooks each time, which may veto the login, and where the tenant has it to the
    user, the first time; or the password has to be changed. Raises WebhookTransactionFailed.
    """
    on_login = rules.detection_of(tenant)["onLogin"]
    if on_login == _OFF or not breaches.is_on(services, tenant):
        return user
    status = await breaches.judge(services, tenant, user, password)
    if status is None:
        return user
    is_found, is_news = status != rules.NONE, status != user.get("breachedPasswordStatus")
    marked = rules.marked(user, status, call.now)
    if is_found and on_login == "RequireChange":
        marked = {**marked, "passwordChangeRequired": True, "passwordChangeReason": "Breached"}
    await _note(services, call, user, marked, is_found=is_found)
    if is_found and is_news and on_login == "NotifyUser":
        await _notify(services, call, tenant, marked)
    return marked


async def _note(services: Services, call: Call, before: Document, user: Document, *, is_found: bool) -> None:
    tenant_id = TenantId(user["tenantId"])
    changed = {name: value for name, value in user.items() if before.get(name) != value}
    password_hash = before["private"]["password"]["hash"]

    async def write(session: Session | None) -> None:
        await services.users.note_password(tenant_id, UserId(user["id"]), password_hash, changed, session)

    offered = [user_events.about("user.password.breach", user)] if is_found else []
    await services.bus.perform(call.within(tenant_id), write, offered)


async def _notify(services: Services, call: Call, tenant: Document, user: Document) -> None:
    template_id = rules.detection_of(tenant).get("notifyUserEmailTemplateId")
    if template_id is not None and user.get("email"):
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, {})
