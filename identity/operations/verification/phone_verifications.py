"""Phone number verifications: completed with a message that a messenger sends, or by an administrator.

Earlier releases stored the tenant's `phoneConfiguration` as received, so its members are checked when they are used.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects.owner_settings import FORM_FIELD
from identity.domain.users import users as user_rules
from identity.errors import NotFound
from identity.ids import TenantId
from identity.operations.messaging import text_messages, user_events
from identity.operations.objects import user_lookup
from identity.operations.verification import verification_codes, verified_users
from identity.operations.verification.verification_codes import OpenVerification
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

KIND: Final = "phoneVerification"


def is_enabled(tenant: Document) -> bool:
    """Whether the tenant verifies phone numbers."""
    return user_lookup.must_verify_phones(tenant)


def strategy(tenant: Document) -> str:
    """Return the verification strategy: ClickableLink, or FormField for a code."""
    is_link = _settings(tenant).get("verificationStrategy") == "ClickableLink"
    return "ClickableLink" if is_link else FORM_FIELD


def can_send(tenant: Document) -> bool:
    """Whether the tenant names a messenger and a template for verifications."""
    settings = _settings(tenant)
    return all(isinstance(settings.get(name), str) for name in ("messengerId", "verificationTemplateId"))


async def send(
    services: Services, call: Call, tenant: Document, number: str, user: Document | None, started: OpenVerification
) -> bool:
    """Send a verification to a number, or to the user who has it; False if no messenger or template is configured."""
    settings = _settings(tenant)
    messenger_id, template_id = settings.get("messengerId"), settings.get("verificationTemplateId")
    if not isinstance(messenger_id, str) or not isinstance(template_id, str):
        return False
    tenant_id, to = TenantId(tenant["id"]), number if user is None else user
    data = started.template_variables()
    return await text_messages.send_sms(
        services, call, tenant_id, messenger_id, template_id, to, data, phone_number=number
    )


async def send_text(services: Services, call: Call, tenant: Document, number: str, text: str) -> bool:
    """Send a text to a number with the messenger of verifications; False if none is configured."""
    messenger_id = _settings(tenant).get("messengerId")
    if not isinstance(messenger_id, str):
        return False
    return await text_messages.send_text(services, call, TenantId(tenant["id"]), messenger_id, number, text)


async def mark_verified(
    services: Services, call: Call, user: Document, reason: str, *, use: OneTimeTokenUse | None = None
) -> Document:
    """Mark the phone number of a stored user as verified, with a `verifiedReason`; return the user.

    A verified number stays unchanged, without events. Raises NotFound if the user or the number is gone, and
    WebhookTransactionFailed.
    """
    verify = functools.partial(_verify, call, user, reason)
    changed, _is_new = await verified_users.commit(services, call, user, verify, use)
    await verification_codes.revoke(services, TenantId(user["tenantId"]), KIND, user["id"])
    return changed


def _verify(call: Call, user: Document, reason: str, stored: Document) -> UserVerification | None:
    number = stored.get("phoneNumber")
    if number is None or number != user.get("phoneNumber"):
        raise NotFound(log_detail="the phone number was changed meanwhile")
    if user_rules.has_verified_phone(stored):
        return None
    changed = user_rules.next_version(user_rules.with_verified_phone(stored, reason, call.now), call.now)
    return UserVerification(changed, [user_events.identity_verified(changed, "phoneNumber", number)])


def _settings(tenant: Document) -> dict[str, Any]:
    found = tenant.get("phoneConfiguration")
    return found if isinstance(found, dict) else {}
