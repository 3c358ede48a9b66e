"""Registration verifications: started with a mail, and completed with the id or code in it.

`mark_verified` is the only place that verifies a stored registration.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.users import registrations as registration_rules
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
    reuse: bool = False,
) -> OpenVerification:
    """Start the verification of a user's registration; with `send`, mail it by the application's template.

    `reuse`: an open verification is kept and mailed again. Raises Unavailable when the tenant's limit of mails is
    exceeded.
    """
    if send:
        await message_limits.count_message(services, tenant, "sendRegistrationVerification", user["id"])
    details = {"userId": user["id"], "applicationId": application["id"]}
    owner = _owner(user, application["id"])
    open_verification = verification_codes.reuse_or_start if reuse else verification_codes.start
    started = await open_verification(services, tenant, KIND, owner, details, application["verificationStrategy"])
    template_id = application.get("verificationEmailTemplateId")
    if send and template_id is not None and user_rules.email_address(user) is not None:
        data = started.template_variables()
        await mail.send(services, call, TenantId(tenant["id"]), template_id, user, data, application=application)
    return started


async def start_for_new(services: Services, call: Call, user: Document, application: Document) -> None:
    """After a new registration: start its verification if it is unverified, unless the limit of mails is exceeded."""
    registration = user_rules.find_registration(user, application["id"])
    if registration is not None and not registration["verified"]:
        tenant = await services.configuration.tenants.get(None, TenantId(user["tenantId"]))
        with contextlib.suppress(Unavailable):
            await start(services, call, tenant, user, application)


async def find_or_start(services: Services, call: Call, user: Document, application: Document) -> OpenVerification:
    """Return the open verification of a user whose login requires it, or start and mail a new one.

    Raises Unavailable as `start` does.
    """
    tenant = await services.configuration.tenants.get(None, TenantId(user["tenantId"]))
    found = await find_open(services, user, application["id"])
    return found or await start(services, call, tenant, user, application)


async def find_open(services: Services, user: Document, application_id: str) -> OpenVerification | None:
    """Return the open verification of a registration, or None."""
    owner = _owner(user, application_id)
    return await verification_codes.find_open(services, TenantId(user["tenantId"]), KIND, owner)


async def complete(
    services: Services, call: Call, verification_id: str, one_time_code: str | None
) -> tuple[Document, str]:
    """Verify the registration of an id; return the user and the id of the application.

    Of concurrent callers with the same id one succeeds. Raises NotFound for an invalid id, or if the registration no
    longer exists; Invalid for a missing or incorrect code; WebhookTransactionFailed, with the id still valid.
    """
    token = await verification_codes.verify_code(services, call.tenant_id, KIND, verification_id, one_time_code)
    use = services.tokens.one_time_tokens.use(token.tenant_id, KIND, verification_id)
    user = await services.directory.users.get(token.tenant_id, token.document["userId"])
    application_id = token.document["applicationId"]
    return await mark_verified(services, call, user, application_id, use=use), application_id


async def mark_verified(
    services: Services, call: Call, user: Document, application_id: str, *, use: OneTimeTokenUse | None = None
) -> Document:
    """Mark a registration of a stored user as verified; return the user.

    A verified registration stays unchanged, without events. `use` is consumed with the change. Raises NotFound if user
    or registration no longer exist, and WebhookTransactionFailed.
    """
    verify = functools.partial(_verify, call, application_id)
    changed, _is_new = await verified_users.commit(services, call, user, verify, use)
    await verification_codes.revoke(services, TenantId(user["tenantId"]), KIND, _owner(user, application_id))
    return changed


def _verify(call: Call, application_id: str, stored: Document) -> UserVerification | None:
    registration = user_rules.find_registration(stored, application_id)
    if registration is None:
        raise NotFound(log_detail="the registration no longer exists")
    if registration["verified"]:
        return None
    verified = registration_rules.mark_verified(registration, call.now)
    changed = user_rules.next_version(registration_rules.with_registration(stored, verified), call.now)
    event = user_events.registration_event("user.registration.verified", changed, verified)
    return UserVerification(changed, [event])


def _owner(user: Document, application_id: str) -> str:
    return f"{user['id']}/{application_id}"
