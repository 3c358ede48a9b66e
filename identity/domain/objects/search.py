"""Criteria search: parsing the request, and the wildcard grammar of text criteria."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal

from identity.domain.objects.resource_definition import SearchRules
from identity.errors import FieldError, Invalid
from identity.ids import parse_id

MAXIMUM_RESULTS = 10_000
MAXIMUM_PATTERN = 191

Kind = Literal["text", "exact", "flag", "tenants", "from", "until"]
_LIMITS = frozenset({"from", "until"})


@dataclasses.dataclass(frozen=True, slots=True)
class Criterion:
    """One condition. `value` is a regular expression for a text, an instant for a limit, and the plain value otherwise.

    `piece` is the longest piece of a text between wildcards.
    """

    field: str
    kind: Kind
    value: str | int
    piece: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search as the store runs it; `order` is (field, 1 or -1), with the id last so that pages are stable."""

    criteria: tuple[Criterion, ...]
    order: tuple[tuple[str, int], ...]
    start_row: int
    number_of_results: int


def read(rules: SearchRules, request: Mapping[str, Any], prefix: str) -> SearchQuery:
    """Parse a search request; `prefix` (`search.` or nothing) precedes field names in errors.

    Raises Invalid with every invalid criterion, orderBy field and paging value.
    """
    errors: list[FieldError] = []
    criteria = [c for c in (_criterion(rules, name, request, prefix, errors) for name in rules.criteria) if c]
    order = _order(rules, request.get("orderBy") or rules.default, f"{prefix}orderBy", errors)
    start_row = paging_value(request, "startRow", 0, prefix, errors, "value must be a whole number")
    results = paging_value(request, "numberOfResults", 25, prefix, errors, "value must be a whole number")
    if errors:
        raise Invalid(errors)
    return SearchQuery(tuple(criteria), order, start_row, min(results, MAXIMUM_RESULTS))


Parameter = Literal["text", "uuid", "boolean", "integer", "instant"]


def parameters(rules: SearchRules) -> dict[str, Parameter]:
    """Return the parameters of a search request with their types."""
    criteria = {name: _parameter(name, kind) for name, kind in rules.criteria.items()}
    return {**criteria, "numberOfResults": "integer", "orderBy": "text", "startRow": "integer"}


def _parameter(name: str, kind: Kind) -> Parameter:
    if kind in _LIMITS:
        return "instant"
    if kind == "flag":
        return "boolean"
    return "uuid" if is_id(name) else "text"


def is_id(criterion: str) -> bool:
    """Return whether a criterion is the id of an object."""
    return criterion.endswith(("Id", "id"))


def wildcard_pattern(text: str) -> str:
    """Return the regular expression of a text criterion: `*` is any run of characters, `**` a literal asterisk.

    A text without `*` matches anywhere; one with `*` is anchored at both ends. The text between two wildcards is
    matched at its first occurrence, atomically (`(?>...)`): for this grammar that is complete, and takes linear time.
    """
    pieces = [re.escape(piece) for piece in _pieces(text)]
    if len(pieces) == 1:
        return pieces[0]
    first, *inner, last = pieces
    return f"^{first}{''.join(f'(?>.*?{piece})' for piece in inner if piece)}.*{last}$"


def _pieces(text: str) -> list[str]:
    """Return the pieces between the wildcards of a text criterion."""
    pieces = [""]
    for part in re.split(r"(\*\*|\*)", text.strip().lower()):
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += "*" if part == "**" else part
    return pieces


def _criterion(
    rules: SearchRules, name: str, request: Mapping[str, Any], prefix: str, errors: list[FieldError]
) -> Criterion | None:
    value = request.get(name)
    if value is None or value == "":
        return None
    path = f"{prefix}{name}"
    kind = rules.criteria[name]
    member = rules.members.get(name, name)
    if kind in _LIMITS:
        return _limit(member, kind, value, path, errors)
    if kind == "flag":
        return _flag(member, value, path, errors)
    if not isinstance(value, str) or len(value) > MAXIMUM_PATTERN or "\x00" in value:
        errors.append(FieldError.invalid(path, "criterion must be a text of at most 191 characters"))
        return None
    if is_id(name) and parse_id(value) is None:
        errors.append(FieldError.invalid(path, "criterion must be a UUID", "couldNotConvert"))
        return None
    if kind == "text":
        return Criterion(member, kind, wildcard_pattern(value), max(_pieces(value), key=len))
    return Criterion(member, kind, parse_id(value) or value)


def _limit(member: str, kind: Kind, value: object, path: str, errors: list[FieldError]) -> Criterion | None:
    instant = None if isinstance(value, bool) else whole_number(value)
    if instant is None:
        errors.append(FieldError.invalid(path, "criterion must be an instant", "couldNotConvert"))
        return None
    return Criterion(member, kind, instant)


def _flag(member: str, value: object, path: str, errors: list[FieldError]) -> Criterion | None:
    flag = {"true": True, "false": False}.get(str(value).strip().lower())
    if flag is None:
        errors.append(FieldError.invalid(path, "criterion must be true or false", "couldNotConvert"))
        return None
    return Criterion(member, "flag", flag)


def order_of(rules: SearchRules, text: str) -> tuple[tuple[str, int], ...]:
    """Parse the order of one of the rules' own texts, such as their default."""
    return _order(rules, text, "orderBy", [])


def _order(rules: SearchRules, text: object, path: str, errors: list[FieldError]) -> tuple[tuple[str, int], ...]:
    """Return the fields to sort by; the first mention of a repeated field counts.

    Ties are sorted by id, in the direction of the last field, so that one index serves both.
    """
    order: dict[str, int] = {}
    for item in text.split(",") if isinstance(text, str) else [str(text)]:
        field, _, direction = " ".join(item.split()).partition(" ")
        if field not in rules.order_by or direction.upper() not in {"", "ASC", "DESC"}:
            errors.append(FieldError.invalid(path, f"value [{item.strip()[:100]}] cannot be sorted by"))
            return ()
        order.setdefault(rules.order_by[field], -1 if direction.upper() == "DESC" else 1)
    order.setdefault("_id", list(order.values())[-1])
    return tuple(order.items())


def paging_value(
    request: Mapping[str, Any], name: str, default: int, prefix: str, errors: list[FieldError], reason: str
) -> int:
    """Return a whole number of a request, or the default; add an error with the reason for anything else."""
    value = request.get(name)
    number = default if value is None else whole_number(value)
    if number is None or number < 0 or number > 2**31:
        errors.append(FieldError.invalid(f"{prefix}{name}", reason))
        return default
    return number


def whole_number(value: object) -> int | None:
    """Return an integer of JSON or of a query; `true` and `false`, as the official Python client sends, are 1 and 0."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, str):
        text = value.strip().lower()
        if text in {"true", "false"}:
            return int(text == "true")
        if re.fullmatch(r"-?[0-9]{1,18}", text):
            return int(text)
    return None
