"""What email templates may hold of FreeMarker, as Jinja: for templates that are brought along from elsewhere.

Interpolations (`${user.firstName}`, `${(user.fullName)!"you"}`), comments, and the directives `if`, `elseif`, `else`,
`list`, `assign` and `setting`, in square or angle brackets. Anything else of FreeMarker is refused by name: it must
not go out as text. Lines stay where they are, so that an error names the author's own line.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator

# Openings alone: a pattern that also looked for the ends would look through the rest of the text at each of them.
_PIECE = re.compile(
    r"(?P<jinja>\{\{|\{%|\{#)|(?P<comment>[\[<]#--)|(?P<interpolation>\$\{)"
    r"|(?P<directive>[\[<](?P<close>/?)#(?P<name>[a-z]++))"
)
_RAW = re.compile(r"\{%-?\s*+raw\s*+-?%\}")
_END_RAW = re.compile(r"\{%-?\s*+endraw\s*+-?%\}")
_ENDS = {"{{": "}}", "{%": "%}", "{#": "#}", "[#--": "--]", "<#--": "-->"}
_TOKEN = re.compile(
    r"\s+|(?P<number>[0-9]+(\.[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<sign>\?\?|==|!=|<=|>=|&&|\|\||\{\}|[-.\[\]()!?+=<>,])"
)

_BUILT_INS = {
    "c": "string",
    "cap_first": "cap_first",
    "first": "first",
    "has_content": "has_content",
    "html": "escape",
    "last": "last",
    "length": "length",
    "lower_case": "lower",
    "size": "length",
    "string": "string",
    "trim": "trim",
    "upper_case": "upper",
    "url": "urlencode",
}
_COMPARISONS = {
    "==": "==", "=": "==", "!=": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=",
    "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_WORDS = {"true": "true", "false": "false"}
_DEPTH = 50
_MAXIMUM_TOKENS = 500
"""Of one expression: it is put together anew with each of them."""

# Names that mean something to FreeMarker; `[#1]` or `<#anchor` in a text is left alone.
_DIRECTIVES = re.compile(
    "assign|attempt|autoesc|break|case|compress|default|else|elseif|escape|fallback|flush|ftl|function|global|if|import"
    "|include|items|list|local|macro|nested|noautoesc|noescape|noparse|outputformat|recover|recurse|return|sep|setting"
    "|stop|switch|visit"
)


class FreemarkerError(ValueError):
    """Something of FreeMarker that is not understood here; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def to_jinja(text: str) -> str:
    """The template with everything of FreeMarker written as Jinja. Raises FreemarkerError."""
    if "${" not in text and "[#" not in text and "<#" not in text and "[/#" not in text and "</#" not in text:
        return text
    return "".join(_Translation(text).pieces())


@dataclasses.dataclass(slots=True)
class _Translation:
    text: str
    lists: int = 0

    def pieces(self) -> Iterator[str]:
        at = 0
        while (found := _PIECE.search(self.text, at)) is not None:
            yield self.text[at : found.start()]
            at = found.end()
            if found["jinja"]:
                at = self._end_of_jinja(found)
                yield self.text[found.start() : at]
            elif found["comment"]:
                at = self._end_of_comment(found)
                yield f"{{#{_lines(self.text[found.start() : at])}#}}"
            elif found["interpolation"]:
                at = self._end(at, "}")
                inside = self.text[found.end() : at - 1]
                yield f"{{{{ {self._expression(inside, found.end())}{_lines(inside)} }}}}"
            elif _DIRECTIVES.fullmatch(found["name"]):
                at = self._end(at, "]" if found[0][0] == "[" else ">")
                inside = self.text[found.end() : at - 1]
                yield self._directive(found["close"], found["name"], inside, found.start()) + _lines_tag(inside)
            else:
                yield found[0]
        yield self.text[at:]

    def _directive(self, close: str, name: str, inside: str, at: int) -> str:
        makers: dict[str, Callable[[str, int], str]] = {
            "if": lambda given, place: f"{{% if {self._expression(given, place)} %}}",
            "elseif": lambda given, place: f"{{% elif {self._expression(given, place)} %}}",
            "else": lambda _given, _place: "{% else %}",
            "list": self._list,
            "assign": self._assign,
            "setting": lambda _given, _place: "",
        }
        if close and name == "list":
            self.lists -= 1
            return "{% endfor %}"
        if close and name == "if":
            return "{% endif %}"
        if close or name not in makers:
            raise self._error(f"the directive [{close}#{name}] is not understood here; write it in Jinja", at)
        return makers[name](inside.rstrip().removesuffix("/"), at)

    def _list(self, inside: str, at: int) -> str:
        found = re.fullmatch(r"(.+)\sas\s+(\w+)(?:\s*,\s*(\w+))?\s*", inside, re.DOTALL)
        if found is None:
            raise self._error("a list is written [#list items as item] or [#list map as key, value]", at)
        self.lists += 1
        items, key, value = self._expression(found[1], at), found[2], found[3]
        return f"{{% for {key}, {value} in ({items})|items %}}" if value else f"{{% for {key} in {items} %}}"

    def _assign(self, inside: str, at: int) -> str:
        found = re.fullmatch(r"\s*(\w+)\s*=(?!=)(.+)", inside, re.DOTALL)
        if found is None:
            raise self._error('an assignment is written [#assign name = "value" /]', at)
        if self.lists:
            raise self._error("an assignment inside of a list would be forgotten after it; write it differently", at)
        return f"{{% set {found[1]} = {self._expression(found[2], at)} %}}"

    def _expression(self, inside: str, at: int) -> str:
        try:
            tokens = list(itertools.islice(_tokens(inside), _MAXIMUM_TOKENS + 1))
            if len(tokens) > _MAXIMUM_TOKENS:
                raise ValueError("it is too long")
            return _Expression(tokens).whole()
        except ValueError as error:
            shown = " ".join(inside.split())[:80]
            raise self._error(f"[{shown}] is not understood: {error}", at) from error

    def _end_of_jinja(self, opened: re.Match[str]) -> int:
        """The place after what is Jinja already; without an end that is the rest, of which Jinja will complain."""
        raw = _RAW.match(self.text, opened.start())
        if raw is not None:
            end = _END_RAW.search(self.text, raw.end())
            return len(self.text) if end is None else end.end()
        place = self.text.find(_ENDS[opened[0]], opened.end())
        return len(self.text) if place < 0 else place + 2

    def _end_of_comment(self, opened: re.Match[str]) -> int:
        end = _ENDS[opened[0]]
        place = self.text.find(end, opened.end())
        if place < 0:
            raise self._error(f"there is no [{end}] that ends what begins here", opened.start())
        return place + len(end)

    def _end(self, at: int, close: str) -> int:
        """The place after the bracket that closes what was opened before `at`, quotes and brackets inside respected."""
        opened, quote, place = 0, "", at
        other = {"]": "[", "}": "{", ">": ""}[close]
        while place < len(self.text):
            character = self.text[place]
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
                    return place + 1
                opened -= 1
            place += 1
        raise self._error(f"there is no [{close}] that ends what begins here", at)

    def _error(self, message: str, at: int) -> FreemarkerError:
        return FreemarkerError(message, self.text.count("\n", 0, at) + 1)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unexpected [{text[at]}]")
        if found.lastgroup:
            yield found[0]
        at = found.end()


class _Expression:
    """Reads one expression, the weakest operator first."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> str:
        result = self._or()
        if self._next():
            raise ValueError(f"unexpected [{self._next()}]")
        return result

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

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
            result = f"{result} or {self._and()}"
        self._depth -= 1
        return result

    def _and(self) -> str:
        result = self._not()
        while self._take("&&"):
            result = f"{result} and {self._not()}"
        return result

    def _not(self) -> str:
        negations = 0
        while self._take("!"):
            negations += 1
        result = self._comparison()
        return f"(not {result})" if negations % 2 else result

    def _comparison(self) -> str:
        result = self._sum()
        if sign := self._take(*_COMPARISONS):
            result = f"({result} {_COMPARISONS[sign]} {self._sum()})"
        return result

    def _sum(self) -> str:
        result = self._postfix()
        while self._take("+"):
            result = f"({result} + {self._postfix()})"
        return result

    def _postfix(self) -> str:
        result = self._primary()
        while sign := self._take(".", "[", "?", "??", "!"):
            if sign == ".":
                result = f"{result}[{_quoted(self._name())}]"
            elif sign == "[":
                result = f"{result}[{self._or()}]"
                self._require("]")
            elif sign == "?":
                result = self._built_in(result)
            elif sign == "??":
                result = f"({result}|is_there)"
            else:
                result = f"({result}|default({self._default()}))"
        return result

    def _built_in(self, of: str) -> str:
        name = self._name()
        if name not in _BUILT_INS:
            raise ValueError(f"there is no ?{name} here")
        return f"({of}|{_BUILT_INS[name]})"

    def _default(self) -> str:
        if self._next()[:1].isalnum() or self._next()[:1] in {'"', "'", "_", "(", "{"}:
            return self._postfix()
        return "''"

    def _primary(self) -> str:
        if self._take("("):
            inside = self._or()
            self._require(")")
            return f"({inside})"
        if self._take("{}"):
            return "{}"
        word = self._next()
        self._at += 1
        if word[:1] in {'"', "'"} and word:
            return _quoted(_unescaped(word))
        if word[:1].isdigit():
            return word
        if word[:1].isalpha() or word[:1] == "_":
            return _WORDS.get(word, word)
        raise ValueError(f"unexpected [{word}]" if word else "something is missing at its end")

    def _name(self) -> str:
        token = self._next()
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise ValueError("a name is missing")
        self._at += 1
        return token

    def _require(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"a [{sign}] is missing")


def _unescaped(token: str) -> str:
    inside = token[1:-1]
    if "${" in inside or "#{" in inside:
        raise ValueError("an interpolation inside of a text; join with + instead")
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), inside)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _lines(text: str) -> str:
    return "\n" * text.count("\n")


def _lines_tag(text: str) -> str:
    """The line breaks that a directive held, in a comment, so that they are counted and not shown."""
    return f"{{#{_lines(text)}#}}" if "\n" in text else ""
