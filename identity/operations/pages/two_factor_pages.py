"""The two-factor pages of a login: choose a method, enter its code, trust the device, or set up the first method.

The login starts again after too many incorrect codes, and when the challenge expires. Recovery codes are shown once, in
the response to the form that adds the method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, Unavailable, WebhookTransactionFailed, WrongCode
from identity.ids import Secret
from identity.operations.authorization import login_requirements, login_resumption
from identity.operations.login import two_factor_challenges
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LoginPage,
    RejectedByWebhook,
    Step,
    StepFailed,
)
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import method_setup, page_messages
from identity.operations.pages.method_setup import MethodSetup
from identity.operations.two_factor import two_factor_trust
from identity.services import Services

METHOD_REQUIRED: Final = "twoFactor.choose"
_EXPIRED: Final = "[TwoFactorTimeout]"


@dataclasses.dataclass(frozen=True, slots=True)
class ChallengePage:
    """The user has to enter a code of the `chosen` method, or choose one of the (masked) `methods` if it is None.

    `message` is the key of a page text.
    """

    transaction: InterruptedTransaction
    methods: list[Document]
    chosen: Document | None
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Continued:
    """The login continues with `step`; `trust` is the secret of the trusted device and its lifetime in seconds."""

    step: Step
    trust: tuple[Secret, int] | None = None


async def show(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, message: str = ""
) -> ChallengePage | Step:
    """Return the page, or the next step if two-factor authentication is no longer required. Raises OAuth2Error."""
    requirement = await login_resumption.unmet_requirement(services, call, transaction, browser)
    details = transaction.login.details
    if not isinstance(requirement, login_outcomes.SecondFactorRequired) or "twoFactorId" not in details:
        return await login_resumption.resume(services, call, transaction, browser)
    call = call.within(transaction.client.tenant_id)
    try:
        challenge = await two_factor_challenges.get_challenge(services, call, details["twoFactorId"])
    except NotFound:
        return _expired(transaction)
    chosen = two_factor.find_method(challenge.user, details["methodId"])
    visible = None if chosen is None else two_factor.visible_method(chosen, is_masked=True)
    return ChallengePage(transaction, challenge.methods(), visible, message or details.get("message", ""))


async def choose(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, method_id: str
) -> ChallengePage | Step:
    """Choose a method and send its code, if it sends any. Raises OAuth2Error.

    The message about the sent code is stored with the transaction, for the page that asks for the code.
    """
    page = await show(services, call, transaction, browser)
    if not isinstance(page, ChallengePage):
        return page
    method = next((one for one in page.methods if one["id"] == method_id), None)
    if method is None:
        return dataclasses.replace(page, message=METHOD_REQUIRED)
    message = ""
    if login_requirements.sends_codes(method):
        two_factor_id = transaction.login.details["twoFactorId"]
        try:
            message = await login_requirements.send_code(
                services, call.within(transaction.client.tenant_id), two_factor_id, method_id
            )
        except NotFound:
            return _expired(transaction)
    if not await login_transactions.update_details(services, transaction, methodId=method_id, message=message):
        raise login_transactions.ended()
    return dataclasses.replace(page, chosen=method, message=message)


async def enter_code(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    code: str,
    *,
    trusts_device: bool,
) -> ChallengePage | Continued:
    """Verify a code and resume the login; the device is trusted only if the login continues. Raises OAuth2Error."""
    page = await show(services, call, transaction, browser)
    if not isinstance(page, ChallengePage):
        return Continued(page)
    client, two_factor_id = transaction.client, transaction.login.details["twoFactorId"]
    inside = call.within(client.tenant_id)
    try:
        verified = await two_factor_challenges.verify_code(services, inside, two_factor_id, code)
        login = dataclasses.replace(transaction.login.with_details(), second_factor=verified.method)
        step = await login_resumption.resume(services, call, transaction, browser, login, verified.side_effects())
    except (WrongCode, Unavailable) as error:
        return dataclasses.replace(page, message=page_messages.of_code_error(error))
    except NotFound:
        return Continued(_expired(transaction))
    if isinstance(step, LoginPage) and isinstance(step.problem, RejectedByWebhook):
        return dataclasses.replace(page, message=page_messages.LOGIN_REJECTED)
    if not trusts_device or isinstance(step, LoginPage):
        return Continued(step)
    trust = await two_factor_trust.trust_device(
        services, inside, client.tenant, client.application, verified.user, secret=browser.trust_id
    )
    return Continued(step, trust)


def _expired(transaction: InterruptedTransaction) -> Step:
    """Return the login page for a challenge that was completed, expired or failed too often.

    The transaction is not consumed: a concurrent request that completed the challenge is about to do so. Without the
    challenge it leads to no response.
    """
    return LoginPage(transaction.client, problem=StepFailed(_EXPIRED))


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryCodesPage:
    """A method was added; the login, under its next `transaction`, waits until the user saved the recovery codes."""

    transaction: InterruptedTransaction
    recovery_codes: Sequence[str] = dataclasses.field(repr=False)


async def show_setup(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    method: str = "",
    secret: str = "",
) -> MethodSetup | Step:
    """Return the page, or the next step if no method has to be added. Raises OAuth2Error."""
    requirement = await login_resumption.unmet_requirement(services, call, transaction, browser)
    if not isinstance(requirement, login_outcomes.SecondFactorRequired) or not requirement.configurable:
        return await login_resumption.resume(services, call, transaction, browser)
    user = requirement.user
    setup = method_setup.prepare(transaction.client, user, requirement.configurable, method, secret)
    return setup or LoginPage(transaction.client, user_rules.primary_login_id(user), requirement)


async def send_setup_code(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, method: str
) -> MethodSetup | Step:
    """Send the code that adds a method to the user's own address. Raises OAuth2Error."""
    setup = await show_setup(services, call, transaction, browser, method)
    return await method_setup.send_setup_code(services, call, setup) if isinstance(setup, MethodSetup) else setup


async def enable_method(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    method: str,
    secret: str,
    code: str,
) -> MethodSetup | RecoveryCodesPage | Step:
    """Add the method after verifying a code of it. Raises OAuth2Error."""
    setup = await show_setup(services, call, transaction, browser, method, secret)
    if not isinstance(setup, MethodSetup):
        return setup
    try:
        recovery_codes = await method_setup.enable(services, call, setup, code)
    except (WrongCode, Invalid, Unavailable, WebhookTransactionFailed) as error:
        return dataclasses.replace(setup, message=page_messages.of_code_error(error))
    await login_transactions.consume(services, transaction)
    login = dataclasses.replace(transaction.login.with_details(), second_factor=setup.method)
    page = await login_transactions.store_interrupted(
        services, transaction.verified_client, login, login_transactions.TWO_FACTOR_ENABLED
    )
    return RecoveryCodesPage(login_transactions.at_next_page(transaction, login, page), recovery_codes)
