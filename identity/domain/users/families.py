"""Families: who may be what in one.

owner   a member who speaks for the family, an adult; nobody owns two families
child   a member up to the tenant's maximumChildAge; a teen is between a child and an adult
"""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Document
from identity.domain.users import ages
from identity.errors import FieldError
from identity.instants import Instant

_MEMBER = "familyMember"


def member(wanted: Document, before: Document | None, now: Instant, *, is_owner: bool) -> Document:
    """A member as a request asks for it; data that is left out stays."""
    made = {
        "insertInstant": now if before is None else before["insertInstant"],
        "lastUpdateInstant": now,
        "owner": is_owner,
        "role": wanted["role"],
        "userId": wanted["userId"],
    }
    data = wanted.get("data") or (before or {}).get("data")
    return {**made, "data": data} if data else made


def with_member(members: Sequence[Document], one: Document) -> list[Document]:
    """The members, with this one in the place of the same user's, or at the end."""
    if any(other["userId"] == one["userId"] for other in members):
        return [one if other["userId"] == one["userId"] else other for other in members]
    return [*members, one]


def without_member(members: Sequence[Document], user_id: str) -> list[Document]:
    """The members without this user; where no owner is left, the first adult is one from now on."""
    rest = [dict(other) for other in members if other["userId"] != user_id]
    adults = [other for other in rest if other["role"] == "Adult"]
    if adults and not any(other["owner"] for other in rest):
        adults[0]["owner"] = True
    return rest


def problems(configuration: Document, one: Document, user: Document, now: Instant) -> list[FieldError]:
    """What keeps a user from being such a member."""
    years = ages.age(user, now)
    errors = []
    if one["owner"] and one["role"] != "Adult":
        errors.append(error("invalid", "role", "of an owner must be Adult"))
    if one["owner"] and not ages.is_at_least(user, configuration["minimumOwnerAge"], now):
        errors.append(error("tooYoung", "userId", f"must be {configuration['minimumOwnerAge']} years old to own one"))
    if one["role"] == "Child" and years is not None and years > configuration["maximumChildAge"]:
        errors.append(error("invalid", "role", f"may be Child up to the age of {configuration['maximumChildAge']}"))
    if one["role"] == "Teen" and years is not None and years <= configuration["maximumChildAge"]:
        errors.append(error("invalid", "role", f"may be Teen above the age of {configuration['maximumChildAge']}"))
    return errors


def is_child(configuration: Document, user: Document, now: Instant) -> bool:
    """Whether a user is known to be a child, in a tenant that has families."""
    years = ages.age(user, now) if configuration["enabled"] else None
    return years is not None and years <= configuration["maximumChildAge"]


def error(kind: str, name: str, what: str) -> FieldError:
    """An error of the member that a request asks for."""
    path = f"{_MEMBER}.{name}"
    return FieldError.of(kind, path, f"The [{path}] {what}.")
