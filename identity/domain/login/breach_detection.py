"""Breach detection: the statuses of a password, which of them count, and the digests to look up.

ExactMatch: the password was breached together with this login id. SubAddressMatch: with the login id without its
sub-address, `a@x` for `a+shop@x`. CommonPassword: it is on the list of common passwords. PasswordOnly: it was breached
with any login id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from identity.call import Document
from identity.domain.users import users

NOT_BREACHED: Final = "None"
EXACT_MATCH: Final = "ExactMatch"
SUB_ADDRESS_MATCH: Final = "SubAddressMatch"
COMMON_MATCH: Final = "CommonPassword"
ANY_MATCH: Final = "PasswordOnly"

STATUSES_BY_MATCH_MODE: Final = {
    "High": (EXACT_MATCH, SUB_ADDRESS_MATCH, COMMON_MATCH, ANY_MATCH),
    "Medium": (EXACT_MATCH, SUB_ADDRESS_MATCH, COMMON_MATCH),
    "Low": (EXACT_MATCH, COMMON_MATCH),
}
"""matchMode -> the statuses that count as breached, the most severe first."""

ERROR_CODES: Final = {
    EXACT_MATCH: "breachedExactMatch",
    SUB_ADDRESS_MATCH: "breachedSubAddressMatch",
    COMMON_MATCH: "breachedCommonPassword",
    ANY_MATCH: "breachedPasswordOnly",
}
"""Status -> the error code of a new password."""


def settings_of(tenant: Document) -> Document:
    """Return the tenant's `breachDetection` settings."""
    found: Document = tenant["passwordValidationRules"]["breachDetection"]
    return found


def digest(text: str) -> str:
    """Return the SHA-1 of a text in upper-case hex, the format of breach collections."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest().upper()


def credential_pairs(user: Document, password: str) -> Iterator[tuple[str, str]]:
    """Yield (status, text) of each pair of login id and password, joined by a colon, the most severe first."""
    keys = [users.login_key(login_id) for login_id in users.login_ids(user).values()]
    yield from ((EXACT_MATCH, f"{key}:{password}") for key in keys)
    for key in keys:
        base = _without_sub_address(key)
        if base != key:
            yield SUB_ADDRESS_MATCH, f"{base}:{password}"


def with_breach_status(user: Document, status: str, now: int) -> Document:
    """Return the user with the result of a check."""
    return {**user, "breachedPasswordStatus": status, "breachedPasswordLastCheckedInstant": now}


def _without_sub_address(login_id: str) -> str:
    name, at, domain = login_id.rpartition("@")
    return f"{name.partition('+')[0]}{at}{domain}" if at else login_id
