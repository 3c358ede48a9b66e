"""The login pages on which a user has to verify the email address or the registration first.

The user's credentials were correct. The link of the email can be opened in any browser; a code is entered on the page.
Either way the login resumes here, where its requirements are evaluated again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.objects.owner_settings import FORM_FIELD, EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step, StepFailed
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import page_messages
from identity.operations.verification import (
    email_change_requests,
    email_changes,
    email_verifications,
    registration_verifications,
    verification_codes,
)
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services

MESSAGE_SENT: Final = "verificationRequired.sent"
NOT_VERIFIED: Final = "verificationRequired.notYet"
WRONG_CODE: Final = "verificationRequired.wrongCode"
UNUSABLE_EMAIL: Final = "verificationRequired.unusableEmail"
_EXPIRED: Final = "verificationRequired.over"

_REQUIREMENTS: Final[Mapping[str, type[login_outcomes.Halt]]] = {
    login_transactions.VERIFY_EMAIL: login_outcomes.EmailNotVerified,
    login_transactions.VERIFY_REGISTRATION: login_outcomes.RegistrationNotVerified,
}


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationPage:
    """The user has to verify an address or a registration; `message` is the key of a page text."""

    transaction: InterruptedTransaction
    user: Document
    message: str = ""
    pending_email: str = ""

    @property
    def email(self) -> str:
        """The address to verify: the pending one, else the user's own."""
        return self.pending_email or str(self.user.get("email", ""))

    @property
    def is_email(self) -> bool:
        """Whether the email address has to be verified; otherwise the registration."""
        return self.transaction.page == login_transactions.VERIFY_EMAIL

    @property
    def uses_code(self) -> bool:
        """Whether the email contains a code to enter on the page; otherwise it contains a link."""
        client = self.transaction.client
        if self.is_email:
            return EmailVerification.of(client.tenant).uses_code
        return bool(client.application["verificationStrategy"] == FORM_FIELD)

    @property
    def may_change_email(self) -> bool:
        """Whether the user may enter another address: only right after a login, not with an existing session."""
        unverified = EmailVerification.of(self.transaction.client.tenant).unverified
        has_just_authenticated = not self.transaction.login.session_id
        return self.is_email and has_just_authenticated and bool(unverified["allowEmailChangeWhenGated"])


async def show(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, message: str = ""
) -> VerificationPage | Step:
    """Return the page, or the next step if no verification is required any more. Raises OAuth2Error."""
    requirement = await login_resumption.unmet_requirement(services, call, transaction, browser)
    if isinstance(requirement, _REQUIREMENTS[transaction.page]):
        pending = await email_changes.find_open(services, requirement.user)
        return VerificationPage(transaction, requirement.user, message, "" if pending is None else pending[1])
    return await login_resumption.resume(services, call, transaction, browser)


async def enter_code(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, code: str
) -> VerificationPage | Step:
    """Verify a code and resume the login; too many incorrect codes end it. Raises OAuth2Error."""
    page = await show(services, call, transaction, browser)
    if not isinstance(page, VerificationPage):
        return page
    if not page.uses_code or not code.strip():
        return dataclasses.replace(page, message=WRONG_CODE if page.uses_code else NOT_VERIFIED)
    try:
        await _complete(services, call.within(transaction.client.tenant_id), page, code.strip())
    except (Invalid, Unavailable, WebhookTransactionFailed) as error:
        return dataclasses.replace(page, message=page_messages.of_code_error(error, wrong=WRONG_CODE))
    except NotFound:
        # The transaction is not consumed: a concurrent request that used the code is about to do so.
        return LoginPage(transaction.client, problem=StepFailed(_EXPIRED))
    return await show(services, call, transaction, browser)


async def send_again(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser
) -> VerificationPage | Step:
    """Send another message. Raises OAuth2Error."""
    page = await show(services, call, transaction, browser)
    if not isinstance(page, VerificationPage):
        return page
    try:
        await _send(services, call.within(transaction.client.tenant_id), page)
    except Unavailable:
        return dataclasses.replace(page, message=page_messages.TOO_MANY_ATTEMPTS)
    return dataclasses.replace(page, message=MESSAGE_SENT)


async def change_email(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, email: str
) -> VerificationPage | Step:
    """Store another address as pending and send its verification. Raises OAuth2Error.

    The page gives no reason why an address cannot be used, because it may belong to another user.
    """
    page = await show(services, call, transaction, browser)
    if not isinstance(page, VerificationPage):
        return page
    if not page.may_change_email or not email_change_requests.is_different(page.user, email or " "):
        return dataclasses.replace(page, message=UNUSABLE_EMAIL)
    try:
        await email_change_requests.request_change(services, call, transaction.client, page.user, email)
    except (Invalid, Unavailable) as error:
        return dataclasses.replace(page, message=page_messages.of_code_error(error, wrong=UNUSABLE_EMAIL))
    return dataclasses.replace(page, message=MESSAGE_SENT, pending_email=user_rules.login_key(email))


async def _complete(services: Services, call: Call, page: VerificationPage, code: str) -> None:
    verification = await _find_open(services, page)
    if verification is None:
        raise NotFound(log_detail="no verification is open")
    complete = email_verifications.complete if page.is_email else registration_verifications.complete
    await complete(services, call, verification.id, code)


async def _send(services: Services, call: Call, page: VerificationPage) -> None:
    client = page.transaction.client
    if page.is_email and page.pending_email and await email_change_requests.resend(services, call, client, page.user):
        return
    start = email_verifications.start if page.is_email else registration_verifications.start
    await start(services, call, client.tenant, page.user, client.application)


async def _find_open(services: Services, page: VerificationPage) -> OpenVerification | None:
    client = page.transaction.client
    if not page.is_email:
        return await registration_verifications.find_open(services, page.user, client.client_id)
    pending = await email_changes.find_open(services, page.user)
    if pending is not None:
        return pending[0]
    return await verification_codes.find_open(services, client.tenant_id, "emailVerification", page.user["id"])
