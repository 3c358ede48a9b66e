"""FreeMarker expressions as Jinja expressions: operators, defaults, built-ins and interpolation inside strings."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from identity.domain.messaging import freemarker_builtins as builtins

NAMESPACE: Final = "ftl"
"""The Jinja namespace that holds what [#assign] assigns; `v_` precedes the name."""
LOOP: Final = "ftl_loop_"
"""The prefix of the variable that holds the state of a loop, for `item?index` and the like."""

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
_LOOP_MEMBERS = {
    "counter": "index", "index": "index0", "is_first": "first", "is_last": "last",
}  # fmt: skip
_WORDS = {"true": "true", "false": "false"}
_ENTITY = re.compile(r"&(#[0-9]+|#x[0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "l": "<", "g": ">", "a": "&"}
_DEPTH = 50
_MAXIMUM_TOKENS = 500
"""Of one expression: the translation is copied for each of them."""


@dataclasses.dataclass(slots=True)
class Scope:
    """The names that mean something else than a value of the data model."""

    assigned: set[str] = dataclasses.field(default_factory=set)
    local: list[str] = dataclasses.field(default_factory=list)
    loops: list[str] = dataclasses.field(default_factory=list)

    def read(self, name: str) -> str:
        """The Jinja expression of a variable: a loop variable or parameter, else what was assigned, else a value."""
        if name not in self.assigned or name in self.local:
            return name
        return f"({NAMESPACE}.v_{name} if {NAMESPACE}.v_{name} is defined else {name})"


def translate(text: str, scope: Scope, depth: int = 0) -> str:
    """The expression in Jinja. Raises ValueError."""
    return _parser(text, scope, depth).whole()


def translate_each(text: str, scope: Scope) -> list[tuple[str, str]]:
    """The arguments of a macro: (name, expression) pairs; the name is empty for one given by its place."""
    parser = _parser(text, scope, 0)
    return list(parser.arguments())


def _parser(text: str, scope: Scope, depth: int) -> Parser:
    tokens = list(itertools.islice(_tokens(text), _MAXIMUM_TOKENS + 1))
    if len(tokens) > _MAXIMUM_TOKENS:
        raise ValueError("it is too long")
    return Parser(tokens, scope, depth)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unexpected [{text[at]}]")
        if found.lastgroup:
            yield found[0]
        at = found.end()


class Parser:
    """Reads one expression, the weakest operator first."""

    def __init__(self, tokens: Sequence[str], scope: Scope, depth: int) -> None:
        self._tokens = tokens
        self._scope = scope
        self._at = 0
        self._depth = depth

    def whole(self) -> str:
        """The whole text as one expression."""
        result = self._or()
        if self._next():
            raise ValueError(f"unexpected [{self._next()}]")
        return result

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Expressions one after the other, each with `name=` before it or not."""
        while self._next():
            name = ""
            if self._is_name(self._next()) and self._next(1) == "=":
                name = self._name()
                self._require("=")
            yield name, self._or()
            self._take(",")

    def _next(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if token and token in wanted:
            self._at += 1
            return token
        return ""

    def _or(self) -> str:
        self._depth += 1
        if self._depth > _DEPTH:
            raise ValueError("too many brackets")
        result = self._and()
        while self._take("||"):
            result = f"({result} or {self._and()})"
        self._depth -= 1
        return result

    def _and(self) -> str:
        result = self._comparison()
        while self._take("&&"):
            result = f"({result} and {self._comparison()})"
        return result

    def _comparison(self) -> str:
        result = self._range()
        if sign := self._take(*_COMPARISONS):
            result = f"({result} {_COMPARISONS[sign]} {self._range()})"
        return result

    def _range(self) -> str:
        result = self._sum()
        if sign := self._take("..", "..<", "..!"):
            result = f"({result}|range_to({self._sum()}, {'false' if sign == '..' else 'true'}))"
        return result

    def _sum(self) -> str:
        result = self._product()
        while sign := self._take("+", "-"):
            result = f"({result} {sign} {self._product()})"
        return result

    def _product(self) -> str:
        result = self._unary()
        while sign := self._take("*", "/", "%"):
            result = f"(({result} {sign} {self._unary()})|whole)"
        return result

    def _unary(self) -> str:
        signs = ""
        while sign := self._take("!", "-", "+"):
            signs += sign
        result = self._postfix()
        for sign in reversed(signs.replace("!!", "")):
            result = {"!": f"(not {result})", "-": f"(-{result})", "+": result}[sign]
        return result

    def _postfix(self) -> str:
        name = self._next() if self._is_name(self._next()) else ""
        result = self._primary()
        while sign := self._take(".", "[", "?", "??", "!"):
            if sign == ".":
                result = f"{result}[{quoted(self._name())}]"
            elif sign == "[":
                result = f"{result}[{self._or()}]"
                self._require("]")
            elif sign == "?":
                result = self._built_in(result, name)
            elif sign == "??":
                result = f"({result}|is_there)"
            else:
                result = f"({result}|default({self._default()}))"
            name = ""
        return result

    def _built_in(self, of: str, variable: str) -> str:
        name = self._name()
        if variable in self._scope.loops and (state := self._loop_state(name, variable)):
            return state
        arguments = self._built_in_arguments(name)
        if name == "then" and len(arguments) == 2:
            return f"({arguments[0]} if {of} else {arguments[1]})"
        if name == "switch" and len(arguments) >= 2:
            return f"({of}|choose({', '.join(arguments)}))"
        builtin = builtins.FOR.get(name)
        if builtin is None:
            raise ValueError(f"there is no ?{name} here")
        if len(arguments) > builtin.most_arguments:
            raise ValueError(f"?{name} takes at most {builtin.most_arguments} arguments")
        given = f"({', '.join(arguments)})" if arguments else ""
        return f"({of}|{builtin.filter}{given})"

    def _loop_state(self, name: str, variable: str) -> str:
        loop = f"{LOOP}{variable}"
        if name in _LOOP_MEMBERS:
            return f"{loop}.{_LOOP_MEMBERS[name]}"
        return {
            "has_next": f"(not {loop}.last)",
            "item_parity": f"('odd' if {loop}.index is odd else 'even')",
            "is_odd_item": f"({loop}.index is odd)",
            "is_even_item": f"({loop}.index is even)",
        }.get(name, "")

    def _built_in_arguments(self, name: str) -> list[str]:
        """What stands in brackets after a built-in; of ?string the format may follow a dot or stand in [ ] as well."""
        if name == "string" and self._next() == "." and self._is_name(self._next(1)):
            self._take(".")
            return [quoted(self._name())]
        if name == "string" and self._take("["):
            arguments = [self._or()]
            self._require("]")
            return arguments
        if not self._take("("):
            return []
        return self._listed(")")

    def _listed(self, close: str) -> list[str]:
        found: list[str] = []
        while not self._take(close):
            if found:
                self._require(",")
            found.append(self._or())
        return found

    def _default(self) -> str:
        token = self._next()
        if token[:1] in {'"', "'"} and self._next(1) not in {"?", "+", "[", "."}:
            self._at += 1
            value = self._text(token)
            return f"({value}|literal)" if _ENTITY.search(token) else value
        if token[:1].isalnum() or token[:1] in {'"', "'", "_", "(", "{", "["}:
            return "''" if token in _COMPARISONS else self._postfix()
        return "''"

    def _primary(self) -> str:
        if self._take("("):
            inside = self._or()
            self._require(")")
            return f"({inside})"
        if self._take("["):
            return f"[{', '.join(self._listed(']'))}]"
        if self._take("{"):
            return self._hash()
        if self._take("."):
            return self._special(self._name())
        word = self._next()
        self._at += 1
        if word[:2] in {'r"', "r'"}:
            return quoted(word[2:-1])
        if word[:1] in {'"', "'"} and word:
            return self._text(word)
        if word[:1].isdigit():
            return word
        if self._is_name(word):
            return _WORDS.get(word) or self._variable(word)
        raise ValueError(f"unexpected [{word}]" if word else "something is missing at its end")

    def _hash(self) -> str:
        members: list[str] = []
        while not self._take("}"):
            if members:
                self._require(",")
            key = self._or()
            self._require(":")
            members.append(f"{key}: {self._or()}")
        return f"{{{', '.join(members)}}}"

    def _special(self, name: str) -> str:
        if name != "now":
            raise ValueError(f"there is no .{name} here")
        return f"({NAMESPACE}.now|to_datetime)"

    def _variable(self, name: str) -> str:
        if self._next() == "(":
            raise ValueError(f"[{name}] cannot be called here")
        for suffix in ("index", "has_next"):
            if name.endswith(f"_{suffix}") and name.removesuffix(f"_{suffix}") in self._scope.loops:
                return self._loop_state(suffix, name.removesuffix(f"_{suffix}"))
        return self._scope.read(name)

    def _text(self, token: str) -> str:
        """A string literal, whose interpolations are joined with what stands around them."""
        parts = list(_parts(token[1:-1]))
        if all(not is_expression for _, is_expression in parts):
            return quoted("".join(unescaped(text) for text, _ in parts))
        joined = [
            translate(text, self._scope, self._depth + 1) if inner else quoted(unescaped(text)) for text, inner in parts
        ]
        return f"({' + '.join([chr(39) * 2, *joined])})"

    def _name(self) -> str:
        token = self._next()
        if not self._is_name(token):
            raise ValueError("a name is missing")
        self._at += 1
        return token

    @staticmethod
    def _is_name(token: str) -> bool:
        return token[:1] == "_" or (token[:1].isalpha() and token[1:2] not in {'"', "'"})

    def _require(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"a [{sign}] is missing")


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a string literal, and whether each is the inside of an interpolation. Raises ValueError."""
    at = 0
    while (start := text.find("${", at)) >= 0:
        if start and text[start - 1] == "\\":
            yield text[at : start + 2], False
            at = start + 2
            continue
        end = closing(text, start + 2, "}")
        if end < 0:
            raise ValueError("there is no [}] that ends an interpolation")
        yield text[at:start], False
        yield text[start + 2 : end], True
        at = end + 1
    yield text[at:], False


def closing(text: str, at: int, close: str) -> int:
    """The place of the bracket that closes what was opened before `at`, quotes and brackets respected; else -1."""
    opened, quote, place = 0, "", at
    other = {"]": "[", "}": "{", ">": ""}[close]
    while place < len(text):
        character = text[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == other:
            opened += 1
        elif character == close:
            if not opened:
                return place
            opened -= 1
        place += 1
    return -1


def unescaped(text: str) -> str:
    """The characters of a string literal, its escapes replaced."""
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{1,4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]),
        text,
        flags=re.DOTALL,
    )


def quoted(text: str) -> str:
    """A string literal of Jinja."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
