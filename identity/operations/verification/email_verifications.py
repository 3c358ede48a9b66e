"""Email verifications: started with a mail, and completed with the id or code in it or by an administrator.

`mark_verified` is the only place that verifies the address of a stored user.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.mail_messages import Address
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, user_events, user_notifications
from identity.operations.verification import email_changes, verification_codes, verified_users
from identity.operations.verification.verification_codes import OpenVerification
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

KIND: Final = "emailVerification"


async def start(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None = None,
    *,
    send: bool = True,
    reuse: bool = False,
) -> OpenVerification:
    """Start the verification of a user's address and, with `send`, mail it.

    `reuse`: an open verification is kept and mailed again. Raises Unavailable when the tenant's limit of mails is
    exceeded.
    """
    if send:
        await message_limits.count_message(services, tenant, "sendEmailVerification", user["id"])
    strategy = EmailVerification.of(tenant).verification_strategy
    details = {"email": user["email"]}
    open_verification = verification_codes.reuse_or_start if reuse else verification_codes.start
    started = await open_verification(services, tenant, KIND, user["id"], details, strategy)
    if send:
        await send_mail(services, call, tenant, user, application, started)
    return started


async def start_for_change(
    services: Services,
    call: Call,
    tenant: Document,
    before: Document | None,
    user: Document,
    application: Document | None = None,
) -> None:
    """After a create or update: start the verification of a new address that is unverified.

    When the tenant's limit of mails is exceeded no mail is sent, and the change stays.
    """
    is_new = before is None or before.get("email") != user.get("email")
    if is_new and "email" in user and user_rules.is_verification_pending(user):
        with contextlib.suppress(Unavailable):
            await start(services, call, tenant, user, application)


async def send_mail(
    services: Services,
    call: Call,
    tenant: Document,
    to: Document | Address,
    application: Document | None,
    started: OpenVerification,
) -> bool:
    """Mail a verification to a user, or to an address without a user; False without a template."""
    template_id = template_of(tenant, application)
    if template_id is None:
        return False
    data = started.template_variables()
    await mail.send(services, call, TenantId(tenant["id"]), template_id, to, data, application=application)
    return True


def template_of(tenant: Document, application: Document | None) -> str | None:
    """Return the template of verification mails: the application's, else the tenant's."""
    own = None if application is None else application["emailConfiguration"].get("emailVerificationEmailTemplateId")
    found: str | None = own or tenant["emailConfiguration"].get("verificationEmailTemplateId")
    return found


async def complete(
    services: Services, call: Call, verification_id: str, one_time_code: str | None, *, reason: str = "Completed"
) -> Document:
    """Verify the address of an id, and apply the change if it was pending; return the user.

    Of concurrent callers with the same id one succeeds. Raises NotFound for an invalid id, or if the user's address has
    changed; Invalid for a missing or incorrect code; WebhookTransactionFailed, with the id still valid.
    """
    token = await verification_codes.verify_code(services, call.tenant_id, KIND, verification_id, one_time_code)
    use = services.tokens.one_time_tokens.use(token.tenant_id, KIND, verification_id)
    if email_changes.is_change(token):
        return await email_changes.complete(services, call, token, use)
    user = await services.directory.users.get(token.tenant_id, token.owner)
    if user.get("email") != token.document["email"]:
        raise NotFound(log_detail="the address was changed since the verification began")
    return await mark_verified(services, call, user, reason, use=use)


async def mark_verified(
    services: Services, call: Call, user: Document, reason: str, *, use: OneTimeTokenUse | None = None
) -> Document:
    """Mark the address of a stored user as verified, with a `verifiedReason`; return the user.

    A verified user, or one without an address, stays unchanged without events. `use` is consumed with the change.
    Raises NotFound if the user is gone or has another address, and WebhookTransactionFailed.
    """
    tenant_id = TenantId(user["tenantId"])
    verify = functools.partial(_verify, call, user, reason)
    changed, is_new = await verified_users.commit(services, call, user, verify, use)
    if is_new:
        await finish_verification(services, call, await services.configuration.tenants.get(None, tenant_id), changed)
    else:
        await verification_codes.revoke(services, tenant_id, KIND, user["id"])
    return changed


def _verify(call: Call, user: Document, reason: str, stored: Document) -> UserVerification | None:
    if stored.get("email") != user.get("email"):
        raise NotFound(log_detail="the address was changed meanwhile")
    if "email" not in stored or stored["verified"]:
        return None
    changed = user_rules.with_verified_email(stored, reason, call.now)
    return UserVerification(changed, user_events.email_verified(changed))


async def finish_verification(services: Services, call: Call, tenant: Document, user: Document) -> None:
    """After the commit of a verified address: revoke the open verification and notify the user."""
    await verification_codes.revoke(services, TenantId(tenant["id"]), KIND, user["id"])
    await user_notifications.notify(services, call, tenant, user, "emailVerifiedEmailTemplateId")


async def find_or_start(
    services: Services, call: Call, user: Document, application: Document | None = None
) -> OpenVerification:
    """Return the open verification of a user whose login requires it, or start and mail a new one.

    Raises Unavailable as `start` does.
    """
    tenant = await services.configuration.tenants.get(None, TenantId(user["tenantId"]))
    found = await verification_codes.find_open(services, TenantId(tenant["id"]), KIND, user["id"])
    return found or await start(services, call, tenant, user, application)
