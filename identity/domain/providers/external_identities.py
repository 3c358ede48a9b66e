"""The identity that an identity provider asserts, and which of its claims are stored on the user."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.instants import Instant

_MAX_ID_LENGTH: Final = 255
_MAX_DEPTH: Final = 32
_OUT_OF_RANGE: Final = 2**63
"""Integers from this one on cannot be stored, or passed to a lambda."""
_EMAIL = re.compile(r"[^\s@\x00-\x1f\"<>]{1,64}@[^\s@\x00-\x1f\"<>]{1,190}")

PROFILE_MEMBERS: Final = (
    *("birthDate", "data", "firstName", "fullName", "imageUrl", "lastName", "middleName", "mobilePhone"),
    *("preferredLanguages", "timezone"),
)
"""The members of a user that a claim map or a lambda may set; login ids are not among them."""

REGISTRATION_MEMBERS: Final = ("data", "preferredLanguages", "roles", "timezone", "username")
"""The members of a registration that a reconcile lambda may set."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """The user as a provider describes them.

    `lambda_arguments` follow user and registration in a reconcile lambda; `token` is stored with the link.
    `auth_instant` is when the user authenticated at the provider, if a signed claim states it; `id_token` is verified.
    """

    unique_id: str
    email: str | None
    is_email_verified: bool | None
    username: str | None
    claims: Document = dataclasses.field(repr=False)
    lambda_arguments: tuple[Document, ...] = dataclasses.field(default=(), repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)
    auth_instant: Instant | None = None
    id_token: str | None = dataclasses.field(default=None, repr=False)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The email addresses that identify the user: the address, and a username in the form of one."""
        names = (self.email, self.username)
        return tuple(name.lower() for name in names if name is not None and _EMAIL.fullmatch(name))

    @property
    def display_name(self) -> str | None:
        """The name of the account: its email address or its username."""
        return self.email or self.username

    def pending_link(self, provider_id: str) -> Document:
        """Return a link to an account at a provider that has no user yet."""
        link = {
            "displayName": self.display_name,
            "email": self.email,
            "identityProviderId": provider_id,
            "identityProviderUserId": self.unique_id,
            "token": self.token,
            "username": self.username,
        }
        return {name: value for name, value in link.items() if value is not None}


def parse(
    oauth2: Mapping[str, Any], claims: Document, *, lambda_arguments: tuple[Document, ...], token: str | None = None
) -> ExternalIdentity | None:
    """Return the identity in claims, whose names are settings of the provider; None without a unique id."""
    unique_id = _identifier(claims.get(oauth2["uniqueIdClaim"]))
    if unique_id is None:
        return None
    email, username = _text(claims.get(oauth2["emailClaim"])), _text(claims.get(oauth2["usernameClaim"]))
    return ExternalIdentity(
        unique_id,
        email.lower() if email is not None and _EMAIL.fullmatch(email) else None,
        _verification(
            claims.get(oauth2["emailVerifiedClaim"]), accepts_string=oauth2.get("acceptsStringBooleans", False)
        ),
        username,
        claims,
        lambda_arguments,
        token,
    )


def merge_claims(oauth2: Mapping[str, Any], id_token: Document, userinfo: Document) -> Document:
    """Return the claims of both sources; userinfo takes precedence.

    An email address and its verification are of the same source: one source may verify another address than the one
    that the other source states. The source with both takes precedence over one with an address alone.
    """
    names = (oauth2["emailClaim"], oauth2["emailVerifiedClaim"])
    stated = [source for source in (userinfo, id_token) if source.get(names[0]) is not None]
    source = next((each for each in stated if each.get(names[1]) is not None), stated[0] if stated else {})
    claims = {name: value for name, value in {**id_token, **userinfo}.items() if name not in names}
    return {**claims, **{name: source[name] for name in names if name in source}}


def is_storable(value: object, depth: int = 0) -> bool:
    """Return whether a value of a provider can be stored and passed to lambdas: depth, characters, ranges."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all("\0" not in name and is_storable(name) for name in value) and all(
            is_storable(member, depth + 1) for member in value.values()
        )
    if isinstance(value, list):
        return all(is_storable(item, depth + 1) for item in value)
    if isinstance(value, int | float):
        return -_OUT_OF_RANGE <= value < _OUT_OF_RANGE if isinstance(value, int) else math.isfinite(value)
    # A lone surrogate is not a character, and cannot be stored.
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)


def map_claims(claim_map: Mapping[str, str], claims: Mapping[str, Any]) -> tuple[Document, Document]:
    """Apply a claim map; return members of the user and members of the registration."""
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
    """Return a unique id unchanged: ids that differ in white space may belong to different users."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value == _text(value) else None


def _text(value: object) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if 0 < len(text) <= _MAX_ID_LENGTH and text.isprintable() else None


def _verification(value: object, *, accepts_string: bool) -> bool | None:
    """Return whether the provider states that the address is verified; None if it states nothing.

    Only the boolean true verifies an address, and the string "true" from a provider that documents this form. Elsewhere
    the string is no statement, so that `trustEmail` decides; any other value is a denial.
    """
    if value is None or isinstance(value, bool):
        return value
    if value == "true":
        return True if accepts_string else None
    return False
