"""Steps of a registration form that verify an email address or a phone number with a code, before the user exists.

The code is sent whether or not the login id is in use, so that only its owner can learn that. The completed
verification id is the evidence with which the user is created.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call
from identity.domain.objects.owner_settings import FORM_FIELD
from identity.domain.users import users as user_rules
from identity.errors import GeneralError, Invalid, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.clients.clients import Client
from identity.operations.limits import code_attempt_limits, message_limits
from identity.operations.login_transactions.login_transactions import RegistrationDraft
from identity.operations.pages import page_messages, registration_page
from identity.operations.verification import identity_verifications, verification_codes
from identity.operations.verification.verification_codes import OpenVerification, VerificationKind
from identity.services import Services

RESEND: Final = "resend"
"""The action of a form that requests another code."""

_PURPOSE: Final = "registration"
_WRONG_CODE: Final = "verificationRequired.wrongCode"
_EMAIL: Final = "user.email"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginIdVerification:
    """A login id of the registration in a transaction; `key` is that of its field."""

    client: Client
    transaction_id: str
    key: str
    login_id: str
    is_verified: bool

    @property
    def is_email(self) -> bool:
        """Whether it is an email address; otherwise a phone number."""
        return self.key == _EMAIL

    @property
    def kind(self) -> VerificationKind:
        """The kind of its verification ids."""
        return "emailVerification" if self.is_email else "phoneVerification"

    @property
    def owner(self) -> str:
        """The owner of its verification: no user, and another one for each transaction and login id."""
        return f"new {self.transaction_id} {self.login_id}"


def of(client: Client, transaction_id: str, draft: RegistrationDraft, key: str) -> LoginIdVerification:
    """Return the verification of the current answer to a field."""
    return LoginIdVerification(client, transaction_id, key, _login_id(draft, key), is_verified(draft, key))


def is_verified(draft: RegistrationDraft, key: str) -> bool:
    """Whether the current answer to a field, not an earlier one, was verified."""
    return key in draft.verified and draft.verified[key][0] == _login_id(draft, key)


def verification_ids(draft: RegistrationDraft) -> list[str]:
    """Return the completed verification ids of the current answers."""
    return [verified[1] for key, verified in draft.verified.items() if is_verified(draft, key)]


async def is_sent(services: Services, verification: LoginIdVerification) -> bool:
    """Whether a code that was sent can be entered."""
    return await _find_open(services, verification) is not None


async def submit(
    services: Services,
    call: Call,
    verification: LoginIdVerification,
    draft: RegistrationDraft,
    form: Mapping[str, str],
) -> RegistrationDraft | str:
    """Handle the form of a step; return the draft with the login id verified, or the key of a page text."""
    if verification.is_verified:
        return draft
    is_resend = form.get("action") == RESEND
    try:
        if is_resend:
            await send(services, call, verification)
            return page_messages.CODE_SENT
        return await complete(services, call, verification, draft, form.get("oneTimeCode", "").strip())
    except (Invalid, NotFound, Unavailable, WebhookTransactionFailed) as error:
        wrong = page_messages.CANNOT_SEND if is_resend else _WRONG_CODE
        return page_messages.of_code_error(error, rejected=registration_page.REJECTED, wrong=wrong)


async def send_first(services: Services, call: Call, verification: LoginIdVerification) -> None:
    """Send the code before its page is shown for the first time. If that fails, the page says so."""
    if not verification.is_verified and not await is_sent(services, verification):
        with contextlib.suppress(Invalid, Unavailable):
            await send(services, call, verification)


async def send(services: Services, call: Call, verification: LoginIdVerification) -> None:
    """Send the open code again, or a new one.

    Raises Unavailable when a limit of messages is exceeded, and Invalid if the message cannot be sent.
    """
    client, owner = verification.client, verification.owner
    message: message_limits.MessageKind = "sendEmailVerification" if verification.is_email else "sendPhoneVerification"
    await message_limits.count_message_from_address(services, call, client.tenant, message)
    await message_limits.count_message(services, client.tenant, message, verification.login_id)
    member = verification.key.removeprefix("user.")
    details = {member: verification.login_id, "state": {}, "applicationId": client.client_id}
    started = await verification_codes.reuse_or_start(
        services, client.tenant, verification.kind, owner, details, FORM_FIELD
    )
    try:
        await identity_verifications.send(services, call.within(client.tenant_id), {"verificationId": started.id})
    except (Invalid, Unavailable) as error:
        await verification_codes.revoke(services, client.tenant_id, verification.kind, owner)
        raise Invalid(general=[GeneralError(page_messages.CANNOT_SEND, "The code cannot be sent.")]) from error


async def complete(
    services: Services, call: Call, verification: LoginIdVerification, draft: RegistrationDraft, code: str
) -> RegistrationDraft:
    """Return the draft with the login id verified. Of concurrent callers with the same code one succeeds.

    Raises Invalid for an incorrect code, NotFound if none is open, Unavailable after too many incorrect ones for the
    login id, and WebhookTransactionFailed.
    """
    tenant_id, started = verification.client.tenant_id, await _find_open(services, verification)
    if started is None:
        raise NotFound(log_detail="no code of the registration is open")
    limits = code_attempt_limits.of_sent_codes(_PURPOSE, verification.login_id)
    async with code_attempt_limits.attempt(services, tenant_id, limits):
        body = {"verificationId": started.id, "oneTimeCode": code}
        await identity_verifications.complete(services, call.within(tenant_id), body)
    return dataclasses.replace(
        draft, verified={**draft.verified, verification.key: (verification.login_id, str(started.id))}
    )


def _login_id(draft: RegistrationDraft, key: str) -> str:
    """Return the current answer to a field in its stored form."""
    answer = str(draft.answers.get(key) or "").strip()
    if key == _EMAIL:
        return user_rules.login_key(answer)
    return str(user_rules.normalize_phone_number({"phoneNumber": answer})["phoneNumber"])


async def _find_open(services: Services, verification: LoginIdVerification) -> OpenVerification | None:
    tenant_id = verification.client.tenant_id
    return await verification_codes.find_open(services, tenant_id, verification.kind, verification.owner)
