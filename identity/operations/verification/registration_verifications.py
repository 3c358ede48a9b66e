"""Verifying registrations: begun with a mail, completed with what stands in it.

`mark_verified` is the one place where a stored registration becomes a verified one.
"""

from __future__ import annotations

import contextlib
from typing import Final

from identity.call import Call, Document
from identity.domain.users import registrations as rules
from identity.domain.users import users as user_rules
from identity.errors import NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, user_events
from identity.operations.verification import verification_codes, verified_users
from identity.operations.verification.verification_codes import OpenVerification
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

KIND: Final = "registrationVerification"


async def start(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document,
    *,
    send: bool = True,
    again: bool = False,
) -> OpenVerification:
    """Begin to verify a user's registration for an application; `send` mails the id by the application's template.

    `again`: what is open already goes on, and is mailed once more.

    Raises Unavailable when the tenant allows no more mails of this kind for now.
    """
    if send:
        await message_limits.count_message(services, tenant, "sendRegistrationVerification", user["id"])
    about = {"userId": user["id"], "applicationId": application["id"]}
    owner = _owner(user, application["id"])
    open_verification = verification_codes.reuse_or_start if again else verification_codes.start
    started = await open_verification(services, tenant, KIND, owner, about, application["verificationStrategy"])
    template_id = application.get("verificationEmailTemplateId")
    if send and template_id is not None and user_rules.email_address(user) is not None:
        data = started.mail_values()
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, data, application=application)
    return started


async def start_for_new(services: Services, call: Call, user: Document, application: Document) -> None:
    """What follows a new registration that waits to be verified. Who is written to too often gets no mail."""
    registration = user_rules.find_registration(user, application["id"])
    if registration is not None and not registration["verified"]:
        tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
        with contextlib.suppress(Unavailable):
            await start(services, call, tenant, user, application)


async def find_or_start(services: Services, call: Call, user: Document, application: Document) -> OpenVerification:
    """What a user who may not go on unverified can complete: what is open, else a new one, which is mailed.

    Raises Unavailable as `start` does.
    """
    tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
    found = await find_open(services, user, application["id"])
    return found or await start(services, call, tenant, user, application)


async def find_open(services: Services, user: Document, application_id: str) -> OpenVerification | None:
    """The verification of this registration that can be completed now."""
    owner = _owner(user, application_id)
    return await verification_codes.find_open(services, TenantId(user["tenantId"]), KIND, owner)


async def complete(
    services: Services, call: Call, verification_id: str, one_time_code: str | None
) -> tuple[Document, str]:
    """Verify the registration that an id was made for; answers the user and the application's id.

    Of many who show the id, one gets through. Raises NotFound for an id that does not count, or whose registration is
    gone; Invalid for a code that is missing or wrong; WebhookTransactionFailed, with the id still good.
    """
    ticket = await verification_codes.verify_code(services, call.tenant_id, KIND, verification_id, one_time_code)
    use = services.one_time_tokens.use(ticket.tenant_id, KIND, verification_id)
    user = await services.users.get(ticket.tenant_id, ticket.document["userId"])
    application_id = ticket.document["applicationId"]
    return await mark_verified(services, call, user, application_id, use=use), application_id


async def mark_verified(
    services: Services, call: Call, user: Document, application_id: str, *, use: OneTimeTokenUse | None = None
) -> Document:
    """Let a registration of a stored user be verified; answers the user as it is then.

    Nothing is told when it is verified already. `use` is the ticket that proved it. Raises NotFound when user or
    registration are gone, and WebhookTransactionFailed.
    """

    def change_of(stored: Document) -> UserVerification | None:
        registration = user_rules.find_registration(stored, application_id)
        if registration is None:
            raise NotFound(log_detail="the registration is gone")
        if registration["verified"]:
            return None
        done = rules.mark_verified(registration, call.now)
        changed = user_rules.next_version(rules.with_registration(stored, done), call.now)
        return UserVerification(changed, [user_events.about_registration("user.registration.verified", changed, done)])

    changed, _is_new = await verified_users.commit(services, call, user, change_of, use)
    await verification_codes.revoke(services, TenantId(user["tenantId"]), KIND, _owner(user, application_id))
    return changed


def _owner(user: Document, application_id: str) -> str:
    return f"{user['id']}/{application_id}"
