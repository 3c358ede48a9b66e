"""The account pages that list, add and remove two-factor methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.errors import Invalid, NotFound, Unavailable, WebhookTransactionFailed, WrongCode
from identity.operations.pages import method_setup, page_messages
from identity.operations.pages.accounts import Account
from identity.operations.pages.method_setup import MethodSetup
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.services import Services

ONLY_METHOD: Final = "accountTwoFactorDisable.onlyMethod"


@dataclasses.dataclass(frozen=True, slots=True)
class MethodRemoval:
    """The page that removes `method`, which is masked; `message` is the key of a page text."""

    method: Document
    message: str = ""

    @property
    def sends_codes(self) -> bool:
        """Whether the codes of the method are sent as messages."""
        return self.method["method"] in two_factor.ADDRESS_MEMBERS


@dataclasses.dataclass(frozen=True, slots=True)
class MethodsChanged:
    """A method was added or removed; `recovery_codes` come with the first method and are shown once."""

    recovery_codes: Sequence[str] = dataclasses.field(default=(), repr=False)


def methods(account: Account) -> list[Document]:
    """Return the user's methods with masked addresses."""
    return [two_factor.visible_method(method, is_masked=True) for method in account.user["twoFactor"]["methods"]]


def available_methods(account: Account) -> tuple[str, ...]:
    """Return the methods that the user can add."""
    return method_setup.available_methods(account.user, two_factor.configurable_methods(account.client.tenant))


def prepare_setup(account: Account, method: str, secret: str = "") -> MethodSetup | None:
    """Return the page that adds a method, with the secret of an earlier form; None if no method is available."""
    methods = two_factor.configurable_methods(account.client.tenant)
    return method_setup.prepare(account.client, account.user, methods, method, secret)


async def add(services: Services, call: Call, setup: MethodSetup, code: str) -> MethodSetup | MethodsChanged:
    """Add the method after verifying a code of it."""
    try:
        return MethodsChanged(await method_setup.enable(services, call, setup, code))
    except (WrongCode, Invalid, Unavailable, WebhookTransactionFailed) as error:
        message = page_messages.of_code_error(error, rejected=page_messages.CHANGE_REJECTED)
        return dataclasses.replace(setup, message=message)


def prepare_removal(account: Account, method_id: str) -> MethodRemoval | None:
    """Return the page that removes a method; None if the account does not have it."""
    method = two_factor.find_method(account.user, method_id)
    return None if method is None else MethodRemoval(two_factor.visible_method(method, is_masked=True))


async def send_removal_code(services: Services, call: Call, account: Account, removal: MethodRemoval) -> MethodRemoval:
    """Send the code that removes a method; an authenticator app needs none."""
    method = two_factor.find_method(account.user, removal.method["id"])
    address = None if method is None else CodeAddress.of(method)
    if address is None:
        return removal
    message = await method_setup.send_code(services, call, account.client, account.user, address, "disable")
    return dataclasses.replace(removal, message=message)


async def remove(
    services: Services, call: Call, account: Account, removal: MethodRemoval, code: str
) -> MethodRemoval | MethodsChanged:
    """Remove the method after verifying a code of it; a recovery code removes all methods.

    Where logins require a second factor, a code does not remove the only method. A recovery code does, for a user who
    lost the method; the next login requires a new one.
    """
    client, code = account.client, code.strip()
    if _is_required(account) and not two_factor.matches_recovery_code(account.user["twoFactor"]["recoveryCodes"], code):
        return dataclasses.replace(removal, message=ONLY_METHOD)
    try:
        await two_factor_methods.disable(
            services, call.within(client.tenant_id), client.tenant, account.user, code, removal.method["id"],
            application=client.application,
        )  # fmt: skip
    except (WrongCode, Invalid, NotFound, Unavailable) as error:
        return dataclasses.replace(removal, message=page_messages.of_code_error(error))
    return MethodsChanged()


def _is_required(account: Account) -> bool:
    """Whether the user has a single method, and logins require one."""
    policy = two_factor.login_policy(account.client.tenant, account.client.application)
    return policy == two_factor.REQUIRED and len(account.user["twoFactor"]["methods"]) == 1
