"""The page after a login that offers to add a passkey for the next one.

Showing the page does not consume the login transaction. A passkey that was added, or the refusal, does.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.webauthn import workflows
from identity.operations.authorization import authorization
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import account_passkeys
from identity.operations.pages.accounts import Account
from identity.operations.webauthn import known_browsers
from identity.operations.webauthn.known_browsers import BrowserCookie
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class PasskeyOffer:
    """The page for a user, with the options to create a passkey."""

    user: Document
    options: Document


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> PasskeyOffer | Step:
    """Return the page, or the next step if the user can add no passkey any more. Raises OAuth2Error."""
    account = await _find_account(services, call, transaction, browser)
    if account is None:
        return LoginPage(transaction.client)
    base_url, options = call.origin.base_url, None
    if account_passkeys.is_offered(services, account.client, base_url):
        options = await account_passkeys.start(
            services,
            account,
            base_url,
            transaction.transaction_id,
            call.origin.user_agent,
            workflows.REAUTHENTICATION,
        )
    if options is not None:
        return PasskeyOffer(account.user, options)
    await login_transactions.consume(services, transaction)
    return await _continue(services, call, transaction, browser, known_browsers.declined_cookie(account.client.tenant))


async def add(
    services: Services,
    call: Call,
    transaction: AuthenticatedTransaction,
    browser: Browser,
    response: str,
    name: str,
) -> tuple[Step, BrowserCookie] | None:
    """Add the passkey of a browser's response, and continue with the login; None if it is rejected."""
    account = await _find_account(services, call, transaction, browser)
    cookie = None
    if account is not None:
        cookie = await account_passkeys.add(services, call, account, transaction.transaction_id, response, name)
    if cookie is None:
        return None
    await login_transactions.consume(services, transaction)
    return await _continue(services, call, transaction, browser, cookie), cookie


async def decline(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> tuple[Step, BrowserCookie]:
    """Continue with the login, without another offer in this browser."""
    await login_transactions.consume(services, transaction)
    cookie = known_browsers.declined_cookie(transaction.client.tenant)
    return await _continue(services, call, transaction, browser, cookie), cookie


async def _continue(
    services: Services,
    call: Call,
    transaction: AuthenticatedTransaction,
    browser: Browser,
    cookie: BrowserCookie,
) -> Step:
    """Continue with the login in a browser that has the cookie, after the transaction was consumed."""
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(transaction.client)
    call = dataclasses.replace(call, devices={**(call.devices or {}), cookie.name: cookie.value})
    return await authorization.proceed(services, call, transaction.verified_client, *restored)


async def _find_account(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> Account | None:
    """Return the account of a login that meets all requirements."""
    client = transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None or authorization.unmet_requirement(call, client, restored[1]) is not None:
        return None
    return Account(client, restored[1].user, restored[1])
