"""Rules of families and their members, and of the ages of users.

owner   an adult member who represents the family; a user owns at most one family
child   a member up to the tenant's maximumChildAge; a teen is between a child and an adult
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from identity.call import Document
from identity.errors import FieldError
from identity.instants import Instant, as_datetime

_MEMBER = "familyMember"


def build_member(requested: Document, before: Document | None, now: Instant, *, is_owner: bool) -> Document:
    """Build the member that a request describes; omitted data stays unchanged."""
    member = {
        "insertInstant": now if before is None else before["insertInstant"],
        "lastUpdateInstant": now,
        "owner": is_owner,
        "role": requested["role"],
        "userId": requested["userId"],
    }
    data = requested.get("data") or (before or {}).get("data")
    return {**member, "data": data} if data else member


def with_member(members: Sequence[Document], member: Document) -> list[Document]:
    """Return the members with this one replacing that of the same user, or appended."""
    if any(other["userId"] == member["userId"] for other in members):
        return [member if other["userId"] == member["userId"] else other for other in members]
    return [*members, member]


def without_member(members: Sequence[Document], user_id: str) -> list[Document]:
    """Return the members without this user; if no owner remains, the first adult becomes the owner."""
    rest = [dict(other) for other in members if other["userId"] != user_id]
    adults = [other for other in rest if other["role"] == "Adult"]
    if adults and not any(other["owner"] for other in rest):
        adults[0]["owner"] = True
    return rest


def problems(configuration: Document, member: Document, user: Document, now: Instant) -> list[FieldError]:
    """Return the errors of a user as such a member."""
    years = age(user, now)
    errors = []
    if member["owner"] and member["role"] != "Adult":
        errors.append(error("invalid", "role", "of an owner must be Adult"))
    if member["owner"] and not is_at_least(user, configuration["minimumOwnerAge"], now):
        errors.append(error("tooYoung", "userId", f"must be {configuration['minimumOwnerAge']} years old to own one"))
    if member["role"] == "Child" and years is not None and years > configuration["maximumChildAge"]:
        errors.append(error("invalid", "role", f"may be Child up to the age of {configuration['maximumChildAge']}"))
    if member["role"] == "Teen" and years is not None and years <= configuration["maximumChildAge"]:
        errors.append(error("invalid", "role", f"may be Teen above the age of {configuration['maximumChildAge']}"))
    return errors


def is_child(configuration: Document, user: Document, now: Instant) -> bool:
    """Whether a user is known to be a child, in a tenant with families enabled."""
    years = age(user, now) if configuration["enabled"] else None
    return years is not None and years <= configuration["maximumChildAge"]


def error(kind: str, name: str, what: str) -> FieldError:
    """Return an error of a requested member."""
    path = f"{_MEMBER}.{name}"
    return FieldError.of(kind, path, f"The [{path}] {what}.")


def age(user: Document, now: Instant) -> int | None:
    """Return the user's age in years, or None without a birth date."""
    if "birthDate" not in user:
        return None
    born, today = datetime.date.fromisoformat(user["birthDate"]), as_datetime(now).date()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def is_at_least(user: Document, years: int, now: Instant) -> bool:
    """Whether a user is known to be at least this old; False without a birth date, unless `years` is 0."""
    found = age(user, now)
    return years == 0 or (found is not None and found >= years)


def minimum_for_self_consent(consent: Document, user: Document) -> int:
    """Return the age from which a user may consent in person: by country of the preferred locale, or the default."""
    by_country = {_normalize(country): years for country, years in consent["countryMinimumAgeForSelfConsent"].items()}
    for locale in user["preferredLanguages"]:
        parts = re.split(r"[_-]", locale)
        for country in (locale, *(part for part in parts[1:] if len(part) == 2)):
            if _normalize(country) in by_country:
                return int(by_country[_normalize(country)])
    return int(consent["defaultMinimumAgeForSelfConsent"])


def _normalize(country: str) -> str:
    return country.replace("-", "_").lower()
