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

NONE: Final = "None"
EXACT: Final = "ExactMatch"
SUB_ADDRESS: Final = "SubAddressMatch"
COMMON: Final = "CommonPassword"
SEEN: Final = "PasswordOnly"

COUNTING: Final = {
    "High": (EXACT, SUB_ADDRESS, COMMON, SEEN),
    "Medium": (EXACT, SUB_ADDRESS, COMMON),
    "Low": (EXACT, COMMON),
}
"""matchMode -> the finds that count, the worst first."""

CODES: Final = {
    EXACT: "breachedExactMatch",
    SUB_ADDRESS: "breachedSubAddressMatch",
    COMMON: "breachedCommonPassword",
    SEEN: "breachedPasswordOnly",
}
"""Find -> the kind of the error that a new password gets."""


def detection_of(tenant: Document) -> Document:
    """The tenant's settings."""
    found: Document = tenant["passwordValidationRules"]["breachDetection"]
    return found


def digest(text: str) -> str:
    """What is looked up of a text: its SHA-1 in upper-case hex, because that is what the collections have."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest().upper()


def pairs(user: Document, password: str) -> Iterator[tuple[str, str]]:
    """(find, text) of each pair of a login id and the password, the worst first; a colon stands in between."""
    keys = [users.login_key(login_id) for login_id in users.login_ids(user).values()]
    yield from ((EXACT, f"{key}:{password}") for key in keys)
    for key in keys:
        base = _without_sub_address(key)
        if base != key:
            yield SUB_ADDRESS, f"{base}:{password}"


def marked(user: Document, status: str, now: int) -> Document:
    """The user with what a look for the password found."""
    return {**user, "breachedPasswordStatus": status, "breachedPasswordLastCheckedInstant": now}


def _without_sub_address(login_id: str) -> str:
    name, at, domain = login_id.rpartition("@")
    return f"{name.partition('+')[0]}{at}{domain}" if at else login_id
