"""Verifying phone numbers that users log in with: by what a messenger sent, or by an administrator.

The tenant's `phoneConfiguration` is kept as it comes: what of it is read here is judged here.
"""

from __future__ import annotations

from typing import Any, Final

from identity.call import Call, Document
from identity.domain.users import users as rules
from identity.errors import NotFound
from identity.ids import TenantId
from identity.operations.messaging import text_messages, user_events
from identity.operations.verification import verification_codes, verified_users
from identity.operations.verification.verification_codes import OpenVerification
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

KIND: Final = "phoneVerification"


def is_enabled(tenant: Document) -> bool:
    """Whether the tenant verifies phone numbers."""
    return _settings(tenant).get("verifyPhoneNumber") is True


def strategy(tenant: Document) -> str:
    """What completes a verification: a link, or the code that people type."""
    is_link = _settings(tenant).get("verificationStrategy") == "ClickableLink"
    return "ClickableLink" if is_link else verification_codes.FORM_FIELD


async def send(
    services: Services, call: Call, tenant: Document, number: str, user: Document | None, started: OpenVerification
) -> bool:
    """Send what completes a verification to a number, perhaps that of a user; False when nothing can be sent."""
    settings = _settings(tenant)
    messenger_id, template_id = settings.get("messengerId"), settings.get("verificationTemplateId")
    if not isinstance(messenger_id, str) or not isinstance(template_id, str):
        return False
    tenant_id, to = TenantId(tenant["id"]), number if user is None else user
    data = started.mail_values()
    return await text_messages.send_sms(
        services, call, tenant_id, messenger_id, template_id, to, data, phone_number=number
    )


async def mark_verified(
    services: Services, call: Call, user: Document, reason: str, *, use: OneTimeTokenUse | None = None
) -> Document:
    """Let the phone number of a stored user be verified, for a `verifiedReason`; answers the user as it is then.

    Nothing is told when it is verified already. Raises NotFound when user or number are gone, WebhookTransactionFailed.
    """

    def change_of(stored: Document) -> UserVerification | None:
        number = stored.get("phoneNumber")
        if number is None or number != user.get("phoneNumber"):
            raise NotFound(log_detail="the phone number was changed meanwhile")
        if rules.has_verified_phone(stored):
            return None
        changed = rules.next_version(rules.with_verified_phone(stored, reason, call.now), call.now)
        return UserVerification(changed, [user_events.of_verified_identity(changed, "phoneNumber", number)])

    changed, _is_new = await verified_users.commit(services, call, user, change_of, use)
    await verification_codes.revoke(services, TenantId(user["tenantId"]), KIND, user["id"])
    return changed


def _settings(tenant: Document) -> dict[str, Any]:
    found = tenant.get("phoneConfiguration")
    return found if isinstance(found, dict) else {}
