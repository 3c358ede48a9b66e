"""Verifying email addresses: begun with a mail, completed with what stands in it, or done by an administrator.

`mark_verified` is the one place where the address of a stored user becomes a verified one.
"""

from __future__ import annotations

import contextlib
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.mail_messages import Address
from identity.domain.users import users as rules
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
    again: bool = False,
) -> OpenVerification:
    """Begin to verify a user's address; `send` mails the id, by the application's template if it has one.

    `again`: what is open already goes on, and is mailed once more.

    Raises Unavailable when the tenant allows no more mails of this kind for now.
    """
    if send:
        await message_limits.count_message(services, tenant, "sendEmailVerification", user["id"])
    strategy = tenant["emailConfiguration"]["verificationStrategy"]
    about = {"email": user["email"]}
    open_verification = verification_codes.reuse_or_start if again else verification_codes.start
    started = await open_verification(services, tenant, KIND, user["id"], about, strategy)
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
    """What follows a create or update: a new address that waits to be verified is written to.

    Who is written to too often gets no mail, and the change stays.
    """
    is_new = before is None or before.get("email") != user.get("email")
    if is_new and "email" in user and rules.is_verification_pending(user):
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
    """Mail what completes a verification to a user, or to whom it will be; False where no template is named."""
    template_id = template_of(tenant, application)
    if template_id is None:
        return False
    data = started.mail_values()
    await mail.send(services, call, TenantId(tenant["id"]), template_id, to, data, application=application)
    return True


def template_of(tenant: Document, application: Document | None) -> str | None:
    """The template of the mail that verifies an address: the application's, else the tenant's."""
    own = None if application is None else application["emailConfiguration"].get("emailVerificationEmailTemplateId")
    found: str | None = own or tenant["emailConfiguration"].get("verificationEmailTemplateId")
    return found


async def complete(
    services: Services, call: Call, verification_id: str, one_time_code: str | None, *, reason: str = "Completed"
) -> Document:
    """Verify the address that an id was made for, and apply the change if it was pending; answers the user.

    Of many who show the id, one gets through. Raises NotFound for an id that does not count, or whose user has another
    address by now; Invalid for a code that is missing or wrong; WebhookTransactionFailed, with the id still good.
    """
    ticket = await verification_codes.verify_code(services, call.tenant_id, KIND, verification_id, one_time_code)
    use = services.one_time_tokens.use(ticket.tenant_id, KIND, verification_id)
    if email_changes.is_change(ticket):
        return await email_changes.complete(services, call, ticket, use)
    user = await services.users.get(ticket.tenant_id, ticket.owner)
    if user.get("email") != ticket.document["email"]:
        raise NotFound(log_detail="the address was changed since the verification began")
    return await mark_verified(services, call, user, reason, use=use)


async def mark_verified(
    services: Services,
    call: Call,
    user: Document,
    reason: str,
    *,
    use: OneTimeTokenUse | None = None,
) -> Document:
    """Let the address of a stored user be verified, for a `verifiedReason`; answers the user as it is then.

    Nothing is told when it is verified already, or the user has none. `use` is the ticket that proved it. Raises
    NotFound when the user is gone or has another address by now, and WebhookTransactionFailed.
    """
    tenant_id = TenantId(user["tenantId"])

    def change_of(stored: Document) -> UserVerification | None:
        if stored.get("email") != user.get("email"):
            raise NotFound(log_detail="the address was changed meanwhile")
        if "email" not in stored or stored["verified"]:
            return None
        changed = rules.with_verified_email(stored, reason, call.now)
        return UserVerification(changed, user_events.of_verified_email(changed))

    changed, is_new = await verified_users.commit(services, call, user, change_of, use)
    if is_new:
        await finish_verification(services, call, await services.tenants.get(None, tenant_id), changed)
    else:
        await verification_codes.revoke(services, tenant_id, KIND, user["id"])
    return changed


async def finish_verification(services: Services, call: Call, tenant: Document, user: Document) -> None:
    """What follows the commit of a verified address: what was begun counts no more, and the user is told."""
    await verification_codes.revoke(services, TenantId(tenant["id"]), KIND, user["id"])
    await user_notifications.tell(services, call, tenant, user, "emailVerifiedEmailTemplateId")


async def find_or_start(
    services: Services, call: Call, user: Document, application: Document | None = None
) -> OpenVerification:
    """What a user who may not go on unverified can complete: what is open, else a new one, which is mailed.

    Raises Unavailable as `start` does.
    """
    tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
    found = await verification_codes.find_open(services, TenantId(tenant["id"]), KIND, user["id"])
    return found or await start(services, call, tenant, user, application)
