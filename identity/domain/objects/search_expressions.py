"""Boolean expressions of index searches: what query strings and Elasticsearch queries are parsed into.

`identity.store.search_filters` translates an expression to a filter of MongoDB. Texts in expressions are in lower case,
because texts match case-insensitively.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from identity.ids import parse_id
from identity.instants import Instant, as_datetime, from_datetime

Scalar = str | int | float | bool

MAXIMUM_CONDITIONS = 64
MAXIMUM_VALUES = 1024
"""The values of all conditions together; the values of one condition cost one look-up each in the same index."""
MAXIMUM_DEPTH = 20
MAXIMUM_PATTERN = 1000

_MAXIMUM_NUMBER = 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RELATIVE = re.compile(r"now(?:([+-])([0-9]{1,6})([smhHdwMy]))?")
_SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "H": 3600, "d": 86_400, "w": 7 * 86_400}
_MONTHS: Mapping[str, int] = {"M": 1, "y": 12}
_DAY_MILLISECONDS = 86_400_000
_UNSEARCHABLE = re.compile("[\\x00\\ud800-\\udfff]")
"""A NUL, which regular expressions cannot have, and lone surrogates, which are not characters."""
_DATA_MEMBER = re.compile(r"[^.$][^.]*(?:\.[^.$][^.]*){0,7}")


class QueryError(ValueError):
    """A query that is not supported; the message completes "The [search.queryString] …"."""

    def __init__(self, message: str) -> None:
        """Replace lone surrogates of the query, which no response can contain."""
        super().__init__(message.encode(errors="replace").decode())


class Kind(enum.Enum):
    """How the values of a field are compared."""

    TEXT = "text"
    LOWER_CASE = "text that is stored in lower case"
    ID = "id"
    FLAG = "true or false"
    INSTANT = "instant"
    DATE = "date"
    DATA = "any value of JSON"


class Wildcard(enum.Enum):
    """A wildcard of a pattern."""

    ANY = "*"
    SINGLE = "?"


Pattern = tuple[str | Wildcard, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a query; `member` is its stored name, within the items of the list `path` if it has one."""

    name: str
    kind: Kind
    member: str
    path: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Equals:
    """A field, or with None any of the fields of a bare term, has one of these values."""

    field: Field | None
    values: tuple[Scalar, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Matches:
    """A field, or with None any of the fields of a bare term, matches a pattern completely."""

    field: Field | None
    pattern: Pattern


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The value of a field lies between two values, of which one may be None."""

    field: Field
    lower: Scalar | None
    upper: Scalar | None
    includes_lower: bool = True
    includes_upper: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Exists:
    """A field has a value."""

    field: Field


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    """One item of the list `path` matches `part`.

    An `is_implied` one comes from a field name such as `registrations.roles`; a conjunction joins those of different
    fields, so that they concern the same item.
    """

    path: str
    part: Expression
    is_implied: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class All:
    """A conjunction; without parts it matches everything."""

    parts: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction; without parts it matches nothing."""

    parts: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Not:
    """A negation."""

    part: Expression


Condition = Equals | Matches | Range | Exists
Expression = Condition | Nested | All | AnyOf | Not

EVERYTHING = All(())
NOTHING = AnyOf(())


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one kind of document that can be searched and sorted by.

    `data` are the prefixes of custom data with the path and the member of each. `termed` are the texts that are also
    stored, in lower case, in the indexed list `private.terms`, where a bare term is looked up. `sort` are the members
    to sort by, by their names, and `optional` those of them that a document may lack.
    """

    searched: Mapping[str, Field]
    data: Mapping[str, Field]
    termed: frozenset[str]
    sort: Mapping[str, str]
    optional: frozenset[str] = frozenset()

    def get(self, name: str) -> Field:
        """Return the field with this name. Raises QueryError."""
        if name in self.searched:
            return self.searched[name]
        for prefix, data in self.data.items():
            rest = name.removeprefix(f"{prefix}.")
            if rest != name and _DATA_MEMBER.fullmatch(rest) and not _UNSEARCHABLE.search(rest):
                return Field(name, Kind.DATA, f"{data.member}.{rest}", data.path)
        raise QueryError(f"names the field [{name[:100]}], which cannot be searched")


def fields_of(kinds: Mapping[Kind, Sequence[str]], members: Mapping[str, str], path: str = "") -> dict[str, Field]:
    """Return fields by name; `members` are the stored names of those that differ."""
    prefix = f"{path}." if path else ""
    return {
        f"{prefix}{name}": Field(f"{prefix}{name}", kind, members.get(name, name), path)
        for kind, names in kinds.items()
        for name in names
    }


# Conditions


def equals(field: Field | None, given: Sequence[Scalar], now: Instant) -> Expression:
    """Return the condition that a field has one of these values. Raises QueryError."""
    days = [day for value in given if field and field.kind is Kind.INSTANT and (day := _day(value)) is not None]
    if field and days and len(days) == len(given):
        spans = [Range(field, day, day + _DAY_MILLISECONDS, includes_upper=False) for day in days]
        return disjunction([_within_path(span) for span in spans])
    return _within_path(Equals(field, tuple(dict.fromkeys(_value(field, value, now) for value in given))))


def matches(field: Field | None, pattern: Sequence[str | Wildcard]) -> Expression:
    """Return the condition that a field matches a pattern, or exists if that is only `*`. Raises QueryError."""
    if all(part is Wildcard.ANY for part in pattern):
        return EVERYTHING if field is None else exists(field)
    if field is not None and field.kind in {Kind.FLAG, Kind.INSTANT}:
        raise QueryError(f"compares [{field.name}] with a pattern, which its values do not have")
    if sum(len(part) if isinstance(part, str) else 1 for part in pattern) > MAXIMUM_PATTERN:
        raise QueryError(f"has a pattern of more than {MAXIMUM_PATTERN} characters")
    return _within_path(Matches(field, tuple(_text(part) if isinstance(part, str) else part for part in pattern)))


def between(
    field: Field,
    lower: Scalar | None,
    upper: Scalar | None,
    now: Instant,
    *,
    includes_lower: bool = True,
    includes_upper: bool = True,
) -> Expression:
    """Return the condition that a field lies between two values, of which None is open. Raises QueryError."""
    if lower is None and upper is None:
        return exists(field)
    if field.kind in {Kind.TEXT, Kind.ID, Kind.FLAG}:
        raise QueryError(f"compares [{field.name}] with a range, which its values have no order for")
    # A day as the upper limit includes its end, and as an excluded lower limit excludes it, as in Elasticsearch.
    if field.kind is Kind.INSTANT and includes_upper and upper is not None and (day := _day(upper)) is not None:
        upper = day + _DAY_MILLISECONDS - 1
    if field.kind is Kind.INSTANT and not includes_lower and lower is not None and (day := _day(lower)) is not None:
        lower = day + _DAY_MILLISECONDS - 1
    limits = [None if limit is None else _limit(field, limit, now) for limit in (lower, upper)]
    if len({isinstance(limit, str) for limit in limits if limit is not None}) > 1:
        raise QueryError(f"compares [{field.name}] with a number and a text")
    return _within_path(Range(field, limits[0], limits[1], includes_lower, includes_upper))


def exists(field: Field) -> Expression:
    """Return the condition that a field has a value."""
    return _within_path(Exists(field))


def _within_path(condition: Condition) -> Expression:
    field = condition.field
    return Nested(field.path, condition, is_implied=True) if field is not None and field.path else condition


# Combinations


def conjunction(parts: Sequence[Expression]) -> Expression:
    """Return the conjunction; implied conditions on different fields of one list concern the same item."""
    if len(parts) == 1:
        return parts[0]
    joined: list[Expression] = []
    for path, implied in _implied(parts).items():
        names = [name for nested in implied for name in {field.name for field in _fields(nested.part)}]
        if len(implied) > 1 and len(names) == len(set(names)):
            joined.append(Nested(path, All(tuple(nested.part for nested in implied))))
        else:
            joined += implied
    others = [part for part in parts if not (isinstance(part, Nested) and part.is_implied)]
    everything = (*others, *joined)
    return everything[0] if len(everything) == 1 else All(everything)


def disjunction(parts: Sequence[Expression]) -> Expression:
    """Return the disjunction, with the values of each field in one condition."""
    if len(parts) == 1:
        return parts[0]
    of_lists = [
        Nested(path, disjunction([nested.part for nested in implied]), is_implied=True)
        for path, implied in _implied(parts).items()
    ]
    values: dict[Field | None, list[Scalar]] = {}
    others: list[Expression] = []
    for part in parts:
        if isinstance(part, Equals):
            values.setdefault(part.field, []).extend(part.values)
        elif not (isinstance(part, Nested) and part.is_implied):
            others.append(part)
    found = [Equals(field, tuple(dict.fromkeys(given))) for field, given in values.items()]
    everything = (*found, *of_lists, *others)
    return everything[0] if len(everything) == 1 else AnyOf(everything)


def nested(fields: Fields, path: str, part: Expression) -> Nested:
    """Return the condition that one item of a list matches a part with fields of that list. Raises QueryError."""
    if path not in {field.path for field in fields.searched.values()} - {""}:
        raise QueryError(f"has the path [{path[:100]}] in [nested], which is no list of objects")
    if any(condition.field is None or condition.field.path != path for condition in conditions(part)):
        raise QueryError(f"names a field in [nested] that does not belong to [{path[:100]}]")
    return Nested(path, _without_paths(part))


def _without_paths(part: Expression) -> Expression:
    """Return a part of a nested condition, in which every condition concerns the same item anyhow."""
    match part:
        case Nested(part=inner):
            return _without_paths(inner)
        case Not(part=inner):
            return Not(_without_paths(inner))
        case All(parts=parts):
            return All(tuple(_without_paths(inner) for inner in parts))
        case AnyOf(parts=parts):
            return AnyOf(tuple(_without_paths(inner) for inner in parts))
        case _:
            return part


def _implied(parts: Sequence[Expression]) -> dict[str, list[Nested]]:
    found: dict[str, list[Nested]] = {}
    for part in parts:
        if isinstance(part, Nested) and part.is_implied:
            found.setdefault(part.path, []).append(part)
    return found


def conditions(expression: Expression) -> Iterator[Condition]:
    """Yield the conditions of an expression."""
    match expression:
        case Nested(part=part) | Not(part=part):
            yield from conditions(part)
        case All(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from conditions(part)
        case _:
            yield expression


def _fields(expression: Expression) -> Iterator[Field]:
    """Yield the fields of an expression."""
    yield from (condition.field for condition in conditions(expression) if condition.field is not None)


def require_bounded(expression: Expression) -> Expression:
    """Return an expression whose cost is bounded. Raises QueryError."""
    found = list(conditions(expression))
    if len(found) > MAXIMUM_CONDITIONS:
        raise QueryError(f"has more than {MAXIMUM_CONDITIONS} conditions")
    if sum(len(condition.values) for condition in found if isinstance(condition, Equals)) > MAXIMUM_VALUES:
        raise QueryError(f"has more than {MAXIMUM_VALUES} values")
    return expression


# Values


def _value(field: Field | None, given: Scalar, now: Instant) -> Scalar:
    """Return a value in the form in which it is compared. Raises QueryError."""
    match field.kind if field else Kind.TEXT:
        case Kind.ID:
            if (found := parse_id(given)) is None:
                raise QueryError(f"compares [{_name(field)}] with a value that is not a UUID")
            return found
        case Kind.FLAG:
            text = _text(given)
            if text not in {"true", "false"}:
                raise QueryError(f"compares [{_name(field)}] with a value that is neither true nor false")
            return text == "true"
        case Kind.INSTANT:
            return _instant(given, now, _name(field))
        case Kind.DATE:
            return _date(given, now, _name(field))
        case Kind.DATA:
            return given if isinstance(given, bool) else _number(given) if _is_number(given) else _text(given)
        case _:
            return _text(given)


def _limit(field: Field, given: Scalar, now: Instant) -> Scalar:
    if field.kind is Kind.DATA:
        if isinstance(given, str) and as_number(given) is None:
            return _checked(given)  # texts of custom data have no common case
        return _number(given)
    return _value(field, given, now)


def _name(field: Field | None) -> str:
    return "" if field is None else field.name


def _text(given: Scalar) -> str:
    return text_of(_checked(given) if isinstance(given, str) else given)


def text_of(value: Scalar) -> str:
    """Return a value as a text in lower case."""
    return str(value).lower()


def _checked(text: str) -> str:
    if _UNSEARCHABLE.search(text):
        raise QueryError("contains characters that no value can contain")
    return text


def as_number(value: Scalar) -> int | float | None:
    """Return the number that a value is or spells, if MongoDB can store it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            return None
        value = int(value) if _INTEGER.fullmatch(value) else float(value)
    return value if math.isfinite(value) and abs(value) <= _MAXIMUM_NUMBER else None


def _is_number(given: Scalar) -> bool:
    return isinstance(given, int | float)


def _number(given: Scalar) -> Scalar:
    number = as_number(given)
    if number is None:
        raise QueryError("contains a number that is too large")
    return number


def _day(given: Scalar) -> int | None:
    """Return the instant at which a date begins; None if the value is not a date."""
    if not isinstance(given, str) or not _DATE.fullmatch(given):
        return None
    return _parsed_instant(given)


def _instant(given: Scalar, now: Instant, name: str) -> int:
    found = _parsed_instant(given) if isinstance(given, str) else as_number(given)
    if found is None and isinstance(given, str):
        found = as_number(given) if _INTEGER.fullmatch(given) else _relative(given, now)
    if not isinstance(found, int):
        message = "neither milliseconds since 1970, nor a date of ISO 8601, nor relative to [now]"
        raise QueryError(f"compares [{name}] with a value that is {message}")
    return found


def _date(given: Scalar, now: Instant, name: str) -> str:
    text = str(given)
    if (relative := _relative(text, now)) is not None:
        with contextlib.suppress(ValueError, OverflowError):
            return as_datetime(Instant(relative)).date().isoformat()
    if _day(text) is None:
        raise QueryError(f"compares [{name}] with a value that is not a date such as 2000-12-31")
    return text


def _parsed_instant(text: str) -> int | None:
    if not text[:5].endswith("-"):  # also accepts forms without hyphens, which are numbers here
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
        return from_datetime(found if found.tzinfo else found.replace(tzinfo=datetime.UTC))
    except (ValueError, OverflowError):
        return None


def _relative(text: str, now: Instant) -> int | None:
    """Return the instant that a text such as `now-7d` names."""
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    if match[1] is None:
        return now
    amount = int(f"{match[1]}{match[2]}")
    if match[3] in _SECONDS:
        return now + amount * _SECONDS[match[3]] * 1000
    moment = as_datetime(now)
    months = moment.year * 12 + moment.month - 1 + amount * _MONTHS[match[3]]
    if not datetime.MINYEAR <= months // 12 <= datetime.MAXYEAR:
        return None
    first = moment.replace(year=months // 12, month=months % 12 + 1, day=1)
    last_day = ((first + datetime.timedelta(days=31)).replace(day=1) - datetime.timedelta(days=1)).day
    return from_datetime(first.replace(day=min(moment.day, last_day)))
