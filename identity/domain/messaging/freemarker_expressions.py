"""Translates FreeMarker expressions to Jinja: operators, defaults, built-ins and interpolations in strings."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from identity.domain.messaging import freemarker_builtins

NAMESPACE: Final = "ftl"
"""The Jinja namespace of the variables that [#assign] sets, each with the prefix `v_`."""
LOOP: Final = "ftl_loop_"
"""The prefix of the variables that hold the Jinja `loop` of a loop variable, for `item?index` and the like."""

_TOKEN = re.compile(
    r"\s+|(?P<number>[0-9]+(\.[0-9]+)?)|(?P<raw>r\"[^\"]*\"|r'[^']*')|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<sign>\?\?|\.\.[<!*]?|==|!=|<=|>=|&&|\|\||[-.\[\](){}!?+*/%=<>,:;])",
    re.DOTALL,
)
_COMPARISONS = {
    "==": "==", "=": "==", "!=": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=",
    "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_ENTITY = re.compile(r"&(#[0-9]+|#x[0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "l": "<", "g": ">", "a": "&"}
_MAX_DEPTH = 50
_MAX_TOKENS = 500
"""Per expression. It bounds the copying of operands in translations."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Level:
    """Binary operators of the same precedence: Jinja operators by FreeMarker operator, and the form of an operation."""

    operators: Mapping[str, str]
    operation: str = "({left} {operator} {right})"
    is_chainable: bool = True


_LEVELS: Final = (
    _Level({"||": "or"}),
    _Level({"&&": "and"}),
    _Level(_COMPARISONS, is_chainable=False),
    _Level({"..": "false", "..<": "true", "..!": "true"}, "({left}|range_to({right}, {operator}))", is_chainable=False),
    _Level({"+": "+", "-": "-"}),
    _Level({"*": "*", "/": "/", "%": "%"}, "(({left} {operator} {right})|whole)"),
)
"""The binary operators in ascending precedence."""

_LOOP_BUILTINS: Final = {
    "counter": "{loop}.index",
    "index": "{loop}.index0",
    "is_first": "{loop}.first",
    "is_last": "{loop}.last",
    "has_next": "(not {loop}.last)",
    "item_parity": "('odd' if {loop}.index is odd else 'even')",
    "is_odd_item": "({loop}.index is odd)",
    "is_even_item": "({loop}.index is even)",
}


@dataclasses.dataclass(slots=True)
class Scope:
    """The names that are not members of the data model: assigned variables, local variables, loop variables."""

    assigned: set[str] = dataclasses.field(default_factory=set)
    local: list[str] = dataclasses.field(default_factory=list)
    loops: list[str] = dataclasses.field(default_factory=list)

    def variable(self, name: str) -> str:
        """Translate a name: a local variable, else the assigned value if there is one, else the data model."""
        if name not in self.assigned or name in self.local:
            return name
        return f"({NAMESPACE}.v_{name} if {NAMESPACE}.v_{name} is defined else {name})"


def translate(text: str, scope: Scope, depth: int = 0) -> str:
    """Translate one expression. Raises ValueError."""
    return _parser(text, scope, depth).parse()


def translate_arguments(text: str, scope: Scope) -> list[tuple[str, str]]:
    """Translate the arguments of a macro to (name, expression) pairs; positional arguments have an empty name."""
    return list(_parser(text, scope, 0).parse_arguments())


def _parser(text: str, scope: Scope, depth: int) -> _Parser:
    tokens = list(itertools.islice(_tokenize(text), _MAX_TOKENS + 1))
    if len(tokens) > _MAX_TOKENS:
        raise ValueError("the expression is too long")
    return _Parser(tokens, scope, depth)


def _tokenize(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected [{text[position]}]")
        if match.lastgroup:
            yield match[0]
        position = match.end()


class _Parser:
    """A recursive descent parser of one expression."""

    def __init__(self, tokens: Sequence[str], scope: Scope, depth: int) -> None:
        self._tokens = tokens
        self._scope = scope
        self._position = 0
        self._depth = depth

    def parse(self) -> str:
        result = self._expression()
        if token := self._peek():
            raise ValueError(f"unexpected [{token}]")
        return result

    def parse_arguments(self) -> Iterator[tuple[str, str]]:
        while self._peek():
            name = ""
            if _is_name(self._peek()) and self._peek(1) == "=":
                name = self._name()
                self._require("=")
            yield name, self._expression()
            self._accept(",")

    def _peek(self, ahead: int = 0) -> str:
        position = self._position + ahead
        return self._tokens[position] if position < len(self._tokens) else ""

    def _accept(self, *expected: str) -> str:
        """Consume and return the next token if it is one of the expected ones."""
        token = self._peek()
        if token and token in expected:
            self._position += 1
            return token
        return ""

    def _require(self, expected: str) -> None:
        if not self._accept(expected):
            raise ValueError(f"expected [{expected}]")

    def _expression(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("too many nested brackets")
        result = self._binary(0)
        self._depth -= 1
        return result

    def _binary(self, precedence: int) -> str:
        if precedence == len(_LEVELS):
            return self._unary()
        level = _LEVELS[precedence]
        result = self._binary(precedence + 1)
        while operator := self._accept(*level.operators):
            right = self._binary(precedence + 1)
            result = level.operation.format(left=result, operator=level.operators[operator], right=right)
            if not level.is_chainable:
                break
        return result

    def _unary(self) -> str:
        signs = ""
        while sign := self._accept("!", "-", "+"):
            signs += sign
        result = self._postfix()
        for sign in reversed(signs.replace("!!", "")):
            result = {"!": f"(not {result})", "-": f"(-{result})", "+": result}[sign]
        return result

    def _postfix(self) -> str:
        variable = self._peek() if _is_name(self._peek()) else ""
        result = self._primary()
        while sign := self._accept(".", "[", "?", "??", "!"):
            if sign == ".":
                result = f"{result}[{quote(self._name())}]"
            elif sign == "[":
                result = f"{result}[{self._expression()}]"
                self._require("]")
            elif sign == "?":
                result = self._builtin(result, variable)
            elif sign == "??":
                result = f"({result}|is_present)"
            else:
                result = f"({result}|default({self._default()}))"
            variable = ""
        return result

    def _builtin(self, operand: str, variable: str) -> str:
        """Translate a built-in; `variable` is the operand if it is only a name."""
        name = self._name()
        if variable in self._scope.loops and name in _LOOP_BUILTINS:
            return _loop_builtin(name, variable)
        arguments = self._builtin_arguments(name)
        if name == "then" and len(arguments) == 2:
            return f"({arguments[0]} if {operand} else {arguments[1]})"
        if name == "switch" and len(arguments) >= 2:
            return f"({operand}|choose({', '.join(arguments)}))"
        if name not in freemarker_builtins.BUILTINS:
            raise ValueError(f"?{name} is not supported")
        jinja_filter, max_arguments = freemarker_builtins.BUILTINS[name]
        if len(arguments) > max_arguments:
            raise ValueError(f"?{name} takes at most {max_arguments} arguments")
        return f"({operand}|{jinja_filter}{'(' + ', '.join(arguments) + ')' if arguments else ''})"

    def _builtin_arguments(self, name: str) -> list[str]:
        """Translate the arguments of a built-in; the format of ?string may also follow a dot or be in [ ]."""
        if name == "string" and self._peek() == "." and _is_name(self._peek(1)):
            self._require(".")
            return [quote(self._name())]
        if name == "string" and self._accept("["):
            arguments = [self._expression()]
            self._require("]")
            return arguments
        return self._list(")") if self._accept("(") else []

    def _list(self, close: str) -> list[str]:
        items: list[str] = []
        while not self._accept(close):
            if items:
                self._require(",")
            items.append(self._expression())
        return items

    def _default(self) -> str:
        """Translate the operand of `!`, which is optional."""
        token = self._peek()
        if _is_string(token) and self._peek(1) not in {"?", "+", "[", "."}:
            self._position += 1
            value = self._string(token)
            return f"({value}|literal)" if _ENTITY.search(token) else value
        has_operand = token[:1].isalnum() or _is_string(token) or token[:1] in {"_", "(", "{", "["}
        return self._postfix() if has_operand and token not in _COMPARISONS else "''"

    def _primary(self) -> str:
        symbol = self._peek()
        self._position += 1
        if symbol == "(":
            inside = self._expression()
            self._require(")")
            return f"({inside})"
        if symbol == "[":
            return f"[{', '.join(self._list(']'))}]"
        if symbol == "{":
            return self._hash()
        if symbol == ".":
            return self._special_variable(self._name())
        if symbol[:2] in {'r"', "r'"}:
            return quote(symbol[2:-1])
        if _is_string(symbol):
            return self._string(symbol)
        if symbol[:1].isdigit() or symbol in {"true", "false"}:
            return symbol
        if _is_name(symbol):
            return self._variable(symbol)
        raise ValueError(f"unexpected [{symbol}]" if symbol else "the expression is incomplete")

    def _hash(self) -> str:
        members: list[str] = []
        while not self._accept("}"):
            if members:
                self._require(",")
            key = self._expression()
            self._require(":")
            members.append(f"{key}: {self._expression()}")
        return f"{{{', '.join(members)}}}"

    def _special_variable(self, name: str) -> str:
        if name != "now":
            raise ValueError(f".{name} is not supported")
        return f"({NAMESPACE}.now|to_datetime)"

    def _variable(self, name: str) -> str:
        if self._peek() == "(":
            raise ValueError(f"[{name}] is not a function")
        for suffix in ("index", "has_next"):
            if name.endswith(f"_{suffix}") and name.removesuffix(f"_{suffix}") in self._scope.loops:
                return _loop_builtin(suffix, name.removesuffix(f"_{suffix}"))
        return self._scope.variable(name)

    def _string(self, token: str) -> str:
        """Translate a string literal; interpolations are concatenated with the text around them."""
        parts = list(_split_interpolations(token[1:-1]))
        if all(not is_expression for _, is_expression in parts):
            return quote("".join(unescape(text) for text, _ in parts))
        translated = [
            translate(text, self._scope, self._depth + 1) if is_expression else quote(unescape(text))
            for text, is_expression in parts
        ]
        return f"({' + '.join([quote(''), *translated])})"

    def _name(self) -> str:
        token = self._peek()
        if not _is_name(token):
            raise ValueError("expected a name")
        self._position += 1
        return token


def _is_name(token: str) -> bool:
    return token[:1] == "_" or (token[:1].isalpha() and token[1:2] not in {'"', "'"})


def _is_string(token: str) -> bool:
    return token[:1] in {'"', "'"}


def _loop_builtin(name: str, variable: str) -> str:
    return _LOOP_BUILTINS[name].format(loop=f"{LOOP}{variable}")


def _split_interpolations(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a string literal, each with whether it is an interpolated expression. Raises ValueError."""
    position = 0
    while (start := text.find("${", position)) >= 0:
        if start and text[start - 1] == "\\":
            yield text[position : start + 2], False
            position = start + 2
            continue
        end = find_closing(text, start + 2, "}")
        if end < 0:
            raise ValueError("the [}] of an interpolation is missing")
        yield text[position:start], False
        yield text[start + 2 : end], True
        position = end + 1
    yield text[position:], False


def find_closing(text: str, start: int, close: str) -> int:
    """Return the index of the closing bracket for text that begins at `start`, or -1; skips quotes and nesting."""
    nesting, quote_sign, position = 0, "", start
    opening = {"]": "[", "}": "{", ">": ""}[close]
    while position < len(text):
        character = text[position]
        if quote_sign:
            if character == "\\":
                position += 1
            elif character == quote_sign:
                quote_sign = ""
        elif character in "\"'":
            quote_sign = character
        elif character == opening:
            nesting += 1
        elif character == close:
            if not nesting:
                return position
            nesting -= 1
        position += 1
    return -1


def unescape(text: str) -> str:
    """Replace the escape sequences of a string literal."""
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{1,4})|(.))",
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]),
        text,
        flags=re.DOTALL,
    )


def quote(text: str) -> str:
    """Return a Jinja string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
