"""Two-factor authentication: policies, visible method members, and recovery codes.

method: what a user can present besides the password: an authenticator app, or a code by email or text message
challenge: a login that is halted until the user presents one of them
trust: a device on which the user completed a second factor, and which requires none for a while
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
REQUIRED: Final = "Required"
"""loginPolicy values: with Disabled no login requires a second factor, with Enabled those of users who have a method
do, with Required all do.
"""

_STRICTNESS: Final = (DISABLED, "ChallengeOnHighRisk", "ChallengeOnMediumRisk", ENABLED, REQUIRED)

ADDRESS_MEMBERS: Final = {EMAIL: "email", SMS: "mobilePhone"}
"""Method -> the member with the address to which its codes are sent."""

METHODS: Final = (AUTHENTICATOR, EMAIL, SMS)
MAXIMUM_METHODS: Final = 20

RECOVERY_CODES: Final = 10
_RECOVERY_ALPHABET: Final = string.ascii_uppercase + "23456789"
_RECOVERY_HALF: Final = 5
_SHOWN: Final = ("authenticator", "email", "id", "lastUsed", "method", "mobilePhone", "name")


def login_policy(tenant: Document, application: Document | None) -> str:
    """Return the effective loginPolicy: the application's, else the tenant's."""
    own = None if application is None else application["multiFactorConfiguration"].get("loginPolicy")
    return str(own or tenant["multiFactorConfiguration"]["loginPolicy"])


def trust_policy(application: Document | None) -> str:
    """Return whether trust in a device applies: Any, This or None. It is set with the application's own loginPolicy."""
    own = {} if application is None else application["multiFactorConfiguration"]
    return str(own.get("trustPolicy") or "Any")


def is_challenged(tenant: Document, application: Document | None, user: Document, *, is_trusted: bool) -> bool:
    """Whether a login requires a second factor by its policy alone.

    Policies that depend on the risk require it of every user who has a method: the risk of this login is not known.
    """
    policy = login_policy(tenant, application)
    if policy == DISABLED:
        return False
    if user["twoFactor"]["methods"]:
        return not is_trusted
    return policy == REQUIRED


def proves_second_factor(tenant: Document, own: Document, other: Document, user: Document) -> bool:
    """Whether a login to the application `own` required the second factor that one to `other` requires.

    A policy that depends on the risk required none of logins with a low risk, and a lambda may exempt any login.
    """
    if requirement_lambda(tenant, own) != requirement_lambda(tenant, other):
        return False
    policies = login_policy(tenant, own), login_policy(tenant, other)
    if not is_challenged(tenant, own, user, is_trusted=False):
        return False
    return policies[0] in {ENABLED, REQUIRED} or _STRICTNESS.index(policies[0]) >= _STRICTNESS.index(policies[1])


def has_requirement_lambda(tenant: Document, application: Document | None) -> bool:
    """Return whether a lambda decides about second factors."""
    return requirement_lambda(tenant, application) is not None


def requirement_lambda(tenant: Document, application: Document | None) -> str | None:
    """Return the id of the lambda that decides about second factors: the application's, else the tenant's."""
    for owner in (application, tenant):
        if owner is not None and (found := owner.get("lambdaConfiguration", {}).get("multiFactorRequirementId")):
            return str(found)
    return None


def configurable_methods(tenant: Document) -> tuple[str, ...]:
    """Return the methods that the tenant lets users add."""
    settings = tenant["multiFactorConfiguration"]
    return tuple(method for method in METHODS if settings[method]["enabled"])


def valid_trusts(trusts: Iterable[Document], application: Document | None, now: Instant) -> list[Document]:
    """Return the trusts of a device that apply to a login to this application, or to the tenant alone."""
    policy = trust_policy(application)
    application_id = None if application is None else application["id"]
    live = [trust for trust in trusts if trust["expiration"] > now]
    if policy == "None":
        return []
    return live if policy == "Any" else [trust for trust in live if trust.get("applicationId") == application_id]


def find_method(user: Document, method_id: str) -> Document | None:
    """Return the user's method with this id, or None."""
    for method in user["twoFactor"]["methods"]:
        if method["id"] == method_id:
            found: Document = method
            return found
    return None


def has_lost_methods(before: Document, after: Document) -> bool:
    """Whether `before` has a method that `after` lacks."""
    remaining_ids = {method["id"] for method in after["twoFactor"]["methods"]}
    return any(method["id"] not in remaining_ids for method in before["twoFactor"]["methods"])


def visible_method(method: Document, *, is_masked: bool) -> Document:
    """Return a method without its secret, and with a masked address if `is_masked`."""
    visible: Document = {name: method[name] for name in _SHOWN if name in method}
    if is_masked and "email" in visible:
        visible["email"] = masked_email(visible["email"])
    if is_masked and "mobilePhone" in visible:
        visible["mobilePhone"] = masked_phone(visible["mobilePhone"])
    return visible


def masked_email(address: str) -> str:
    """Return an address with only the first letter and the domain legible."""
    name, _, domain = address.rpartition("@")
    return f"{name[:1]}***@{domain}"


def masked_phone(number: str) -> str:
    """Return a number with only the last two digits legible."""
    return f"***{re.sub(r'[^0-9]', '', number)[-2:]}"


def new_recovery_codes() -> list[str]:
    """Return ten new codes, each of two groups of five letters and digits."""
    return ["-".join(new_text(_RECOVERY_HALF, _RECOVERY_ALPHABET) for _ in range(2)) for _ in range(RECOVERY_CODES)]


def is_recovery_code(expected: str, entered: str) -> bool:
    """Whether an entered code equals this one, regardless of grouping and case."""
    return same_secret(_plain(expected), _plain(entered))


def matches_recovery_code(codes: Iterable[str], entered: str) -> bool:
    """Whether an entered code is one of these. All are compared, so that the time reveals nothing."""
    return sum(is_recovery_code(code, entered) for code in codes) > 0


def _plain(code: str) -> str:
    return re.sub(r"[\s-]", "", code).upper()
