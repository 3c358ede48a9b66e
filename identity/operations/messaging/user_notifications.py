"""Mails that tell a user of what happened to the account: each is on where tenant or application name a template."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.objects import event_info
from identity.domain.users import users
from identity.ids import TenantId
from identity.operations.messaging import mail, user_events
from identity.operations.messaging.mail import Extras
from identity.services import Services
from identity.store.rate_limits import Limit

Template = Literal[
    "emailUpdateEmailTemplateId",
    "emailVerifiedEmailTemplateId",
    "loginIdInUseOnCreateEmailTemplateId",
    "loginIdInUseOnUpdateEmailTemplateId",
    "loginNewDeviceEmailTemplateId",
    "loginSuspiciousEmailTemplateId",
    "passwordResetSuccessEmailTemplateId",
    "passwordUpdateEmailTemplateId",
    "twoFactorMethodAddEmailTemplateId",
    "twoFactorMethodRemoveEmailTemplateId",
]
_IN_USE: Final[dict[str, Template]] = {
    "create": "loginIdInUseOnCreateEmailTemplateId",
    "update": "loginIdInUseOnUpdateEmailTemplateId",
}
_EVENT_TYPES: Final[dict[Template, str]] = {
    "emailUpdateEmailTemplateId": "UserEmailUpdate",
    "emailVerifiedEmailTemplateId": "UserEmailVerified",
    "loginIdInUseOnCreateEmailTemplateId": "UserLoginIdDuplicateOnCreate",
    "loginIdInUseOnUpdateEmailTemplateId": "UserLoginIdDuplicateOnUpdate",
    "loginNewDeviceEmailTemplateId": "UserLoginNewDevice",
    "loginSuspiciousEmailTemplateId": "UserLoginSuspicious",
    "passwordResetSuccessEmailTemplateId": "UserPasswordResetSuccess",
    "passwordUpdateEmailTemplateId": "UserPasswordUpdate",
    "twoFactorMethodAddEmailTemplateId": "UserTwoFactorMethodAdd",
    "twoFactorMethodRemoveEmailTemplateId": "UserTwoFactorMethodRemove",
}
"""The published names of event types in templates, by which one template serves several notices."""
_IN_USE_NOTICES: Final = 5
_IN_USE_SECONDS: Final = 3600


def template_of(tenant: Document, application: Document | None, name: str) -> str | None:
    """The id of the template that `emailConfiguration` names: the application's, else the tenant's."""
    own = None if application is None else application["emailConfiguration"].get(name)
    found: str | None = own or tenant["emailConfiguration"].get(name)
    return found


async def notify(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    name: Template,
    data: Document | None = None,
    *,
    application: Document | None = None,
    address: str | None = None,
) -> None:
    """Send a notice to a user (or to another `address` about the user), after the commit of what it tells of.

    Does nothing where no template is named, or the user has no address. Beside `data` the template reads
    `event.type`, `event.createInstant` and `event.info`: what happened, when, and where the request came from.
    """
    template_id = template_of(tenant, application, name)
    if template_id is None or (address or users.email_address(user)) is None:
        return
    event = {
        "createInstant": call.now,
        "info": event_info.build(call, services.geoip.find),
        "type": _EVENT_TYPES[name],
    }
    values = {"event": event, **(data or {})}
    tenant_id = TenantId(tenant["id"])
    extras = Extras(address=address)
    await mail.send(services, call, tenant_id, template_id, user, values, application=application, extras=extras)


async def notify_update(
    services: Services, call: Call, tenant: Document, before: Document, user: Document, *, new_password: bool
) -> None:
    """Tell of an update: a new email, to the old address and the new one, and a new password."""
    previous = before.get("email")
    if previous and previous != user.get("email"):
        data = {"previousEmail": previous}
        await notify(services, call, tenant, user, "emailUpdateEmailTemplateId", data, address=previous)
        await notify(services, call, tenant, user, "emailUpdateEmailTemplateId", data)
    if new_password:
        await notify(services, call, tenant, user, "passwordUpdateEmailTemplateId")


async def notify_duplicate(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    others: Iterable[Document],
    deed: Literal["create", "update"],
) -> None:
    """Tell webhooks, and those who have them, that somebody wanted to have their login ids.

    Anybody may ask to register with them: no more than five mails an hour go to a user.
    """
    others = list(others)
    await user_events.announce_duplicates(services, call, f"user.loginId.duplicate.{deed}", user, others)
    name = _IN_USE[deed]
    if template_of(tenant, None, name) is None:
        return
    for other in others:
        limit = Limit("notice-in-use", str(other["id"]), _IN_USE_NOTICES, _IN_USE_SECONDS)
        if await services.rate_limits.consume(TenantId(tenant["id"]), [limit]) is None:
            await notify(services, call, tenant, other, name)
