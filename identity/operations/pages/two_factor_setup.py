"""The pages of a login whose user has to add a second factor first: the secret or the message, the code, the codes.

The secret of an authenticator stands in the page and comes back with its form: it is worth something only from the
moment at which its user shows a code of it. Recovery codes are shown once, in the answer to that form.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users
from identity.errors import Invalid, Unavailable, WebhookTransactionFailed, WrongCode
from identity.operations.authorization import login_resumption
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, IntermediatePage, LoginPage, Step
from identity.operations.login_transactions.login_transactions import InterruptedLogin, InterruptedTransaction
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.two_factor.two_factor_methods import MethodRequest
from identity.services import Services

SENT: Final = "twoFactor.sent"
WRONG: Final = "twoFactor.wrongCode"
CANNOT_SEND: Final = "twoFactor.cannotSend"
TOO_MANY: Final = "[RateLimitedException]"
VETOED: Final = "[WebhookTransactionException]"
_ALGORITHMS: Final = {"HmacSHA1": "SHA1", "HmacSHA256": "SHA256", "HmacSHA512": "SHA512"}


@dataclasses.dataclass(frozen=True, slots=True)
class SetupPage:
    """The user has to add a method: `method` of those in `offered`; `secret` is an authenticator's, in Base32.

    `address` is where codes of any other method go, masked. `message` is the key of what is to be said.
    """

    transaction: InterruptedTransaction
    user: Document
    offered: tuple[str, ...]
    method: str
    secret: str = dataclasses.field(default="", repr=False)
    address: str = ""
    message: str = ""

    @property
    def uri(self) -> str:
        """What an authenticator app reads from the QR code."""
        return uri(self.transaction.client.tenant, self.user, self.secret)


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryCodesPage:
    """A method was added, and the login waits until its user has seen the recovery codes."""

    interlude: IntermediatePage
    transaction: InterruptedTransaction
    recovery_codes: Sequence[str] = dataclasses.field(repr=False)


def uri(tenant: Document, user: Document, secret: str) -> str:
    """What an authenticator app reads from a QR code: a secret in Base32, whose it is and how it counts."""
    settings = tenant["multiFactorConfiguration"]["authenticator"]
    issuer, account = (urllib.parse.quote(one, safe="") for one in (tenant["name"], users.primary_login_id(user)))
    query = {
        "secret": secret,
        "issuer": tenant["name"],
        "algorithm": _ALGORITHMS.get(settings["algorithm"], "SHA1"),
        "digits": settings["codeLength"],
        "period": settings["timeStep"],
    }
    return f"otpauth://totp/{issuer}:{account}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"


def kept(secret: str) -> str:
    """The secret of a form, in Base32; a new one where it is none that an authenticator may have."""
    known = totp.from_base32(secret)
    is_usable = known is not None and users.is_totp_secret(known)
    return secret if is_usable else str(two_factor_methods.new_secret()["secretBase32Encoded"])


async def show(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    method: str = "",
    secret: str = "",
) -> SetupPage | Step:
    """The page, with the same secret as before if there was one; or what comes next where nothing is to be added.

    Raises OAuth2Error.
    """
    halt = await login_resumption.unmet_requirement(services, call, transaction, browser)
    if not isinstance(halt, steps.SecondFactorRequired) or not halt.configurable:
        return await login_resumption.resume(services, call, transaction, browser)
    offered = tuple(one for one in halt.configurable if one == two_factor.AUTHENTICATOR or _address(halt.user, one))
    if not offered:
        return LoginPage(transaction.client, users.primary_login_id(halt.user), halt)
    chosen = method if method in offered else offered[0]
    setup = SetupPage(transaction, halt.user, offered, chosen)
    if chosen == two_factor.AUTHENTICATOR:
        return dataclasses.replace(setup, secret=kept(secret))
    address = _address(halt.user, chosen)
    mask = two_factor.masked_email if chosen == two_factor.EMAIL else two_factor.masked_phone
    return dataclasses.replace(setup, address=mask(address))


async def send(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser, method: str
) -> SetupPage | Step:
    """Send a code to the user's own address, by which a method is added. Raises OAuth2Error."""
    setup = await show(services, call, transaction, browser, method)
    if not isinstance(setup, SetupPage) or setup.method == two_factor.AUTHENTICATOR:
        return setup
    client, address = transaction.client, CodeAddress(setup.method, _address(setup.user, setup.method))
    try:
        await two_factor_methods.send_code(
            services,
            call.within(client.tenant_id),
            client.tenant,
            client.application,
            setup.user,
            address,
            "enable",
        )
    except Unavailable:
        return dataclasses.replace(setup, message=TOO_MANY)
    except Invalid:
        return dataclasses.replace(setup, message=CANNOT_SEND)
    return dataclasses.replace(setup, message=SENT)


async def enable(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    method: str,
    secret: str,
    code: str,
) -> SetupPage | RecoveryCodesPage | Step:
    """Add the method whose code was shown. The login then waits for its last page. Raises OAuth2Error."""
    setup = await show(services, call, transaction, browser, method, secret)
    if not isinstance(setup, SetupPage):
        return setup
    client, wanted = transaction.client, _wanted(setup)
    try:
        added = await two_factor_methods.enable(
            services,
            call.within(client.tenant_id),
            client.tenant,
            setup.user,
            wanted,
            code,
            application=client.application,
        )
    except (WrongCode, Invalid):
        return dataclasses.replace(setup, message=WRONG)
    except Unavailable:
        return dataclasses.replace(setup, message=TOO_MANY)
    except WebhookTransactionFailed:
        return dataclasses.replace(setup, message=VETOED)
    await login_transactions.consume(services, transaction)
    login = dataclasses.replace(transaction.login.with_details(), second_factor=setup.method)
    return await _enabled(services, transaction, login, added.recovery_codes)


async def finish(services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser) -> Step:
    """Go on with a login whose user has seen the recovery codes. Raises OAuth2Error."""
    return await login_resumption.resume(services, call, transaction, browser)


async def _enabled(
    services: Services, transaction: InterruptedTransaction, login: InterruptedLogin, recovery_codes: Sequence[str]
) -> RecoveryCodesPage:
    page = login_transactions.TWO_FACTOR_ENABLED
    interlude = await login_transactions.store_interrupted(services, transaction.verified_client, login, page)
    after = login_transactions.at_next_page(transaction, login, interlude)
    return RecoveryCodesPage(interlude, after, recovery_codes)


def _wanted(setup: SetupPage) -> MethodRequest:
    if setup.method == two_factor.AUTHENTICATOR:
        return MethodRequest(setup.method, secret=totp.from_base32(setup.secret))
    return MethodRequest(setup.method, address=_address(setup.user, setup.method))


def _address(user: Document, method: str) -> str:
    """Where codes of a method would go: only to what stands on the user already."""
    found = users.email_address(user) if method == two_factor.EMAIL else user.get("mobilePhone")
    return str(found or "")
