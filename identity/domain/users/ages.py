"""How old people are, and from which age they may speak for themselves."""

from __future__ import annotations

import datetime
import re

from identity.call import Document
from identity.instants import Instant, as_datetime


def age(user: Document, now: Instant) -> int | None:
    """The years since the user was born; None for who does not say."""
    if "birthDate" not in user:
        return None
    born, today = datetime.date.fromisoformat(user["birthDate"]), as_datetime(now).date()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def is_at_least(user: Document, years: int, now: Instant) -> bool:
    """Whether a user is known to be so old; who does not say is not."""
    found = age(user, now)
    return years == 0 or (found is not None and found >= years)


def of_self_consent(consent: Document, user: Document) -> int:
    """From which age a user may consent in person: by the country of the preferred locale, or the default."""
    by_place = {_plain(place): years for place, years in consent["countryMinimumAgeForSelfConsent"].items()}
    for locale in user["preferredLanguages"]:
        parts = re.split(r"[_-]", locale)
        geoip = [locale, *(part for part in parts[1:] if len(part) == 2)]
        for place in geoip:
            if _plain(place) in by_place:
                return int(by_place[_plain(place)])
    return int(consent["defaultMinimumAgeForSelfConsent"])


def _plain(place: str) -> str:
    return place.replace("-", "_").lower()
