"""The built-ins of FreeMarker (`x?upper_case`) as Jinja filters.

Every filter is a pure function of its arguments; what it costs is charged where the filters are registered.
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

MAXIMUM_RANGE: Final = 10_000
MAXIMUM_PADDING: Final = 1_000
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
        return moment_text(self, "medium")


def moment_text(moment: Moment, pattern: str) -> str:
    """The moment by a pattern of Java's DateTimeFormatter, or by the name of a style. Raises ValueError."""
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
        return moment_text(value, formats[0] if formats else "medium")
    if isinstance(value, int | float):
        return number_text(value, formats[0] if formats else "")
    if value is None or isinstance(value, dict | list | tuple):
        raise ValueError("only texts, numbers, booleans and dates have a ?string")
    return str(value)


def number_text(value: float, pattern: str) -> str:
    """The number by a pattern of Java's DecimalFormat (`#,##0.00`, `0.#%`), or plainly. Raises ValueError."""
    if pattern in {"", "c", "computer", "number"}:
        return str(_whole(value))
    pattern = {"percent": "#,##0%"}.get(pattern, pattern)
    found = _NUMBER_PATTERN.fullmatch(pattern)
    if found is None:
        raise ValueError(f"the number format [{pattern[:50]}] is not known")
    fraction, whole = found["fraction"] or "", found["whole"]
    shown = value * 100 if "%" in found["before"] + found["after"] else value
    digits = f"{abs(shown):{',' if ',' in whole else ''}.{len(fraction)}f}"
    least = fraction.count("0")
    if fraction:
        integer, _, decimals = digits.partition(".")
        decimals = decimals[:least] + decimals[least:].rstrip("0")
        digits = f"{integer}.{decimals}" if decimals else integer
    sign = "-" if shown < 0 and digits.strip("0,.") else ""
    return f"{sign}{found['before']}{digits.zfill(whole.count('0'))}{found['after']}".replace("'", "")


def _whole(value: Any) -> Any:
    """The number without a fraction of zero, as FreeMarker writes it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    return _whole(float(str(value))) if not isinstance(value, int) else value


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ValueError("only true and false are booleans")
    return text == "true"


def _range(first: int, last: int, is_open: bool) -> range:
    step = 1 if first <= last else -1
    found = range(first, last if is_open else last + step, step)
    if len(found) > MAXIMUM_RANGE:
        raise ValueError("a range is too long")
    return found


def _choose(value: Any, *cases: Any) -> Any:
    """`x?switch(case1, result1, …, default)`."""
    for case, result in zip(cases[::2], cases[1::2], strict=False):
        if value == case:
            return result
    return cases[-1] if len(cases) % 2 else ""


def _quoted(value: Any) -> str:
    """The inside of a string literal of JavaScript or JSON, which may stand in HTML as well."""
    text = json.dumps(str(value))[1:-1].replace("'", "\\u0027")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _padded(value: Any, length: int, filling: str = " ", *, is_left: bool) -> str:
    if length > MAXIMUM_PADDING or not filling:
        raise ValueError("a padding is too long")
    text = str(value)
    padding = (filling * length)[: max(0, length - len(text))]
    return padding + text if is_left else text + padding


def _plain(value: Any) -> Any:
    """What a value is sorted by: FreeMarker compares texts without regard to case."""
    return value.lower() if isinstance(value, str) else value


def _sort_by(value: Sequence[Any], key: str) -> list[Any]:
    return sorted(value, key=lambda item: _plain(item[key]))


def _index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, list | tuple):
        return value.index(wanted) if wanted in value else -1
    return str(value).find(str(wanted))


def _keep(value: Any, separator: str, *, before: bool, last: bool) -> str:
    text = str(value)
    at = text.rfind(separator) if last else text.find(separator)
    if at < 0:
        return text if before else ""
    return text[:at] if before else text[at + len(separator) :]


def _members(value: Any, *, keys: bool) -> list[Any]:
    if not isinstance(value, Mapping):
        raise ValueError("only a map has keys and values")
    return list(value.keys() if keys else value.values())


def _is_a(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _substring(value: Any, start: int, end: int | None = None) -> str:
    return str(value)[max(0, start) : None if end is None else max(0, end)]


def _split(value: Any, separator: str) -> list[str]:
    found = str(value).split(separator, MAXIMUM_RANGE) if separator else list(str(value)[: MAXIMUM_RANGE + 1])
    if len(found) > MAXIMUM_RANGE:
        raise ValueError("a text has too many parts")
    return found


def _text(change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *arguments: change(str(value), *map(str, arguments))


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "absolute": abs,
    "boolean": _boolean,
    "ceiling": math.ceil,
    "choose": _choose,
    "contains": _text(lambda text, part: part in text),
    "ends_with": _text(str.endswith),
    "ensure_ends_with": _text(lambda text, end: text if text.endswith(end) else text + end),
    "ensure_starts_with": _text(lambda text, start: text if text.startswith(start) else start + text),
    "floor": math.floor,
    "index_of": _index_of,
    "is_boolean": _is_a(bool),
    "is_hash": _is_a(dict),
    "is_number": _is_a(int, float),
    "is_sequence": _is_a(list, tuple),
    "is_text": _is_a(str),
    "keep_after": lambda value, separator: _keep(value, separator, before=False, last=False),
    "keep_after_last": lambda value, separator: _keep(value, separator, before=False, last=True),
    "keep_before": lambda value, separator: _keep(value, separator, before=True, last=False),
    "keep_before_last": lambda value, separator: _keep(value, separator, before=True, last=True),
    "keys": lambda value: _members(value, keys=True),
    "last_index_of": _text(str.rfind),
    "left_pad": lambda value, *arguments: _padded(value, *arguments, is_left=True),
    "maximum": max,
    "minimum": min,
    "number": _number,
    "quoted": _quoted,
    "range_to": _range,
    "remove_beginning": _text(str.removeprefix),
    "remove_ending": _text(str.removesuffix),
    "reversed": lambda value: list(reversed(value)),
    "right_pad": lambda value, *arguments: _padded(value, *arguments, is_left=False),
    "rounded": lambda value: math.floor(value + 0.5),
    "sequence_contains": lambda value, wanted: wanted in value,
    "sort_by": _sort_by,
    "split": _split,
    "starts_with": _text(str.startswith),
    "substring": _substring,
    "to_date": _to_moment("date"),
    "to_datetime": _to_moment("datetime"),
    "to_iso": lambda value, _zone="": moment_text(_to_moment(getattr(value, "kind", "datetime"))(value), "iso"),
    "to_text": _string,
    "to_time": _to_moment("time"),
    "uncap_first": _text(lambda text: text[:1].lower() + text[1:]),
    "url_all": lambda value, _charset="": urllib.parse.quote(str(value), safe=""),
    "values": lambda value: _members(value, keys=False),
    "whole": _whole,
}
"""The filters that only FreeMarker templates need, by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Builtin:
    """The filter that a built-in is, and how many arguments it takes at most."""

    filter: str
    most_arguments: int = 0


FOR: Final[Mapping[str, Builtin]] = {
    **{name: Builtin(name) for name in (
        "boolean", "cap_first", "capitalize", "ceiling", "first", "floor", "has_content", "is_boolean", "is_hash",
        "is_number", "is_sequence", "keys", "last", "length", "number", "sort", "trim", "uncap_first", "values",
    )},
    **{name: Builtin(name, 1) for name in (
        "contains", "default", "ends_with", "ensure_ends_with", "ensure_starts_with", "index_of", "join", "keep_after",
        "keep_after_last", "keep_before", "keep_before_last", "last_index_of", "remove_beginning", "remove_ending",
        "sort_by", "split", "starts_with",
    )},
    **{name: Builtin(name, 2) for name in ("left_pad", "replace", "right_pad", "substring", "truncate")},
    "abs": Builtin("absolute"),
    "c": Builtin("to_text"),
    "cn": Builtin("to_text"),
    "date": Builtin("to_date", 1),
    "date_if_unknown": Builtin("to_date"),
    "datetime": Builtin("to_datetime", 1),
    "datetime_if_unknown": Builtin("to_datetime"),
    "esc": Builtin("escape"),
    "exists": Builtin("is_there"),
    "html": Builtin("escape"),
    "if_exists": Builtin("default"),
    "int": Builtin("floor"),
    "is_collection": Builtin("is_sequence"),
    "is_enumerable": Builtin("is_sequence"),
    "is_hash_ex": Builtin("is_hash"),
    "is_indexable": Builtin("is_sequence"),
    "is_string": Builtin("is_text"),
    "iso": Builtin("to_iso", 1),
    "iso_utc": Builtin("to_iso"),
    "js_string": Builtin("quoted"),
    "json_string": Builtin("quoted"),
    "long": Builtin("floor"),
    "lower_case": Builtin("lower"),
    "max": Builtin("maximum"),
    "min": Builtin("minimum"),
    "no_esc": Builtin("safe"),
    "number_to_date": Builtin("to_date"),
    "number_to_datetime": Builtin("to_datetime"),
    "number_to_time": Builtin("to_time"),
    "reverse": Builtin("reversed"),
    "round": Builtin("rounded"),
    "seq_contains": Builtin("sequence_contains", 1),
    "seq_index_of": Builtin("index_of", 1),
    "size": Builtin("length"),
    "string": Builtin("to_text", 2),
    "time": Builtin("to_time", 1),
    "time_if_unknown": Builtin("to_time"),
    "upper_case": Builtin("upper"),
    "url": Builtin("url_all", 1),
    "url_path": Builtin("urlencode"),
    "xhtml": Builtin("escape"),
    "xml": Builtin("escape"),
}  # fmt: skip
"""built-in -> filter."""
