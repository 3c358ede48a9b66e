"""The login pages on which a user has to set up two-factor authentication and then sees the recovery codes.

Recovery codes are shown once, in the response to the form that adds the method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from identity.call import Call
from identity.domain.login import login_outcomes
from identity.domain.users import users as user_rules
from identity.errors import Invalid, Unavailable, WebhookTransactionFailed, WrongCode
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step
from identity.operations.login_transactions.login_transactions import InterruptedTransaction
from identity.operations.pages import method_setup, page_messages
from identity.operations.pages.method_setup import MethodSetup
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryCodesPage:
    """A method was added; the login, under its next `transaction`, waits until the user saved the recovery codes."""

    transaction: InterruptedTransaction
    recovery_codes: Sequence[str] = dataclasses.field(repr=False)


async def show(
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


async def send(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, method: str
) -> MethodSetup | Step:
    """Send the code that adds a method to the user's own address. Raises OAuth2Error."""
    setup = await show(services, call, transaction, browser, method)
    return await method_setup.send_setup_code(services, call, setup) if isinstance(setup, MethodSetup) else setup


async def enable(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    method: str,
    secret: str,
    code: str,
) -> MethodSetup | RecoveryCodesPage | Step:
    """Add the method after verifying a code of it. Raises OAuth2Error."""
    setup = await show(services, call, transaction, browser, method, secret)
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
