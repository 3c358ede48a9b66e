"""The queries of index searches as JSON: a subset of Elasticsearch's Query DSL.

Supported are `bool`, `constant_score`, `exists`, `ids`, `match`, `match_all`, `match_none`, `match_phrase`, `nested`,
`prefix`, `query_string`, `range`, `term`, `terms` and `wildcard`. Searches have no scores: `boost` and `_name` are
ignored. Any other query or option is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Never

from identity.call import Document
from identity.domain.objects import query_strings
from identity.domain.objects import search_expressions as expressions
from identity.domain.objects.search_expressions import Expression, Fields, Not, QueryError, Scalar, Wildcard
from identity.instants import Instant

MAXIMUM_LENGTH = 65_536

_IGNORED: Final = frozenset({"_name", "boost"})
_INSENSITIVE: Final = frozenset({"case_insensitive", "rewrite"})
_FORMATS: Final = frozenset({"date_optional_time", "epoch_millis", "strict_date_optional_time", "yyyy-MM-dd"})


def parse(fields: Fields, text: str, now: Instant) -> Expression:
    """Return the expression of a query. Raises QueryError."""
    if len(text) > MAXIMUM_LENGTH:
        raise QueryError(f"must be a text of at most {MAXIMUM_LENGTH} characters")
    try:
        query = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise QueryError("must be a query of Elasticsearch as JSON") from None
    return _Reader(fields, now).query(query, 0)


def _refuse_constant(name: str) -> Never:
    raise ValueError(name)


class _Reader:
    """Reads the queries of one document."""

    def __init__(self, fields: Fields, now: Instant) -> None:
        self._fields = fields
        self._now = now
        self._readers: Mapping[str, Callable[[Any, int], Expression]] = {
            "bool": self._bool,
            "constant_score": self._constant_score,
            "exists": self._exists,
            "ids": self._ids,
            "match": self._match,
            "match_all": self._match_all,
            "match_none": lambda body, depth: Not(self._match_all(body, depth)),
            "match_phrase": self._match,
            "nested": self._nested,
            "prefix": self._prefix,
            "query_string": self._query_string,
            "range": self._range,
            "term": self._term,
            "terms": self._terms,
            "wildcard": self._wildcard,
        }

    def query(self, query: Any, depth: int) -> Expression:
        """Return the expression of a query object."""
        if depth > expressions.MAXIMUM_DEPTH:
            raise QueryError(f"is nested more than {expressions.MAXIMUM_DEPTH} levels deep")
        if not isinstance(query, dict) or len(query) != 1:
            raise QueryError("must contain exactly one query, such as [bool] or [match], in each object")
        ((name, body),) = query.items()
        if name not in self._readers:
            raise QueryError(f"contains the query [{name[:100]}], which is not supported")
        return self._readers[name](body, depth + 1)

    def _queries(self, body: Any, depth: int) -> list[Expression]:
        """Return the expressions of one query or a list, which may contain lists."""
        if isinstance(body, list):
            if depth > expressions.MAXIMUM_DEPTH:
                raise QueryError(f"is nested more than {expressions.MAXIMUM_DEPTH} levels deep")
            return [expression for item in body for expression in self._queries(item, depth + 1)]
        return [self.query(body, depth)]

    def _bool(self, body: Any, depth: int) -> Expression:
        options = _options("bool", body, {"must", "filter", "should", "must_not", "minimum_should_match"})
        required = [*self._queries(options.get("must", []), depth), *self._queries(options.get("filter", []), depth)]
        should = self._queries(options.get("should", []), depth)
        excluded = [Not(part) for part in self._queries(options.get("must_not", []), depth)]
        minimum = options.get("minimum_should_match", 1 if should and not required else 0)
        if str(minimum) not in {"0", "1", str(len(should))}:
            raise QueryError("has a [minimum_should_match] that is not supported; it may be 0, 1, or all")
        if str(minimum) == str(len(should)):
            required += should
        elif str(minimum) == "1":
            required.append(expressions.disjunction(should))
        return expressions.conjunction([*required, *excluded])

    def _constant_score(self, body: Any, depth: int) -> Expression:
        return self.query(_options("constant_score", body, {"filter"}, required="filter")["filter"], depth)

    def _match_all(self, body: Any, _depth: int) -> Expression:
        _options("match_all", body, set())
        return expressions.EVERYTHING

    def _exists(self, body: Any, _depth: int) -> Expression:
        name = _options("exists", body, {"field"}, required="field")["field"]
        return expressions.exists(self._fields.get(_string(name, "exists")))

    def _ids(self, body: Any, _depth: int) -> Expression:
        values = _options("ids", body, {"values"}, required="values")["values"]
        return expressions.equals(self._fields.get("id"), _scalars(values, "ids"), self._now)

    def _nested(self, body: Any, depth: int) -> Expression:
        names = {"path", "query", "score_mode", "ignore_unmapped"}
        options = _options("nested", body, names, required="query")
        return expressions.nested(
            self._fields, _string(options.get("path"), "nested"), self.query(options["query"], depth)
        )

    def _query_string(self, body: Any, depth: int) -> Expression:
        names = {"query", "default_field", "default_operator", "analyze_wildcard", "allow_leading_wildcard", "lenient"}
        options = _options("query_string", body, names, required="query")
        default, operator = options.get("default_field", "*"), str(options.get("default_operator", "or")).lower()
        if operator not in {"and", "or"}:
            raise QueryError("has a [default_operator] that is neither AND nor OR")
        return query_strings.parse(
            self._fields,
            _string(options["query"], "query_string"),
            self._now,
            default_field=None if default == "*" else self._fields.get(_string(default, "query_string")),
            joins_with_and=operator == "and",
            depth=depth,
        )

    def _term(self, body: Any, _depth: int) -> Expression:
        name, options = _of_field("term", body, "value", _INSENSITIVE)
        return expressions.equals(self._fields.get(name), [_scalar(options["value"], "term")], self._now)

    def _match(self, body: Any, _depth: int) -> Expression:
        name, options = _of_field("match", body, "query", {"operator", "slop"})
        if options.get("slop"):
            raise QueryError("has a [slop], which is not supported")
        return expressions.equals(self._fields.get(name), [_scalar(options["query"], "match")], self._now)

    def _terms(self, body: Any, _depth: int) -> Expression:
        found = {key: value for key, value in body.items() if key not in _IGNORED} if isinstance(body, dict) else {}
        if len(found) != 1:
            raise QueryError("must name one field in [terms]")
        ((name, values),) = found.items()
        return expressions.equals(self._fields.get(name), _scalars(values, "terms"), self._now)

    def _prefix(self, body: Any, _depth: int) -> Expression:
        name, options = _of_field("prefix", body, "value", _INSENSITIVE)
        start = str(_scalar(options["value"], "prefix"))
        return expressions.matches(self._fields.get(name), [*([start] if start else []), Wildcard.ANY])

    def _wildcard(self, body: Any, _depth: int) -> Expression:
        name, options = _of_field("wildcard", body, "value", {*_INSENSITIVE, "wildcard"}, other="wildcard")
        pattern = query_strings.pattern_of(_string(options["value"], "wildcard"))
        field = self._fields.get(name)
        if len(pattern) == 1 and isinstance(pattern[0], str):
            return expressions.equals(field, [pattern[0]], self._now)
        return expressions.matches(field, pattern)

    def _range(self, body: Any, _depth: int) -> Expression:
        name, options = _of_field("range", body, "", {"gt", "gte", "lt", "lte", "format"})
        if not set(str(options.get("format", "epoch_millis")).split("||")) <= _FORMATS:
            raise QueryError("has a [format] that is not supported")
        if {"gt", "gte"} <= options.keys() or {"lt", "lte"} <= options.keys():
            raise QueryError("has two limits of the same kind in [range]")
        limits = {key: _scalar(options[key], "range") for key in ("gt", "gte", "lt", "lte") if options.get(key)
                  is not None}  # fmt: skip
        return expressions.between(
            self._fields.get(name),
            limits.get("gte", limits.get("gt")),
            limits.get("lte", limits.get("lt")),
            self._now,
            includes_lower="gt" not in limits,
            includes_upper="lt" not in limits,
        )


def _options(query: str, body: Any, allowed: set[str], required: str = "") -> Document:
    """Return the options of a query. Raises QueryError."""
    if not isinstance(body, dict):
        raise QueryError(f"has a [{query}] that is not an object")
    if unknown := sorted(body.keys() - allowed - _IGNORED):
        raise QueryError(f"has the option [{unknown[0][:100]}] in [{query}], which is not supported")
    if required and required not in body:
        raise QueryError(f"lacks the option [{required}] in [{query}]")
    return body


def _of_field(
    query: str, body: Any, short: str, allowed: set[str] | frozenset[str], other: str = ""
) -> tuple[str, Document]:
    """Return the field that a query names, and its options; a plain value is the option `short`."""
    if not isinstance(body, dict) or len(body) != 1:
        raise QueryError(f"must name one field in [{query}]")
    ((name, options),) = body.items()
    if short and not isinstance(options, dict):
        options = {short: options}
    if other and isinstance(options, dict) and short not in options and other in options:
        options = {short: options[other]}
    return name, _options(query, options, {*allowed, *([short] if short else [])}, required=short)


def _string(value: Any, query: str) -> str:
    if not isinstance(value, str):
        raise QueryError(f"has a value in [{query}] that is not a text")
    return value


def _scalar(value: Any, query: str) -> Scalar:
    if not isinstance(value, str | int | float | bool):
        raise QueryError(f"has a value in [{query}] that is neither a text nor a number nor true nor false")
    return value


def _scalars(values: Any, query: str) -> Sequence[Scalar]:
    if not isinstance(values, list) or len(values) > expressions.MAXIMUM_VALUES:
        raise QueryError(f"must list at most {expressions.MAXIMUM_VALUES} values in [{query}]")
    return [_scalar(value, query) for value in values]
