"""Breached passwords: what a password can be found as, which finds count, and what is looked up for that.

exact match        this password was seen together with this login id
sub-address match  it was seen with the address without its sub-address: `a@x` for `a+shop@x`
common password    it is among those that everybody tries first
password only      it was seen somewhere, with whomever
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
"""matchMode -> the finds that count, the worst first."""

ERROR_CODES: Final = {
    EXACT_MATCH: "breachedExactMatch",
    SUB_ADDRESS_MATCH: "breachedSubAddressMatch",
    COMMON_MATCH: "breachedCommonPassword",
    ANY_MATCH: "breachedPasswordOnly",
}
"""Find -> the kind of the error that a new password gets."""


def settings_of(tenant: Document) -> Document:
    """The tenant's settings."""
    found: Document = tenant["passwordValidationRules"]["breachDetection"]
    return found


def digest(text: str) -> str:
    """What is looked up of a text: its SHA-1 in upper-case hex, because that is what the collections have."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest().upper()


def credential_pairs(user: Document, password: str) -> Iterator[tuple[str, str]]:
    """(find, text) of each pair of a login id and the password, the worst first; a colon stands in between."""
    keys = [users.login_key(login_id) for login_id in users.login_ids(user).values()]
    yield from ((EXACT_MATCH, f"{key}:{password}") for key in keys)
    for key in keys:
        base = _without_sub_address(key)
        if base != key:
            yield SUB_ADDRESS_MATCH, f"{base}:{password}"


def with_breach_status(user: Document, status: str, now: int) -> Document:
    """The user with what a look for the password found."""
    return {**user, "breachedPasswordStatus": status, "breachedPasswordLastCheckedInstant": now}


def _without_sub_address(login_id: str) -> str:
    name, at, domain = login_id.rpartition("@")
    return f"{name.partition('+')[0]}{at}{domain}" if at else login_id
