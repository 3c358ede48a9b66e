"""The second factors of an account, as its pages add and remove them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users
from identity.errors import Invalid, NotFound, Unavailable, WebhookTransactionFailed, WrongCode
from identity.operations.pages import two_factor_setup
from identity.operations.pages.accounts import Account
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.two_factor.two_factor_methods import CodePurpose, MethodRequest
from identity.services import Services

SENT: Final = two_factor_setup.SENT
WRONG: Final = two_factor_setup.WRONG


@dataclasses.dataclass(frozen=True, slots=True)
class Adding:
    """A method that the user is about to add: `secret` is an authenticator's, in Base32; else codes go to `address`.

    `message` is the key of what is to be said.
    """

    account: Account
    method: str
    offered: tuple[str, ...]
    secret: str = dataclasses.field(default="", repr=False)
    address: str = ""
    message: str = ""

    @property
    def uri(self) -> str:
        """What an authenticator app reads from the QR code."""
        return two_factor_setup.uri(self.account.client.tenant, self.account.user, self.secret)


@dataclasses.dataclass(frozen=True, slots=True)
class Removing:
    """A method that the user is about to remove, as it may be shown."""

    method: Document
    message: str = ""

    @property
    def is_sendable(self) -> bool:
        """Whether a code has to be sent first."""
        return self.method["method"] in two_factor.ADDRESS_MEMBERS


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """It was added or removed; recovery codes come with the first method, and are shown this once."""

    recovery_codes: Sequence[str] = dataclasses.field(default=(), repr=False)


def methods(account: Account) -> list[Document]:
    """The methods that the user has, as they may be shown."""
    return [two_factor.visible_method(method, is_masked=True) for method in account.user["twoFactor"]["methods"]]


def offered(account: Account) -> tuple[str, ...]:
    """The methods that the user may add: messages go to what stands on the account already."""
    found = two_factor.configurable_methods(account.client.tenant)
    return tuple(one for one in found if one == two_factor.AUTHENTICATOR or _address(account.user, one))


def adding(account: Account, method: str, secret: str = "") -> Adding | None:
    """The page of a new method, with the same secret as before if there was one; None where none can be added."""
    found = offered(account)
    if not found:
        return None
    chosen = method if method in found else found[0]
    if chosen == two_factor.AUTHENTICATOR:
        return Adding(account, chosen, found, two_factor_setup.kept(secret))
    mask = two_factor.masked_email if chosen == two_factor.EMAIL else two_factor.masked_phone
    return Adding(account, chosen, found, address=mask(_address(account.user, chosen)))


async def send_to_add(services: Services, call: Call, page: Adding) -> Adding:
    """Send the code by which a method is added."""
    if page.method == two_factor.AUTHENTICATOR:
        return page
    address = CodeAddress(page.method, _address(page.account.user, page.method))
    return dataclasses.replace(page, message=await _sent(services, call, page.account, address, "enable"))


async def add(services: Services, call: Call, page: Adding, code: str) -> Adding | Done:
    """Add the method whose code was shown."""
    account, client = page.account, page.account.client
    wanted = MethodRequest(page.method, address=_address(account.user, page.method))
    if page.method == two_factor.AUTHENTICATOR:
        wanted = MethodRequest(page.method, secret=totp.from_base32(page.secret))
    try:
        added = await two_factor_methods.enable(
            services, call.within(client.tenant_id), client.tenant, account.user, wanted, code.strip(),
            application=client.application,
        )  # fmt: skip
    except (WrongCode, Invalid):
        return dataclasses.replace(page, message=WRONG)
    except Unavailable:
        return dataclasses.replace(page, message="[RateLimitedException]")
    except WebhookTransactionFailed:
        return dataclasses.replace(page, message="verify.vetoed")
    return Done(added.recovery_codes)


def removing(account: Account, method_id: str) -> Removing | None:
    """The page on which a method of this account is removed; None for a method that it does not have."""
    method = two_factor.find_method(account.user, method_id)
    return None if method is None else Removing(two_factor.visible_method(method, is_masked=True))


async def send_to_remove(services: Services, call: Call, account: Account, page: Removing) -> Removing:
    """Send the code by which a method is removed."""
    method = two_factor.find_method(account.user, page.method["id"])
    address = None if method is None else CodeAddress.of(method)
    if address is None:
        return page
    return dataclasses.replace(page, message=await _sent(services, call, account, address, "disable"))


async def remove(services: Services, call: Call, account: Account, page: Removing, code: str) -> Removing | Done:
    """Remove the method whose code was shown; for a recovery code, all of them."""
    client = account.client
    try:
        await two_factor_methods.disable(
            services, call.within(client.tenant_id), client.tenant, account.user, code.strip(), page.method["id"],
            application=client.application,
        )  # fmt: skip
    except (WrongCode, Invalid, NotFound):
        return dataclasses.replace(page, message=WRONG)
    except Unavailable:
        return dataclasses.replace(page, message="[RateLimitedException]")
    return Done()


async def _sent(services: Services, call: Call, account: Account, address: CodeAddress, deed: CodePurpose) -> str:
    """The key of what is to be said of a code that was to be sent."""
    client = account.client
    try:
        await two_factor_methods.send_code(
            services, call.within(client.tenant_id), client.tenant, client.application, account.user, address, deed
        )
    except Unavailable:
        return "[RateLimitedException]"
    except Invalid:
        return two_factor_setup.CANNOT_SEND
    return SENT


def _address(user: Document, method: str) -> str:
    """Where codes of a method go."""
    if method == two_factor.AUTHENTICATOR:
        return ""
    found = users.email_address(user) if method == two_factor.EMAIL else user.get("mobilePhone")
    return str(found or "")
