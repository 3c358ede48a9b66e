"""Second factors: who is asked for one, what of them may be seen, and recovery codes.

method          what a user can show beside the password: an authenticator app, or a code by email or text message
challenge       a login that waits for one of them
trust           a device on which a user was asked before, and is not asked again for a while
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Final

from identity.call import Document
from identity.ids import new_text, same_secret
from identity.instants import Instant

AUTHENTICATOR: Final = "authenticator"
EMAIL: Final = "email"
SMS: Final = "sms"
RECOVERY_CODE: Final = "recoveryCode"

DISABLED: Final = "Disabled"
ENABLED: Final = "Enabled"
"""Of the loginPolicies: nobody is asked; who has a second factor is."""

ADDRESS_MEMBERS: Final = {EMAIL: "email", SMS: "mobilePhone"}
"""Method -> the member with the address that its codes are sent to."""

METHODS: Final = (AUTHENTICATOR, EMAIL, SMS)
MAXIMUM_METHODS: Final = 20

RECOVERY_CODES: Final = 10
_RECOVERY_ALPHABET: Final = string.ascii_uppercase + "23456789"
_RECOVERY_HALF: Final = 5
_SHOWN: Final = ("authenticator", "email", "id", "lastUsed", "method", "mobilePhone", "name")


def login_policy(tenant: Document, application: Document | None) -> str:
    """The loginPolicy that holds: the application's own, else the tenant's."""
    own = None if application is None else application["multiFactorConfiguration"].get("loginPolicy")
    return str(own or tenant["multiFactorConfiguration"]["loginPolicy"])


def trust_policy(application: Document | None) -> str:
    """Whose trust in a device counts: Any, This or None. It goes with a loginPolicy of the application's own."""
    own = {} if application is None else application["multiFactorConfiguration"]
    return str(own.get("trustPolicy") or "Any")


def is_challenged(tenant: Document, application: Document | None, user: Document, *, is_trusted: bool) -> bool:
    """Whether a login needs a second factor.

    The policies that ask for one at a risk alone, which nobody here judges, ask whoever has one.
    """
    policy = login_policy(tenant, application)
    if policy == DISABLED:
        return False
    if user["twoFactor"]["methods"]:
        return not is_trusted
    return policy == "Required"


def configurable_methods(tenant: Document) -> tuple[str, ...]:
    """The methods that users of a tenant may add."""
    settings = tenant["multiFactorConfiguration"]
    return tuple(method for method in METHODS if settings[method]["enabled"])


def valid_trusts(trusts: Iterable[Document], application: Document | None, now: Instant) -> list[Document]:
    """Those of a device's trusts that a login to this application, or to none, may rely on."""
    policy = trust_policy(application)
    application_id = None if application is None else application["id"]
    live = [trust for trust in trusts if trust["expiration"] > now]
    if policy == "None":
        return []
    return live if policy == "Any" else [trust for trust in live if trust.get("applicationId") == application_id]


def find_method(user: Document, method_id: str) -> Document | None:
    """The user's method with this id."""
    for method in user["twoFactor"]["methods"]:
        if method["id"] == method_id:
            found: Document = method
            return found
    return None


def has_lost_methods(before: Document, after: Document) -> bool:
    """Whether a user has a method no more that was there before."""
    kept = {method["id"] for method in after["twoFactor"]["methods"]}
    return any(method["id"] not in kept for method in before["twoFactor"]["methods"])


def visible_method(method: Document, *, is_masked: bool) -> Document:
    """A method without its secret; `is_masked`: its address only tells those who know it which one it is."""
    seen: Document = {name: method[name] for name in _SHOWN if name in method}
    if is_masked and "email" in seen:
        seen["email"] = masked_email(seen["email"])
    if is_masked and "mobilePhone" in seen:
        seen["mobilePhone"] = masked_phone(seen["mobilePhone"])
    return seen


def masked_email(address: str) -> str:
    """An address of which the first letter and the domain are legible."""
    name, _, domain = address.rpartition("@")
    return f"{name[:1]}***@{domain}"


def masked_phone(number: str) -> str:
    """A number of which the last two digits are legible."""
    return f"***{re.sub(r'[^0-9]', '', number)[-2:]}"


def new_recovery_codes() -> list[str]:
    """Ten fresh codes, each of five and five letters and digits."""
    return ["-".join(new_text(_RECOVERY_HALF, _RECOVERY_ALPHABET) for _ in range(2)) for _ in range(RECOVERY_CODES)]


def is_recovery_code(kept: str, given: str) -> bool:
    """Whether a code that was typed in is this one, however it was grouped, in either case."""
    return same_secret(_plain(kept), _plain(given))


def matches_recovery_code(codes: Iterable[str], given: str) -> bool:
    """Whether a code is one of these; all are looked at, so that time does not tell which one it is."""
    return sum(is_recovery_code(kept, given) for kept in codes) > 0


def _plain(code: str) -> str:
    return re.sub(r"[\s-]", "", code).upper()
