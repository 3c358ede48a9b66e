"""The built-ins of FreeMarker (`x?upper_case`) as Jinja filters.

Filters are pure functions of their arguments. template_language.py registers them with metering.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from identity.domain.objects import date_patterns
from identity.domain.objects.data_files import load_yaml

MAX_RANGE: Final = 10_000
MAX_PADDING: Final = 1_000
_NUMBER_PATTERN = re.compile(r"(?P<before>[^#0,.]*)(?P<whole>[#0,]+)(?:\.(?P<fraction>[0#]+))?(?P<after>[^#0,.]*)")
_DATE_STYLES: Final = {
    "date": {"short": "M/d/yy", "medium": "MMM d, yyyy", "long": "MMMM d, yyyy", "full": "EEEE, MMMM d, yyyy"},
    "time": {"short": "h:mm a", "medium": "h:mm:ss a", "long": "h:mm:ss a z", "full": "h:mm:ss a z"},
}
_ISO: Final = {"date": "yyyy-MM-dd", "time": "HH:mm:ss'Z'", "datetime": "yyyy-MM-dd'T'HH:mm:ss'Z'"}


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """A date, a time, or both, in UTC."""

    when: datetime.datetime
    kind: str

    def __str__(self) -> str:
        return format_moment(self, "medium")


def format_moment(moment: Moment, pattern: str) -> str:
    """Format a moment by a pattern of Java's DateTimeFormatter, or by the name of a style. Raises ValueError."""
    if pattern in {"iso", "xs", "iso_utc"}:
        pattern = _ISO[moment.kind]
    elif pattern in _DATE_STYLES["date"]:
        kinds = ("date", "time") if moment.kind == "datetime" else (moment.kind,)
        pattern = " ".join(_DATE_STYLES[kind][pattern] for kind in kinds)
    return date_patterns.compiled(pattern)(moment.when)


def _to_moment(kind: str) -> Callable[..., Moment]:
    def convert(value: Any, _pattern: str = "") -> Moment:
        if isinstance(value, Moment):
            return Moment(value.when, kind)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Moment(datetime.datetime.fromtimestamp(value / 1000, datetime.UTC), kind)
        when = datetime.datetime.fromisoformat(str(value))
        return Moment(when.replace(tzinfo=when.tzinfo or datetime.UTC).astimezone(datetime.UTC), kind)

    return convert


def _string(value: Any, *formats: str) -> str:
    if isinstance(value, bool):
        return ("true", "false")[not value] if len(formats) < 2 else formats[not value]
    if isinstance(value, Moment):
        return format_moment(value, formats[0] if formats else "medium")
    if isinstance(value, int | float):
        return format_number(value, formats[0] if formats else "")
    if value is None or isinstance(value, dict | list | tuple):
        raise ValueError("?string requires a text, number, boolean or date")
    return str(value)


def format_number(value: float, pattern: str) -> str:
    """Format a number by a pattern of Java's DecimalFormat (`#,##0.00`, `0.#%`), or as it is. Raises ValueError."""
    if pattern in {"", "c", "computer", "number"}:
        return str(_whole(value))
    pattern = {"percent": "#,##0%"}.get(pattern, pattern)
    match = _NUMBER_PATTERN.fullmatch(pattern)
    if match is None:
        raise ValueError(f"the number format [{pattern[:50]}] is not supported")
    fraction, whole = match["fraction"] or "", match["whole"]
    scaled = value * 100 if "%" in match["before"] + match["after"] else value
    digits = f"{abs(scaled):{',' if ',' in whole else ''}.{len(fraction)}f}"
    min_decimals = fraction.count("0")
    if fraction:
        integer, _, decimals = digits.partition(".")
        decimals = decimals[:min_decimals] + decimals[min_decimals:].rstrip("0")
        digits = f"{integer}.{decimals}" if decimals else integer
    sign = "-" if scaled < 0 and digits.strip("0,.") else ""
    return f"{sign}{match['before']}{digits.zfill(whole.count('0'))}{match['after']}".replace("'", "")


def _whole(value: Any) -> Any:
    """Return an integer for a number without a fraction, as FreeMarker writes it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    return _whole(float(str(value))) if not isinstance(value, int) else value


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ValueError("?boolean requires true or false")
    return text == "true"


def _range_to(first: int, last: int, is_open: bool) -> range:
    step = 1 if first <= last else -1
    numbers = range(first, last if is_open else last + step, step)
    if len(numbers) > MAX_RANGE:
        raise ValueError("the range is too long")
    return numbers


def _choose(value: Any, *cases: Any) -> Any:
    """`x?switch(case1, result1, …, default)`."""
    for case, result in zip(cases[::2], cases[1::2], strict=False):
        if value == case:
            return result
    return cases[-1] if len(cases) % 2 else ""


def _escape_javascript(value: Any) -> str:
    """Escape text for a string literal of JavaScript or JSON; the result is also safe in HTML."""
    text = json.dumps(str(value))[1:-1].replace("'", "\\u0027")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _pad(value: Any, length: int, filling: str = " ", *, is_left: bool) -> str:
    if length > MAX_PADDING or not filling:
        raise ValueError("the padding is too long")
    text = str(value)
    padding = (filling * length)[: max(0, length - len(text))]
    return padding + text if is_left else text + padding


def _sort_key(value: Any) -> Any:
    """Return the sort key of a value: FreeMarker compares text case-insensitively."""
    return value.lower() if isinstance(value, str) else value


def _sort_by(value: Sequence[Any], key: str) -> list[Any]:
    return sorted(value, key=lambda item: _sort_key(item[key]))


def _index_of(value: Any, item: Any) -> int:
    if isinstance(value, list | tuple):
        return value.index(item) if item in value else -1
    return str(value).find(str(item))


def _cut(value: Any, separator: str, *, before: bool, last: bool) -> str:
    text = str(value)
    index = text.rfind(separator) if last else text.find(separator)
    if index < 0:
        return text if before else ""
    return text[:index] if before else text[index + len(separator) :]


def _members(value: Any, *, keys: bool) -> list[Any]:
    if not isinstance(value, Mapping):
        raise ValueError("?keys and ?values require a map")
    return list(value.keys() if keys else value.values())


def _type_test(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _substring(value: Any, start: int, end: int | None = None) -> str:
    return str(value)[max(0, start) : None if end is None else max(0, end)]


def _split(value: Any, separator: str) -> list[str]:
    parts = str(value).split(separator, MAX_RANGE) if separator else list(str(value)[: MAX_RANGE + 1])
    if len(parts) > MAX_RANGE:
        raise ValueError("the text has too many parts")
    return parts


def _text_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *arguments: function(str(value), *map(str, arguments))


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "absolute": abs,
    "boolean": _boolean,
    "ceiling": math.ceil,
    "choose": _choose,
    "contains": _text_filter(lambda text, part: part in text),
    "ends_with": _text_filter(str.endswith),
    "ensure_ends_with": _text_filter(lambda text, end: text if text.endswith(end) else text + end),
    "ensure_starts_with": _text_filter(lambda text, start: text if text.startswith(start) else start + text),
    "floor": math.floor,
    "index_of": _index_of,
    "is_boolean": _type_test(bool),
    "is_hash": _type_test(dict),
    "is_number": _type_test(int, float),
    "is_sequence": _type_test(list, tuple),
    "is_text": _type_test(str),
    "keep_after": lambda value, separator: _cut(value, separator, before=False, last=False),
    "keep_after_last": lambda value, separator: _cut(value, separator, before=False, last=True),
    "keep_before": lambda value, separator: _cut(value, separator, before=True, last=False),
    "keep_before_last": lambda value, separator: _cut(value, separator, before=True, last=True),
    "keys": lambda value: _members(value, keys=True),
    "last_index_of": _text_filter(str.rfind),
    "left_pad": lambda value, *arguments: _pad(value, *arguments, is_left=True),
    "maximum": max,
    "minimum": min,
    "number": _number,
    "escape_javascript": _escape_javascript,
    "range_to": _range_to,
    "remove_beginning": _text_filter(str.removeprefix),
    "remove_ending": _text_filter(str.removesuffix),
    "reversed": lambda value: list(reversed(value)),
    "right_pad": lambda value, *arguments: _pad(value, *arguments, is_left=False),
    "rounded": lambda value: math.floor(value + 0.5),
    "sequence_contains": lambda value, item: item in value,
    "sort_by": _sort_by,
    "split": _split,
    "starts_with": _text_filter(str.startswith),
    "substring": _substring,
    "to_date": _to_moment("date"),
    "to_datetime": _to_moment("datetime"),
    "to_iso": lambda value, _zone="": format_moment(_to_moment(getattr(value, "kind", "datetime"))(value), "iso"),
    "to_text": _string,
    "to_time": _to_moment("time"),
    "uncap_first": _text_filter(lambda text: text[:1].lower() + text[1:]),
    "url_all": lambda value, _charset="": urllib.parse.quote(str(value), safe=""),
    "values": lambda value: _members(value, keys=False),
    "whole": _whole,
}
"""The filters that only FreeMarker templates use, by name."""


BUILTINS: Final[Mapping[str, Sequence[Any]]] = load_yaml(__file__, "freemarker_builtins.yaml")
"""The Jinja filter of each built-in, and its maximum number of arguments."""
