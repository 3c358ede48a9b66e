"""Date patterns of the API (`M/d/yyyy hh:mm:ss a z`): letters with their counts, and quoted text."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping

_LONGEST = 100

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'{}\[\]#]+", re.DOTALL)

Write = Callable[[datetime.datetime], str]


def compiled(pattern: str) -> Write:
    """Return a function that formats an instant. Raises ValueError for an unknown letter, count or quote."""
    if not pattern or len(pattern) > _LONGEST:
        raise ValueError("a pattern has 1 to 100 characters")
    writers: list[Write] = []
    at = 0
    while at < len(pattern):
        found = _PIECES.match(pattern, at)
        if found is None:
            raise ValueError(f"nothing is known by [{pattern[at]}]")
        writers.append(_writer(found))
        at = found.end()
    return lambda when: "".join(write(when) for write in writers)


def _writer(found: re.Match[str]) -> Write:
    text = found[0]
    if found[1] is not None:
        literal = found[1].replace("''", "'") or "'"
        return lambda _: literal
    if found[2] is None:
        return lambda _: text
    return _field(found[2], len(text))


def _field(letter: str, count: int) -> Write:
    if letter in _NUMBERS and count <= _NUMBERS[letter][1]:
        number = _NUMBERS[letter][0]
        return lambda when: str(number(when)).zfill(count)
    if letter in _TEXTS and count in _TEXTS[letter]:
        return _TEXTS[letter][count]
    raise ValueError(f"nothing is known by [{letter * count}]")


def _hour(when: datetime.datetime) -> int:
    return when.hour % 12 or 12


def _offset(when: datetime.datetime, colon: str, zero: str) -> str:
    text = when.strftime("%z")[:5]
    return zero if zero and text in {"+0000", "-0000"} else f"{text[:3]}{colon}{text[3:]}"


_NUMBERS: Mapping[str, tuple[Callable[[datetime.datetime], int], int]] = {
    "d": (lambda when: when.day, 2),
    "D": (lambda when: when.timetuple().tm_yday, 3),
    "H": (lambda when: when.hour, 2),
    "k": (lambda when: when.hour or 24, 2),
    "K": (lambda when: when.hour % 12, 2),
    "h": (_hour, 2),
    "m": (lambda when: when.minute, 2),
    "s": (lambda when: when.second, 2),
}

_YEAR: Mapping[int, Write] = {
    1: lambda when: str(when.year),
    2: lambda when: f"{when.year % 100:02}",
    4: lambda when: f"{when.year:04}",
}
_MONTH: Mapping[int, Write] = {
    1: lambda when: str(when.month),
    2: lambda when: f"{when.month:02}",
    3: lambda when: _MONTHS[when.month - 1][:3],
    4: lambda when: _MONTHS[when.month - 1],
}
_ZONE_NAME: Mapping[int, Write] = dict.fromkeys((1, 2, 3), lambda when: when.strftime("%Z"))

_TEXTS: Mapping[str, Mapping[int, Write]] = {
    "a": {1: lambda when: "AM" if when.hour < 12 else "PM"},
    "E": {
        **dict.fromkeys((1, 2, 3), lambda when: _DAYS[when.weekday()][:3]),
        4: lambda when: _DAYS[when.weekday()],
    },
    "L": _MONTH,
    "M": _MONTH,
    "S": {
        1: lambda when: f"{when.microsecond // 100_000}",
        2: lambda when: f"{when.microsecond // 10_000:02}",
        3: lambda when: f"{when.microsecond // 1_000:03}",
    },
    "u": _YEAR,
    "V": {2: lambda when: str(when.tzinfo)},
    "x": {2: lambda when: _offset(when, "", ""), 3: lambda when: _offset(when, ":", "")},
    "X": {2: lambda when: _offset(when, "", "Z"), 3: lambda when: _offset(when, ":", "Z")},
    "y": _YEAR,
    "z": _ZONE_NAME,
    "Z": dict.fromkeys((1, 2, 3), lambda when: _offset(when, "", "")),
}
