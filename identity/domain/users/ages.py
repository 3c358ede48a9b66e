"""Ages of users, and the minimum age for consent in person."""

from __future__ import annotations

import datetime
import re

from identity.call import Document
from identity.instants import Instant, as_datetime


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
