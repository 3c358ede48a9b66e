"""MongoDB conditions and expressions of single comparisons in SCIM filters."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any, Final

from scim2_models.path import CompareOperator

from identity.domain.objects import name_suffixes
from identity.domain.scim.errors import invalid
from identity.domain.users import users as user_rules
from identity.instants import from_datetime

Condition = dict[str, Any]

_PATTERNS: Final = {
    CompareOperator.co: "{}",
    CompareOperator.eq: "^{}$",
    CompareOperator.ew: "{}$",
    CompareOperator.sw: "^{}",
}
_ORDERING: Final = {
    CompareOperator.ge: "$gte",
    CompareOperator.gt: "$gt",
    CompareOperator.le: "$lte",
    CompareOperator.lt: "$lt",
}


def operator(op: CompareOperator) -> str:
    """Return the operator of MongoDB for an order, or for equality."""
    return _ORDERING.get(op, "$eq")


def require_storable(value: Any) -> None:
    """Raise ScimError for a text that MongoDB cannot compare: with a NUL or half of a surrogate pair."""
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= one <= "\udfff" for one in value)):
        raise invalid("invalidFilter", "A value of the filter is no valid text.")


def text(op: CompareOperator, value: Any, *, options: str = "is") -> Any:
    """Return the condition on a text; `options` of MongoDB say whether it ignores case."""
    if value is None:
        return {"$eq": None}
    wanted = str(value)
    if op in _ORDERING:
        return {_ORDERING[op]: wanted}
    if op == CompareOperator.eq and "i" not in options:
        return wanted
    return {"$regex": _PATTERNS[op].format(re.escape(wanted)), "$options": options}


def plain(kind: str, op: CompareOperator, value: Any) -> Any:
    """Return the condition on a member by the kind of its value. Raises ScimError."""
    match kind:
        case "instant":
            return compared(op, from_datetime(_aware(value)))
        case "boolean":
            return compared(op, value)
        case "exact":
            return text(op, value, options="s")
    return text(op, value)


def compared(op: CompareOperator, value: Any) -> Any:
    """Return the condition on a number or boolean. Raises ScimError for operators on texts."""
    if op in _ORDERING:
        return {_ORDERING[op]: value}
    if op != CompareOperator.eq:
        raise invalid("invalidFilter", f"The operator {op.value} cannot be used with this attribute.")
    return value


def terms(op: CompareOperator, value: Any) -> Iterable[Condition]:
    """Yield conditions on the search terms of users, which have an index."""
    if isinstance(value, str) and op in _PATTERNS:
        yield {"private.terms": text(op, value.lower(), options="s")}


def name_suffix(op: CompareOperator, value: Any) -> Iterable[Condition]:
    """Yield conditions on the suffixes of the names of groups, which have an index."""
    if isinstance(value, str) and value and op in _PATTERNS:
        yield {name_suffixes.MEMBER: {"$regex": name_suffixes.pattern_of(value)}}


def text_expression(op: CompareOperator, stored: Any, value: str) -> Condition:
    """Return an expression that compares a text and ignores its case."""
    lowered = {"$toLower": {"$cond": [{"$eq": [{"$type": stored}, "string"]}, stored, ""]}}
    if op in _PATTERNS:
        pattern = _PATTERNS[op].format(re.escape(value.lower()))
        return {"$regexMatch": {"input": lowered, "regex": {"$literal": pattern}, "options": "s"}}
    return {_ORDERING[op]: [lowered, {"$literal": value.lower()}]}


def member_of(name: str, holder: Any) -> Condition:
    """Return the expression of a member with any name."""
    return {"$getField": {"field": {"$literal": name}, "input": holder}}


def login_key(value: Any) -> Any:
    """Return a text in the form in which login ids are compared."""
    return user_rules.login_key(value) if isinstance(value, str) else value


def _aware(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise invalid("invalidFilter", "A date must be an xsd:dateTime.")
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
