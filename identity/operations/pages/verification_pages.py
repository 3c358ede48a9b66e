"""The pages of a login whose address or registration has to be verified first: what they show, and what they take.

Whoever is there has shown the right credentials. The link of the mail may be followed in any browser; a code is typed
in here. Either way the login goes on from here, when it is judged again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.users import users as rules
from identity.errors import Invalid, NotFound, Unavailable, WebhookTransactionFailed
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step, StepFailed
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.verification import (
    email_change_requests,
    email_changes,
    email_verifications,
    registration_verifications,
    verification_codes,
)
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services

SENT: Final = "verificationRequired.sent"
NOT_YET: Final = "verificationRequired.notYet"
WRONG: Final = "verificationRequired.wrongCode"
UNUSABLE: Final = "verificationRequired.unusableEmail"
TOO_MANY: Final = "[RateLimitedException]"
VETOED: Final = "[WebhookTransactionException]"
OVER: Final = "verificationRequired.over"

_HALTS: Final[Mapping[str, type[steps.Halt]]] = {
    login_transactions.VERIFY_EMAIL: steps.EmailNotVerified,
    login_transactions.VERIFY_REGISTRATION: steps.RegistrationNotVerified,
}


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationPage:
    """The user has to verify something; `message` is the key of what is to be said of the last attempt."""

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
        """Whether it is the address; else it is the registration."""
        return self.transaction.page == login_transactions.VERIFY_EMAIL

    @property
    def asks_code(self) -> bool:
        """Whether the mail has a code, which is typed in here; else it has a link."""
        client = self.transaction.client
        place = client.tenant["emailConfiguration"] if self.is_email else client.application
        return bool(place["verificationStrategy"] == verification_codes.FORM_FIELD)

    @property
    def may_change_email(self) -> bool:
        """Whether another address may be given here: only right after the credentials, not with an existing session."""
        unverified = self.transaction.client.tenant["emailConfiguration"]["unverified"]
        is_confirmed = not self.transaction.login.session_id
        return self.is_email and is_confirmed and bool(unverified["allowEmailChangeWhenGated"])


async def show(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, message: str = ""
) -> VerificationPage | Step:
    """The page; or what comes next where nothing is left to verify here. Raises OAuth2Error."""
    halt = await login_resumption.unmet_requirement(services, call, transaction, browser)
    if isinstance(halt, _HALTS[transaction.page]):
        pending = await email_changes.find_open(services, halt.user)
        return VerificationPage(transaction, halt.user, message, "" if pending is None else pending[1])
    return await login_resumption.resume(services, call, transaction, browser)


async def enter_code(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, code: str
) -> VerificationPage | Step:
    """Take a code. After too many wrong ones the login is over. Raises OAuth2Error."""
    gate = await show(services, call, transaction, browser)
    if not isinstance(gate, VerificationPage):
        return gate
    if not gate.asks_code or not code.strip():
        return dataclasses.replace(gate, message=WRONG if gate.asks_code else NOT_YET)
    try:
        await _complete(services, call.within(transaction.client.tenant_id), gate, code.strip())
    except Invalid:
        return dataclasses.replace(gate, message=WRONG)
    except Unavailable:
        return dataclasses.replace(gate, message=TOO_MANY)
    except WebhookTransactionFailed:
        return dataclasses.replace(gate, message=VETOED)
    except NotFound:
        # The intent is left alone: a request that used the code a moment ago is about to consume it.
        return LoginPage(transaction.client, problem=StepFailed(OVER))
    return await show(services, call, transaction, browser)


async def send_again(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser
) -> VerificationPage | Step:
    """Mail once more. Raises OAuth2Error."""
    gate = await show(services, call, transaction, browser)
    if not isinstance(gate, VerificationPage):
        return gate
    try:
        await _send(services, call.within(transaction.client.tenant_id), gate)
    except Unavailable:
        return dataclasses.replace(gate, message=TOO_MANY)
    return dataclasses.replace(gate, message=SENT)


async def change_email(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, email: str
) -> VerificationPage | Step:
    """Hold another address as pending and send its verification. Raises OAuth2Error.

    The page does not say why an address cannot be used: another user may have it.
    """
    gate = await show(services, call, transaction, browser)
    if not isinstance(gate, VerificationPage):
        return gate
    if not gate.may_change_email or not email_change_requests.is_different(gate.user, email or " "):
        return dataclasses.replace(gate, message=UNUSABLE)
    try:
        await email_change_requests.request_change(services, call, transaction.client, gate.user, email)
    except Invalid:
        return dataclasses.replace(gate, message=UNUSABLE)
    except Unavailable:
        return dataclasses.replace(gate, message=TOO_MANY)
    return dataclasses.replace(gate, message=SENT, pending_email=rules.login_key(email))


async def _complete(services: Services, call: Call, gate: VerificationPage, code: str) -> None:
    started = await _open(services, gate)
    if started is None:
        raise NotFound(log_detail="no verification is open")
    if gate.is_email:
        await email_verifications.complete(services, call, started.id, code)
    else:
        await registration_verifications.complete(services, call, started.id, code)


async def _send(services: Services, call: Call, gate: VerificationPage) -> None:
    client = gate.transaction.client
    if gate.is_email:
        if gate.pending_email and await email_change_requests.resend(services, call, client, gate.user):
            return
        await email_verifications.start(services, call, client.tenant, gate.user, client.application)
    else:
        await registration_verifications.start(services, call, client.tenant, gate.user, client.application)


async def _open(services: Services, gate: VerificationPage) -> OpenVerification | None:
    client = gate.transaction.client
    if gate.is_email:
        pending = await email_changes.find_open(services, gate.user)
        if pending is not None:
            return pending[0]
        return await verification_codes.find_open(services, client.tenant_id, "emailVerification", gate.user["id"])
    return await registration_verifications.find_open(services, gate.user, client.client_id)
