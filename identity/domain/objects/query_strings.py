"""The query strings of index searches: a subset of the syntax of Elasticsearch's `query_string`.

    ann@example.com                            a bare term: the complete value of any of the principal fields
    email:ann* AND NOT verified:false          fields, wildcards, boolean operators (also &&, ||, !, + and -)
    fullName:(ann OR "bob lee")                groups and phrases
    insertInstant:[2026-01-01 TO now}          ranges, including or excluding each limit; also field:>=value
    _exists_:data.company                      fields that have a value

Without parentheses NOT binds more tightly than AND, and AND more than OR. Conditions without an operator between them
are alternatives, unless one has a `+`, a `-` or a NOT. Words without quotes and operators between them form one value.
Whatever else Lucene gives a meaning to (fuzziness, boosts, regular expressions) is refused.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator, Sequence

from identity.domain.objects import search_expressions as expressions
from identity.domain.objects.search_expressions import (
    Expression,
    Field,
    Fields,
    Kind,
    Not,
    Pattern,
    QueryError,
    Wildcard,
)
from identity.instants import Instant

MAXIMUM_LENGTH = 4096

_WORD = re.compile(r'(?:\\.|[^\s\\()\[\]{}"^~])', re.DOTALL)
_CHARACTER = re.compile(r"\\.|.", re.DOTALL)
_PHRASE = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_RANGE = re.compile(
    r'([\[{])\s*("(?:\\.|[^"\\])*"|[^\s"\]}]+)\s+TO\s+("(?:\\.|[^"\\])*"|[^\s"\]}]+)\s*([\]}])', re.DOTALL
)
_COMPARISON = re.compile(r"(>=|<=|>|<)\s*")
_UNSUPPORTED = {
    "^": "boosts a term with [^]",
    "~": "searches approximately with [~]",
    "/": "contains a regular expression",
}
_ONE_VALUE = frozenset({Kind.TEXT, Kind.LOWER_CASE, Kind.DATA})
"""The kinds of fields whose values may consist of several words."""


class Mark(enum.Enum):
    """A token without a value."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    REQUIRED = "+"
    OPEN = "("
    CLOSE = ")"
    END = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldName:
    """A name with its colon."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """A word; `pattern` contains its wildcards."""

    pattern: Pattern


@dataclasses.dataclass(frozen=True, slots=True)
class Phrase:
    """A quoted text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """The range of a field; None is an open limit."""

    lower: str | None
    upper: str | None
    includes_lower: bool
    includes_upper: bool


Token = Mark | FieldName | Word | Phrase | Interval
_MARKS: dict[str, Mark] = {"AND": Mark.AND, "OR": Mark.OR, "NOT": Mark.NOT, "&&": Mark.AND, "||": Mark.OR}
_SIGNS: dict[str, Mark] = {"(": Mark.OPEN, ")": Mark.CLOSE}
_PREFIXES: dict[str, Mark] = {"!": Mark.NOT, "-": Mark.NOT, "+": Mark.REQUIRED}


def parse(
    fields: Fields,
    text: str,
    now: Instant,
    *,
    default_field: Field | None = None,
    joins_with_and: bool = False,
    depth: int = 0,
) -> Expression:
    """Return the expression of a query string. Raises QueryError."""
    if len(text) > MAXIMUM_LENGTH:
        raise QueryError(f"must be a text of at most {MAXIMUM_LENGTH} characters")
    parser = _Parser(fields, list(tokens(text)), now, joins_with_and=joins_with_and, depth=depth)
    return parser.parse(default_field)


# Tokens


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a query string, with END last. Raises QueryError."""
    position, is_value, groups = _after_space(text, 0), False, [False]
    while position < len(text):
        has_field = is_value or groups[-1]
        token, position = _token(text, position, is_value=is_value, has_field=has_field)
        if token is Mark.OPEN:
            groups.append(has_field)
        elif token is Mark.CLOSE and len(groups) > 1:
            groups.pop()
        is_value = isinstance(token, FieldName)
        yield token
        position = _after_space(text, position)
    yield Mark.END


def _after_space(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip())


def _token(text: str, position: int, *, is_value: bool, has_field: bool) -> tuple[Token, int]:
    """Read one token; `is_value` after the name of a field, `has_field` in its group, too."""
    sign = text[position]
    if sign in _SIGNS:
        return _SIGNS[sign], position + 1
    if sign == '"':
        return _phrase(text, position)
    if has_field and (sign in "[{" or _COMPARISON.match(text, position)):
        return _interval(text, position)
    following = text[position + 1 : position + 2]
    if not is_value and sign in _PREFIXES and following.strip():
        return _PREFIXES[sign], position + 1
    if sign in _UNSUPPORTED:
        raise QueryError(f"{_UNSUPPORTED[sign]}, which is not supported; quote or escape it")
    return _word(text, position, is_value=is_value)


def _phrase(text: str, position: int) -> tuple[Phrase, int]:
    match = _PHRASE.match(text, position)
    if match is None:
        raise QueryError("contains a quote that is not closed")
    return Phrase(_ESCAPE.sub(r"\1", match[1])), match.end()


def _interval(text: str, position: int) -> tuple[Interval, int]:
    if comparison := _COMPARISON.match(text, position):
        limit, end = _comparand(text, comparison.end())
        includes = comparison[1].endswith("=")
        if comparison[1].startswith(">"):
            return Interval(limit, None, includes, includes_upper=True), end
        return Interval(None, limit, includes_lower=True, includes_upper=includes), end
    match = _RANGE.match(text, position)
    if match is None:
        raise QueryError("contains a range that is not of the form [lower TO upper] or {lower TO upper}")
    return Interval(_bound(match[2]), _bound(match[3]), match[1] == "[", match[4] == "]"), match.end()


def _comparand(text: str, position: int) -> tuple[str, int]:
    if text[position : position + 1] == '"':
        phrase, end = _phrase(text, position)
        return phrase.text, end
    word, end = _word(text, position, is_value=True)
    if not isinstance(word, Word) or len(word.pattern) != 1 or not isinstance(word.pattern[0], str):
        raise QueryError("compares a field with something that is not a value")
    return word.pattern[0], end


def _bound(text: str) -> str | None:
    if text == "*":
        return None
    return _ESCAPE.sub(r"\1", text[1:-1] if text.startswith('"') else text)


def _word(text: str, position: int, *, is_value: bool) -> tuple[Token, int]:
    """Read a word, or the name of a field with its colon."""
    start = position
    while (match := _WORD.match(text, position)) and (is_value or match[0] != ":"):
        position = match.end()
    parts = pattern_of(text[start:position])
    colon = _after_space(text, position)
    if not is_value and text[colon : colon + 1] == ":":
        return FieldName(_field_name(parts)), colon + 1
    if start == position or text[position : position + 1] in {*_UNSUPPORTED, *"[{]}", "\\"}:
        raise QueryError(_unexpected(text, position))
    return _MARKS.get(text[start:position], Word(parts)), position


def pattern_of(text: str) -> Pattern:
    """Return the pattern that a text with wildcards and backslashes denotes."""
    return _merged(
        Wildcard(match[0]) if match[0] in {"*", "?"} else match[0][-1] for match in _CHARACTER.finditer(text)
    )


def _merged(parts: Iterable[str | Wildcard]) -> Pattern:
    """Return a pattern with adjacent texts joined, and adjacent `*` once."""
    merged: list[str | Wildcard] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        elif part is not Wildcard.ANY or last is not Wildcard.ANY:
            merged.append(part)
    return tuple(merged)


def _field_name(parts: Sequence[str | Wildcard]) -> str:
    if list(parts) == [Wildcard.ANY]:
        return "*"
    if len(parts) != 1 or not isinstance(parts[0], str):
        raise QueryError("contains a field name that is empty or has a wildcard")
    return parts[0]


def _unexpected(text: str, position: int) -> str:
    sign = text[position : position + 1]
    if sign in _UNSUPPORTED:
        return f"{_UNSUPPORTED[sign]}, which is not supported; quote or escape it"
    return f"contains an unexpected [{sign}] at position {position}" if sign else "ends unexpectedly"


# Grammar


@dataclasses.dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a disjunction; `is_adjacent` if no operator separates it from another one."""

    part: Expression
    is_required: bool = False
    is_adjacent: bool = False


class _Parser:
    """A recursive descent over the tokens of one query string."""

    def __init__(
        self, fields: Fields, found: Sequence[Token], now: Instant, *, joins_with_and: bool, depth: int
    ) -> None:
        self._fields = fields
        self._tokens = found
        self._now = now
        self._joins_with_and = joins_with_and
        self._depth = depth
        self._position = 0

    def parse(self, field: Field | None) -> Expression:
        """Return the expression of all tokens."""
        if self._next() is Mark.END:
            return expressions.EVERYTHING
        found = self._disjunction(field)
        if self._next() is not Mark.END:
            raise QueryError("contains a parenthesis that is not opened")
        return found

    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += token is not Mark.END
        return token

    def _skip(self, mark: Mark) -> bool:
        is_there = self._next() is mark
        self._position += is_there
        return is_there

    def _disjunction(self, field: Field | None) -> Expression:
        """Operands with OR or nothing between them."""
        self._depth += 1
        if self._depth > expressions.MAXIMUM_DEPTH:
            raise QueryError(f"is nested more than {expressions.MAXIMUM_DEPTH} levels deep")
        operands = [self._conjunction(field)]
        while self._next() not in {Mark.END, Mark.CLOSE}:
            is_adjacent = not self._skip(Mark.OR)
            if is_adjacent:
                operands[-1] = dataclasses.replace(operands[-1], is_adjacent=True)
            operands.append(dataclasses.replace(self._conjunction(field), is_adjacent=is_adjacent))
        self._depth -= 1
        return _combined(operands, joins_with_and=self._joins_with_and)

    def _conjunction(self, field: Field | None) -> _Operand:
        """Operands with AND between them."""
        is_required = self._skip(Mark.REQUIRED)
        parts = [self._negation(field)]
        while self._skip(Mark.AND):
            self._skip(Mark.REQUIRED)
            parts.append(self._negation(field))
        return _Operand(expressions.conjunction(parts), is_required and len(parts) == 1)

    def _negation(self, field: Field | None) -> Expression:
        is_negated = False
        while self._skip(Mark.NOT):
            is_negated = not is_negated
        found = self._clause(field)
        return Not(found) if is_negated else found

    def _clause(self, field: Field | None) -> Expression:
        """A group or a condition, after the name of its field if it has one."""
        token = self._take()
        if isinstance(token, FieldName):
            if token.name in {"_exists_", "*"}:
                return self._special(token.name)
            field, token = self._fields.get(token.name), self._take()
            if token in {Mark.AND, Mark.OR, Mark.NOT}:
                raise QueryError(f"names the field [{field.name}] without a value")
        if token is Mark.OPEN:
            found = self._disjunction(field)
            if not self._skip(Mark.CLOSE):
                raise QueryError("contains a parenthesis that is not closed")
            return found
        return self._condition(field, token)

    def _special(self, name: str) -> Expression:
        """`_exists_:name`, and `*:*` for everything."""
        token = self._take()
        if name == "*" and token == Word((Wildcard.ANY,)):
            return expressions.EVERYTHING
        text = token.text if isinstance(token, Phrase) else token.pattern[0] if isinstance(token, Word) else None
        if name == "*" or not isinstance(text, str) or (isinstance(token, Word) and len(token.pattern) > 1):
            raise QueryError(f"contains [{name}:] without the name of a field")
        return expressions.exists(self._fields.get(text))

    def _condition(self, field: Field | None, token: Token) -> Expression:
        match token:
            case Phrase(text=text):
                return expressions.equals(field, [text], self._now)
            case Interval() if field is not None:
                return expressions.between(
                    field,
                    token.lower,
                    token.upper,
                    self._now,
                    includes_lower=token.includes_lower,
                    includes_upper=token.includes_upper,
                )
            case Word(pattern=pattern):
                pattern = self._value(field, pattern)
                if len(pattern) == 1 and isinstance(pattern[0], str):
                    return expressions.equals(field, [pattern[0]], self._now)
                return expressions.matches(field, pattern)
            case _:
                raise QueryError("lacks a condition after an operator, a field name or a parenthesis")

    def _value(self, field: Field | None, pattern: Pattern) -> Pattern:
        """Return the pattern of a word and of the words that follow it."""
        found = list(pattern)
        while field is None or field.kind in _ONE_VALUE:
            token = self._next()
            if not isinstance(token, Word):
                break
            self._take()
            found += [" ", *token.pattern]
        return _merged(found)


def _combined(operands: Sequence[_Operand], *, joins_with_and: bool) -> Expression:
    """Combine the operands of a disjunction.

    As in Lucene, operands without an operator between them are alternatives, but those with `+` are required and
    those with `-` or NOT are excluded.
    """
    is_prohibited = [isinstance(operand.part, Not) and operand.is_adjacent for operand in operands]
    required = [operand.part for operand in operands if operand.is_required]
    excluded = [operand.part for operand, is_not in zip(operands, is_prohibited, strict=True) if is_not]
    others = [
        operand.part
        for operand, is_not in zip(operands, is_prohibited, strict=True)
        if not is_not and not operand.is_required
    ]
    if joins_with_and and all(operand.is_adjacent for operand in operands):
        return expressions.conjunction([*required, *others, *excluded])
    if not required and others:
        required = [expressions.disjunction(others)]
    return expressions.conjunction([*required, *excluded])
