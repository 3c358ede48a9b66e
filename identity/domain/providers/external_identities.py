"""The identity that an identity provider asserts, and which of its claims are stored on the user."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document

_MAXIMUM_ID: Final = 255
_MAXIMUM_DEPTH: Final = 32
_OUT_OF_RANGE: Final = 2**63
"""The first whole number that no store and no lambda can take."""
_EMAIL = re.compile(r"[^\s@\x00-\x1f\"<>]{1,64}@[^\s@\x00-\x1f\"<>]{1,190}")

PROFILE_MEMBERS: Final = (
    *("birthDate", "data", "firstName", "fullName", "imageUrl", "lastName", "middleName", "mobilePhone"),
    *("preferredLanguages", "timezone"),
)
"""The members of a user that a provider may fill, by claim map or lambda: none by which anybody logs in."""

REGISTRATION_MEMBERS: Final = ("data", "preferredLanguages", "roles", "timezone", "username")
"""The members of a registration that a reconcile lambda may fill."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """A person as a provider knows them.

    `lambda_arguments` follow user and registration in a reconcile lambda; `token` is kept with the link.
    """

    unique_id: str
    email: str | None
    is_email_verified: bool | None
    username: str | None
    claims: Document = dataclasses.field(repr=False)
    lambda_arguments: tuple[Document, ...] = dataclasses.field(default=(), repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)

    @property
    def display_name(self) -> str | None:
        """How the account calls itself."""
        return self.email or self.username


def parse(
    oauth2: Mapping[str, Any], claims: Document, *, lambda_arguments: tuple[Document, ...], token: str | None = None
) -> ExternalIdentity | None:
    """The identity in some claims, by the names that the provider's settings give them; None without a unique id."""
    unique_id = _identifier(claims.get(oauth2["uniqueIdClaim"]))
    if unique_id is None:
        return None
    email, username = _text(claims.get(oauth2["emailClaim"])), _text(claims.get(oauth2["usernameClaim"]))
    return ExternalIdentity(
        unique_id,
        email.lower() if email is not None and _EMAIL.fullmatch(email) else None,
        _flag(claims.get(oauth2["emailVerifiedClaim"])),
        username,
        claims,
        lambda_arguments,
        token,
    )


def is_storable(value: object, depth: int = 0) -> bool:
    """Whether what a provider sent can be kept and passed on: not too deep, texts real text, numbers in range."""
    if depth > _MAXIMUM_DEPTH:
        return False
    if isinstance(value, dict):
        return all("\0" not in name and is_storable(name) for name in value) and all(
            is_storable(member, depth + 1) for member in value.values()
        )
    if isinstance(value, list):
        return all(is_storable(item, depth + 1) for item in value)
    if isinstance(value, int | float):
        return -_OUT_OF_RANGE <= value < _OUT_OF_RANGE if isinstance(value, int) else math.isfinite(value)
    # A lone half of a surrogate pair is no character: nothing that we write to could take it.
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)


def map_claims(claim_map: Mapping[str, str], claims: Mapping[str, Any]) -> tuple[Document, Document]:
    """What a claim map makes of claims: members of the user, and members of the registration."""
    user: Document = {}
    registration: Document = {}
    for claim, target in claim_map.items():
        if claims.get(claim) is None:
            continue
        if target == "UserData":
            user.setdefault("data", {})[claim] = claims[claim]
        elif target == "RegistrationData":
            registration.setdefault("data", {})[claim] = claims[claim]
        else:
            user[target] = claims[claim]
    return user, registration


def _identifier(value: object) -> str | None:
    """A unique id, exactly as it stands: two that differ in a blank may be two people."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value == _text(value) else None


def _text(value: object) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if 0 < len(text) <= _MAXIMUM_ID and text.isprintable() else None


def _flag(value: object) -> bool | None:
    """A boolean, or the text of one, which some providers send."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
