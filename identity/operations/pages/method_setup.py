"""Set up a two-factor method on a page, during a login or on the account page.

The secret of an authenticator app is part of the form. It has no effect until the user enters a code generated from it.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.two_factor import totp, two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, Unavailable
from identity.operations.clients.clients import Client
from identity.operations.pages import page_messages
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.two_factor.two_factor_methods import CodePurpose, MethodRequest
from identity.services import Services

_ALGORITHMS: Final = {"HmacSHA1": "SHA1", "HmacSHA256": "SHA256", "HmacSHA512": "SHA512"}


@dataclasses.dataclass(frozen=True, slots=True)
class MethodSetup:
    """The page that sets up `method`, one of the `available` methods; `message` is the key of a page text.

    `secret` (Base32) is that of an authenticator app; every other method sends its codes to the user's address.
    """

    client: Client
    user: Document
    available: tuple[str, ...]
    method: str
    secret: str = dataclasses.field(default="", repr=False)
    message: str = ""

    @property
    def address(self) -> str:
        """The address that receives the codes; empty for an authenticator app."""
        return _address(self.user, self.method)

    @property
    def masked_address(self) -> str:
        """The address as the page shows it."""
        if self.method == two_factor.AUTHENTICATOR:
            return ""
        mask = two_factor.masked_email if self.method == two_factor.EMAIL else two_factor.masked_phone
        return mask(self.address)

    @property
    def key_uri(self) -> str:
        """The `otpauth:` URI of the QR code that an authenticator app scans."""
        tenant = self.client.tenant
        settings = tenant["multiFactorConfiguration"]["authenticator"]
        issuer, account = (
            urllib.parse.quote(name, safe="") for name in (tenant["name"], user_rules.primary_login_id(self.user))
        )
        query = {
            "secret": self.secret,
            "issuer": tenant["name"],
            "algorithm": _ALGORITHMS.get(settings["algorithm"], "SHA1"),
            "digits": settings["codeLength"],
            "period": settings["timeStep"],
        }
        return f"otpauth://totp/{issuer}:{account}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"


def available_methods(user: Document, methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that the user can add: codes are only sent to addresses that the account already has."""
    return tuple(method for method in methods if method == two_factor.AUTHENTICATOR or _address(user, method))


def prepare(
    client: Client, user: Document, methods: Iterable[str], method: str = "", secret: str = ""
) -> MethodSetup | None:
    """Return the page for a method, by default the first available one; None if none is available.

    A valid `secret` of an earlier form is kept, so that the QR code does not change.
    """
    available = available_methods(user, methods)
    if not available:
        return None
    method = method if method in available else available[0]
    if method != two_factor.AUTHENTICATOR:
        return MethodSetup(client, user, available, method)
    known = totp.from_base32(secret)
    if known is None or not user_rules.is_totp_secret(known):
        secret = str(two_factor_methods.new_secret()["secretBase32Encoded"])
    return MethodSetup(client, user, available, method, secret)


async def send_code(
    services: Services, call: Call, client: Client, user: Document, address: CodeAddress, purpose: CodePurpose
) -> str:
    """Send a code to the address of a method; returns the key of the page text."""
    try:
        await two_factor_methods.send_code(
            services, call.within(client.tenant_id), client.tenant, client.application, user, address, purpose
        )
    except Unavailable:
        return page_messages.TOO_MANY_ATTEMPTS
    except Invalid:
        return page_messages.CANNOT_SEND
    return page_messages.CODE_SENT


async def send_setup_code(services: Services, call: Call, setup: MethodSetup) -> MethodSetup:
    """Send the code that adds the method; an authenticator app needs none."""
    if setup.method == two_factor.AUTHENTICATOR:
        return setup
    address = CodeAddress(setup.method, setup.address)
    message = await send_code(services, call, setup.client, setup.user, address, "enable")
    return dataclasses.replace(setup, message=message)


async def enable(services: Services, call: Call, setup: MethodSetup, code: str) -> Sequence[str]:
    """Add the method after verifying a code of it; returns the recovery codes that come with the first method.

    Raises WrongCode, Invalid, Unavailable and WebhookTransactionFailed.
    """
    if setup.method == two_factor.AUTHENTICATOR:
        request = MethodRequest(setup.method, secret=totp.from_base32(setup.secret))
    else:
        request = MethodRequest(setup.method, address=setup.address)
    client = setup.client
    added = await two_factor_methods.enable(
        services, call.within(client.tenant_id), client.tenant, setup.user, request, code.strip(),
        application=client.application,
    )  # fmt: skip
    return added.recovery_codes


def _address(user: Document, method: str) -> str:
    if method == two_factor.AUTHENTICATOR:
        return ""
    return str((user_rules.email_address(user) if method == two_factor.EMAIL else user.get("mobilePhone")) or "")
