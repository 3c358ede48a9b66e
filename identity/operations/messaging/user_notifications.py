"""Mails that notify a user of changes of the account; sent if tenant or application configure a template."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm
from identity.domain.messaging import mail_messages
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects import event_info
from identity.domain.users import users
from identity.ids import TenantId
from identity.operations.groups import administrator_realm as realm
from identity.operations.messaging import mail, user_events
from identity.operations.messaging.mail import MailOptions
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
_DUPLICATE_TEMPLATES: Final[dict[str, Template]] = {
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
"""The published `event.type` by template, so that templates can be shared."""
_BUILTIN: Final = {"forgotPasswordEmailTemplateId": BuiltinMail("forgotPassword")}
"""Mails that users request on the pages, and that need no template of the tenant."""
_BUILTIN_FOR_ADMINISTRATORS: Final = {
    **_BUILTIN,
    **dict.fromkeys(
        ("loginNewDeviceEmailTemplateId", "loginSuspiciousEmailTemplateId"), BuiltinMail("administratorLogin")
    ),
    **dict.fromkeys(
        (
            "emailUpdateEmailTemplateId",
            "passwordResetSuccessEmailTemplateId",
            "passwordUpdateEmailTemplateId",
            "twoFactorMethodAddEmailTemplateId",
            "twoFactorMethodRemoveEmailTemplateId",
        ),
        BuiltinMail("administratorChange"),
    ),
}
"""Mails to administrators, who receive no template of the tenant."""
_MAX_DUPLICATE_NOTICES: Final = 5
_DUPLICATE_NOTICES_SECONDS: Final = 3600


def configured_template(tenant: Document, application: Document | None, name: str) -> str | None:
    """Return the id of the template that `emailConfiguration` names: the application's, else the tenant's.

    None also for a tenant without a mail server, whose pages and logins hence offer and send no mails, and in the realm
    of the console, which has built-in mails only.
    """
    if not mail_messages.has_mail_server(tenant) or administrator_realm.is_realm(tenant):
        return None
    of_application = None if application is None else application["emailConfiguration"].get(name)
    found: str | None = of_application or tenant["emailConfiguration"].get(name)
    return found


def template_of(tenant: Document, application: Document | None, name: str) -> str | BuiltinMail | None:
    """Return the configured template of a mail, else a built-in one, if any; None without a mail server."""
    if not mail_messages.has_mail_server(tenant):
        return None
    if administrator_realm.is_realm(tenant):
        return _BUILTIN_FOR_ADMINISTRATORS.get(name)
    return configured_template(tenant, application, name) or _BUILTIN.get(name)


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
    """Send a mail to a user, or to another `address` about the user, after the change was committed.

    Does nothing without a template or an address. The template can use `data`, `event.type`, `event.createInstant` and
    `event.info` (the origin of the request).
    """
    tenant = await realm.of_user(services, tenant, user)
    template_id = template_of(tenant, application, name)
    if template_id is None or (address or users.email_address(user)) is None:
        return
    event = {
        "createInstant": call.now,
        "info": event_info.build(call, services.runtime.geoip.find),
        "type": _EVENT_TYPES[name],
    }
    template_values = {"event": event, **(data or {})}
    tenant_id = TenantId(tenant["id"])
    options = MailOptions(address=address)
    await mail.send(
        services, call, tenant_id, template_id, user, template_values, application=application, options=options
    )


async def notify_update(
    services: Services, call: Call, tenant: Document, before: Document, user: Document, *, new_password: bool
) -> None:
    """Notify of an update: a new email (at the old and the new address) and a new password."""
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
    operation: Literal["create", "update"],
) -> None:
    """Notify webhooks and the owners of login ids that a request tried to use these login ids.

    Anonymous callers can trigger this: a user gets at most five mails an hour.
    """
    others = list(others)
    await user_events.announce_duplicates(services, call, f"user.loginId.duplicate.{operation}", user, others)
    name = _DUPLICATE_TEMPLATES[operation]
    if template_of(tenant, None, name) is None:
        return
    for other in others:
        limit = Limit("notice-in-use", str(other["id"]), _MAX_DUPLICATE_NOTICES, _DUPLICATE_NOTICES_SECONDS)
        if await services.limits.rate_limits.consume(TenantId(tenant["id"]), [limit]) is None:
            await notify(services, call, tenant, other, name)
