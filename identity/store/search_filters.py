"""Filters of MongoDB for the expressions of index searches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

from bson.regex import Regex

from identity.domain.objects import data_terms
from identity.domain.objects.search_expressions import (
    All,
    AnyOf,
    Condition,
    Equals,
    Exists,
    Expression,
    Field,
    Fields,
    Kind,
    Matches,
    Nested,
    Not,
    Pattern,
    Range,
    Scalar,
    Wildcard,
    as_number,
    conditions,
    text_of,
)

TERMS: Final = "private.terms"
"""The list of the lower-case texts that a bare term matches; it has an index."""

_FOLDED: Final = frozenset({Kind.LOWER_CASE, Kind.ID, Kind.DATE})
"""The kinds of texts that are stored in the form in which they are compared."""


def filter_of(fields: Fields, expression: Expression) -> dict[str, Any]:
    """Return the filter of the documents that match an expression."""
    match expression:
        case All(parts=parts):
            return {"$and": [filter_of(fields, part) for part in parts]} if parts else {}
        case AnyOf(parts=parts):
            return {"$or": [filter_of(fields, part) for part in parts]} if parts else {"$nor": [{}]}
        case Not(part=part):
            return {"$nor": [filter_of(fields, part)]}
        case Nested(path=path, part=part):
            return {path: {"$elemMatch": filter_of(fields, part)}}
        case _:
            return _condition(fields, expression)


def _condition(fields: Fields, condition: Condition) -> dict[str, Any]:
    match condition:
        case Equals(field=field, values=values):
            return _equals(fields, field, values)
        case Matches(field=field, pattern=pattern):
            return _matches(fields, field, pattern)
        case Range():
            return _range(condition)
        case Exists(field=field):
            return {field.member: {"$exists": True, "$nin": [None, []]}}


def is_indexed(fields: Fields, expression: Expression, indexed: frozenset[str]) -> bool:
    """Return whether an index limits the documents that a search examines to about those that it finds.

    `indexed` are the members with an index, apart from the terms. Custom data may have too many values for an index.
    """
    match expression:
        case All(parts=parts):
            return not parts or any(is_indexed(fields, part, indexed) for part in parts)
        case AnyOf(parts=parts):
            return all(is_indexed(fields, part, indexed) for part in parts)
        case Not():
            return False
        case Nested(part=part):
            return is_indexed(fields, part, indexed)
        case Exists():
            return False
        case Matches(field=field, pattern=pattern) if isinstance(pattern[0], Wildcard):
            return False
        case Equals(field=field) | Matches(field=field) | Range(field=field):
            return field is None or field.name in fields.termed or f"{field.path}.{field.member}".strip(".") in indexed


def is_single_term(fields: Fields, expression: Expression) -> bool:
    """Return whether an expression is one value of the terms."""
    is_one = isinstance(expression, Equals) and len(expression.values) == 1
    return is_one and all(
        condition.field is None or condition.field.name in fields.termed for condition in conditions(expression)
    )


def _equals(fields: Fields, field: Field | None, values: Sequence[Scalar]) -> dict[str, Any]:
    if field is None:
        return {TERMS: _any_of(values)}
    if field.kind is Kind.DATA:
        terms = [term for value in values for term in data_terms.of_value(_data_path(field), value)]
        found = {field.member: _any_of([*itertools.chain.from_iterable(map(_data_values, values))])}
        return found if field.path else {**_data_terms(terms), **found}
    if field.kind is not Kind.TEXT:
        found = {field.member: _any_of(values)}
    else:
        found = {field.member: _any_of([_exactly(text_of(value)) for value in values])}
    return {TERMS: _any_of(values), **found} if field.name in fields.termed else found


def _any_of(values: Sequence[Any]) -> Any:
    """Return the condition for one of the values; a single one is the condition itself."""
    return values[0] if len(values) == 1 else {"$in": list(values)}


def _data_values(value: Scalar) -> list[Any]:
    """Return the stored values that a value of a query equals: a text may spell a number, true or false."""
    text = text_of(value)
    found: list[Any] = [_exactly(text)]
    if text in {"true", "false"}:
        found.append(text == "true")
    if (number := as_number(value)) is not None:
        found.append(number)
    return found


def _exactly(text: str) -> Regex[str]:
    return Regex(f"^{re.escape(text)}$", "is")


def _matches(fields: Fields, field: Field | None, pattern: Pattern) -> dict[str, Any]:
    if field is None:
        return {TERMS: Regex(_regex(pattern), "s")}
    found = {field.member: Regex(_regex(pattern), "s" if field.kind in _FOLDED else "is")}
    if field.kind is Kind.DATA and not field.path and isinstance(pattern[0], str):
        return {**_data_terms([Regex(f"^{re.escape(data_terms.start(_data_path(field), pattern[0]))}", "s")]), **found}
    # Only the terms have an index.
    return {TERMS: Regex(_regex(pattern), "s"), **found} if field.name in fields.termed else found


def _data_terms(terms: Sequence[Any]) -> dict[str, Any]:
    """Return the condition for the objects with one of the terms, and for those without complete ones."""
    return {data_terms.MEMBER: {"$in": [*terms, data_terms.UNLISTED, None]}}


def _data_path(field: Field) -> str:
    return field.member.removeprefix("data.")


def _regex(pattern: Pattern) -> str:
    """Return a regular expression that matches in linear time.

    After each `*`, the first occurrence of what follows is as good as any other; only the end is fixed.
    """
    pieces = [""]
    for part in pattern:
        if part is Wildcard.ANY:
            pieces.append("")
        else:
            pieces[-1] += "." if part is Wildcard.SINGLE else re.escape(part)
    first, *others = pieces
    if not others:
        return f"^{first}$"
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    # Without a middle and an end, only the prefix remains, which an index serves best.
    end = f".*{others[-1]}$" if others[-1] else ""
    return f"^{first}{middle}{end}"


def _range(condition: Range) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if condition.lower is not None:
        limits["$gte" if condition.includes_lower else "$gt"] = condition.lower
    if condition.upper is not None:
        limits["$lte" if condition.includes_upper else "$lt"] = condition.upper
    member = condition.field.member
    if condition.field.kind is not Kind.DATA or len(limits) == 1:
        return {member: limits}
    # Of a list, one item must be within both limits.
    return {"$or": [{member: {"$elemMatch": limits}}, {member: {**limits, "$not": {"$type": "array"}}}]}
