"""Pending changes of a user's own phone number: applied when the code that was sent to the new number is entered.

A pending change is an open phone verification with an owner of its own. Starting another change replaces it.
"""

from __future__ import annotations

import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects.owner_settings import FORM_FIELD
from identity.domain.users import users as user_rules
from identity.errors import Duplicate, FieldError, Invalid, NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.clients.clients import Client
from identity.operations.limits import message_limits
from identity.operations.messaging import mail, user_events, user_notifications
from identity.operations.objects import crud
from identity.operations.verification import (
    change_revocations,
    phone_change_revocations,
    phone_verifications,
    verification_codes,
    verified_users,
)
from identity.operations.verification.change_revocations import owner_of
from identity.operations.verification.verification_codes import VerificationKind
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeToken
from identity.store.rate_limits import Limit

KIND: Final[VerificationKind] = phone_verifications.KIND
PATH: Final = "user.phoneNumber"
NOT_SENT: Final = "twoFactor.cannotSend"

_MESSAGES: Final = 10
_MESSAGES_SECONDS: Final = 3600


def is_offered(tenant: Document) -> bool:
    """Whether the tenant has a messenger and a template for codes."""
    return phone_verifications.can_send(tenant)


async def require_usable(services: Services, call: Call, tenant: Document, user: Document, number: str) -> str:
    """Return a new number in its stored form.

    Raises Invalid for a number that is malformed, the user's own, or in use, which the error does not reveal.
    """
    number = user_rules.normalize_phone_number({"phoneNumber": number.strip()})["phoneNumber"]
    if not user_rules.is_e164_number(number):
        raise Invalid.field("invalidPhone", PATH, "The [user.phoneNumber] must be an E.164 number.")
    changed = {**user, "phoneNumber": number}
    others = await services.directory.users.find_duplicates(TenantId(tenant["id"]), changed)
    if others:
        await user_notifications.notify_duplicate(services, call, tenant, changed, others, "update")
    if user_rules.duplicate_problems(changed, others) or number == user.get("phoneNumber"):
        crud.require_no_errors([FieldError.of("unusable", PATH, "This number cannot be used.")])
    return number


async def start(services: Services, call: Call, tenant: Document, user: Document, number: str) -> None:
    """Store a pending change and send a code to the new number, at most ten times an hour.

    Raises Unavailable when a limit of messages is exceeded, and Invalid if the message cannot be sent.
    """
    tenant_id = TenantId(tenant["id"])
    limit = Limit("phone-change", user["id"], _MESSAGES, _MESSAGES_SECONDS)
    if await services.limits.rate_limits.consume(tenant_id, [limit]) is not None:
        raise Unavailable("Too many codes were requested.")
    await message_limits.count_message(services, tenant, "sendPhoneVerification", user["id"])
    details = {"phoneNumber": number, "previousPhoneNumber": user.get("phoneNumber", "")}
    started = await verification_codes.start(services, tenant, KIND, owner_of(user["id"]), details, FORM_FIELD)
    if not await phone_verifications.send(services, call, tenant, number, user, started):
        await cancel(services, user)
        raise Invalid.whole(NOT_SENT, "The code could not be sent.")


async def find_number(services: Services, user: Document) -> str:
    """Return the number of the user's pending change; empty if there is none."""
    token = await _find(services, user)
    return "" if token is None else str(token.document["phoneNumber"])


async def cancel(services: Services, user: Document) -> None:
    """Cancel the pending change, if there is one."""
    await verification_codes.revoke(services, TenantId(user["tenantId"]), KIND, owner_of(user["id"]))


async def complete(services: Services, call: Call, client: Client, user: Document, code: str) -> None:
    """Apply the pending change whose code was entered, and notify the email address and the previous number.

    Of concurrent callers with the same code one succeeds.

    Raises Invalid for an incorrect code, Unavailable after too many, NotFound if the change expired or no longer
    applies, and WebhookTransactionFailed, with the change still pending.
    """
    tenant_id = client.tenant_id
    started = await verification_codes.find_open(services, tenant_id, KIND, owner_of(user["id"]))
    if started is None:
        raise NotFound(log_detail="no pending change of the phone number")
    token = await verification_codes.verify_code(services, tenant_id, KIND, started.id, code)
    use = services.tokens.one_time_tokens.use(tenant_id, KIND, started.id)
    try:
        changed, _ = await verified_users.commit(services, call, user, functools.partial(_apply, call, token), use)
    except Duplicate as duplicate:
        raise NotFound(log_detail="another user has the new number") from duplicate
    await change_revocations.revoke_codes(services, changed, KIND)
    if changed.get("email"):
        await mail.send(services, call.within(tenant_id), tenant_id, BuiltinMail("phoneChange"), changed, {})
    if previous := token.document["previousPhoneNumber"]:
        await phone_change_revocations.notify(services, call.within(tenant_id), client, changed, previous)


def _apply(call: Call, token: OneTimeToken, stored: Document) -> UserVerification:
    """Return the stored user with the new number. Raises NotFound if the pending change no longer applies."""
    if stored.get("phoneNumber", "") != token.document["previousPhoneNumber"]:
        raise NotFound(log_detail="the phone number was changed meanwhile")
    number = token.document["phoneNumber"]
    verified = user_rules.with_verified_phone({**stored, "phoneNumber": number}, "Completed", call.now)
    changed = user_rules.next_version(verified, call.now)
    before_commit = [
        *user_events.before_update(stored, changed),
        user_events.identity_verified(changed, "phoneNumber", number),
    ]
    return UserVerification(changed, before_commit, user_events.after_update(stored, changed, new_password=False))


async def _find(services: Services, user: Document) -> OneTimeToken | None:
    tenant_id = TenantId(user["tenantId"])
    started = await verification_codes.find_open(services, tenant_id, KIND, owner_of(user["id"]))
    return None if started is None else await services.tokens.one_time_tokens.find(tenant_id, KIND, started.id)
