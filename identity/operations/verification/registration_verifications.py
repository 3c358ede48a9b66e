"""Verifying registrations: begun with a mail, completed with what stands in it.

`verified` is the one place where a stored registration becomes a verified one.
"""

from __future__ import annotations

import contextlib
from typing import Final

from identity.call import Call, Document
from identity.domain.users import registrations as rules
from identity.domain.users import users as user_rules
from identity.errors import NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.limits import send_limits
from identity.operations.messaging import mail, user_events
from identity.operations.verification import verification_codes, verified_users
from identity.operations.verification.verification_codes import Started
from identity.operations.verification.verified_users import Change
from identity.services import Services
from identity.store.one_time_tokens import Use

KIND: Final = "registrationVerification"


async def begin(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document,
    *,
    send: bool = True,
    again: bool = False,
) -> Started:
    """Begin to verify a user's registration for an application; `send` mails the id by the application's template.

    `again`: what is open already goes on, and is mailed once more.

    Raises Unavailable when the tenant allows no more mails of this kind for now.
    """
    if send:
        await send_limits.take(services, tenant, "sendRegistrationVerification", user["id"])
    about = {"userId": user["id"], "applicationId": application["id"]}
    owner = _owner(user, application["id"])
    start = verification_codes.again if again else verification_codes.start
    started = await start(services, tenant, KIND, owner, about, application["verificationStrategy"])
    template_id = application.get("verificationEmailTemplateId")
    if send and template_id is not None and user_rules.email_address(user) is not None:
        data = started.mail_values()
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, data, application=application)
    return started


async def begin_for_new(services: Services, call: Call, user: Document, application: Document) -> None:
    """What follows a new registration that waits to be verified. Who is written to too often gets no mail."""
    registration = user_rules.find_registration(user, application["id"])
    if registration is not None and not registration["verified"]:
        tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
        with contextlib.suppress(Unavailable):
            await begin(services, call, tenant, user, application)


async def resumed(services: Services, call: Call, user: Document, application: Document) -> Started:
    """What a user who may not go on unverified can complete: what is open, else a new one, which is mailed.

    Raises Unavailable as `begin` does.
    """
    tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
    found = await open_one(services, user, application["id"])
    return found or await begin(services, call, tenant, user, application)


async def open_one(services: Services, user: Document, application_id: str) -> Started | None:
    """The verification of this registration that can be completed now."""
    owner = _owner(user, application_id)
    return await verification_codes.open_one(services, TenantId(user["tenantId"]), KIND, owner)


async def complete(
    services: Services, call: Call, verification_id: str, one_time_code: str | None
) -> tuple[Document, str]:
    """Verify the registration that an id was made for; answers the user and the application's id.

    Of many who show the id, one gets through. Raises NotFound for an id that does not count, or whose registration is
    gone; Invalid for a code that is missing or wrong; WebhookTransactionFailed, with the id still good.
    """
    ticket = await verification_codes.judge(services, call.tenant_id, KIND, verification_id, one_time_code)
    use = services.one_time_tokens.use(ticket.tenant_id, KIND, verification_id)
    user = await services.users.get(ticket.tenant_id, ticket.document["userId"])
    application_id = ticket.document["applicationId"]
    return await verified(services, call, user, application_id, use=use), application_id


async def verified(
    services: Services, call: Call, user: Document, application_id: str, *, use: Use | None = None
) -> Document:
    """Let a registration of a stored user be verified; answers the user as it is then.

    Nothing is told when it is verified already. `use` is the ticket that proved it. Raises NotFound when user or
    registration are gone, and WebhookTransactionFailed.
    """

    def change_of(stored: Document) -> Change | None:
        registration = user_rules.find_registration(stored, application_id)
        if registration is None:
            raise NotFound(log_detail="the registration is gone")
        if registration["verified"]:
            return None
        done = rules.mark_verified(registration, call.now)
        changed = user_rules.next_version(rules.with_registration(stored, done), call.now)
        return Change(changed, [user_events.about_registration("user.registration.verified", changed, done)])

    changed, _is_new = await verified_users.write(services, call, user, change_of, use)
    await verification_codes.withdraw(services, TenantId(user["tenantId"]), KIND, _owner(user, application_id))
    return changed


def _owner(user: Document, application_id: str) -> str:
    return f"{user['id']}/{application_id}"
