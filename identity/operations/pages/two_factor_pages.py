"""The pages of a login that waits for a second factor: choosing a method, showing its code, trusting the browser.

After too many wrong codes, or when the challenge is over, the login begins again.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.two_factor import two_factor
from identity.errors import NotFound, Unavailable, WrongCode
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
from identity.operations.two_factor import two_factor_trust
from identity.services import Services

SENT: Final = "twoFactor.sent"
WRONG: Final = "twoFactor.wrongCode"
CHOOSE: Final = "twoFactor.choose"
TOO_MANY: Final = "[RateLimitedException]"
VETOED: Final = "[WebhookTransactionException]"
_OVER: Final = "[TwoFactorTimeout]"


@dataclasses.dataclass(frozen=True, slots=True)
class ChallengePage:
    """The user has to show a second factor; `message` is the key of what is to be said of the last attempt.

    `methods` as they may be shown; `chosen` is the one whose code is asked for, None before any was chosen.
    """

    transaction: InterruptedTransaction
    methods: list[Document]
    chosen: Document | None
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Continued:
    """The login went on; `trust` is what the browser shows from now on to be trusted, and for how many seconds."""

    step: Step
    trust: tuple[Secret, int] | None = None


async def show(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, message: str = ""
) -> ChallengePage | Step:
    """The page; or what comes next where no second factor is missing any more. Raises OAuth2Error."""
    halt = await login_resumption.unmet_requirement(services, call, transaction, browser)
    if not isinstance(halt, steps.SecondFactorRequired) or "twoFactorId" not in transaction.login.details:
        return await login_resumption.resume(services, call, transaction, browser)
    inside, details = call.within(transaction.client.tenant_id), transaction.login.details
    try:
        found = await two_factor_challenges.get_challenge(services, inside, details["twoFactorId"])
    except NotFound:
        return _over(transaction)
    chosen = two_factor.find_method(found.user, details["methodId"])
    shown = None if chosen is None else two_factor.visible_method(chosen, is_masked=True)
    return ChallengePage(transaction, found.methods(), shown, message or details.get("message", ""))


async def choose(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, method_id: str
) -> ChallengePage | Step:
    """Choose a method; if its codes are messages, one is sent. Raises OAuth2Error.

    The answer has no message where one is needed: it is remembered for the page of the code.
    """
    page = await show(services, call, transaction, browser)
    if not isinstance(page, ChallengePage):
        return page
    method = next((one for one in page.methods if one["id"] == method_id), None)
    if method is None:
        return dataclasses.replace(page, message=CHOOSE)
    message = ""
    if login_requirements.sends_codes(method):
        inside, two_factor_id = call.within(transaction.client.tenant_id), transaction.login.details["twoFactorId"]
        try:
            message = await login_requirements.send_code(services, inside, two_factor_id, method_id)
        except NotFound:
            return _over(transaction)
    if not await login_transactions.update_details(services, transaction, methodId=method_id, message=message):
        raise login_transactions.ended()
    return dataclasses.replace(page, chosen=method, message=message)


async def enter_code(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, code: str, *, trusts: bool
) -> ChallengePage | Continued:
    """Take a code. To trust the browser is only good where the login goes on. Raises OAuth2Error."""
    page = await show(services, call, transaction, browser)
    if not isinstance(page, ChallengePage):
        return Continued(page)
    inside = call.within(transaction.client.tenant_id)
    try:
        verified = await two_factor_challenges.verify_code(
            services, inside, transaction.login.details["twoFactorId"], code
        )
        login = dataclasses.replace(transaction.login.with_details(), second_factor=verified.method)
        step = await login_resumption.resume(services, call, transaction, browser, login, verified.side_effects())
    except WrongCode:
        return dataclasses.replace(page, message=WRONG)
    except Unavailable:
        return dataclasses.replace(page, message=TOO_MANY)
    except NotFound:
        return Continued(_over(transaction))
    if isinstance(step, LoginPage) and isinstance(step.problem, RejectedByWebhook):
        return dataclasses.replace(page, message=VETOED)
    if not trusts or isinstance(step, LoginPage):
        return Continued(step)
    trust = await two_factor_trust.trust_device(
        services,
        inside,
        transaction.client.tenant,
        transaction.client.application,
        verified.user,
        secret=browser.trust_id,
    )
    return Continued(step, trust)


def _over(transaction: InterruptedTransaction) -> Step:
    """The login page: the challenge is met, was tried too often, or is too old.

    The transaction is left alone: a request that met the challenge a moment ago is about to consume it. It leads to no
    response without the challenge.
    """
    return LoginPage(transaction.client, problem=StepFailed(_OVER))
