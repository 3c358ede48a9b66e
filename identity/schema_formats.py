"""The formats of texts that the files of schemas/ name."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from typing import Final

from identity.ids import parse_id
from identity.prevalidation import Formats


def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or parse_id(value) is not None


def is_email(text: str) -> bool:
    """Return whether a text may be an email address."""
    return re.fullmatch(r"[^\s@\x00-\x1f\"<>]{1,64}@[^\s@\x00-\x1f\"<>]{1,190}", text) is not None


def _is_email(value: object) -> bool:
    return not isinstance(value, str) or is_email(value)


def _is_date(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return datetime.date.fromisoformat(value).isoformat() == value


def _is_locale(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*", value) is not None


def _is_timezone(value: object) -> bool:
    return not isinstance(value, str) or value in _timezones()


@functools.cache
def _timezones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


FORMATS: Final[Formats] = {
    "date": _is_date,
    "email": _is_email,
    "locale": _is_locale,
    "timezone": _is_timezone,
    "uuid": _is_uuid,
}
"""Functions that return False or raise ValueError for a text that does not have the format."""
