"""FreeMarker templates as Jinja templates, for templates that were written for the published product.

Interpolations, comments, and the directives `if`, `list` (with `items`, `sep`, `break`, `continue`), `switch`,
`assign`, `global`, `local`, `macro`, `nested` and `noparse`, in square or angle brackets; settings and directives that
only control white space or escaping are dropped. Everything else, such as `include`, `import` and `function`, is
refused by name: it must not go out as text. Lines stay where they are, so that an error names the author's own line.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Final

from identity.domain.messaging import freemarker_expressions as expressions
from identity.domain.messaging.freemarker_expressions import LOOP, NAMESPACE, Scope

MACRO: Final = "ftl_macro_"
"""The prefix of the names of macros in Jinja."""

# Openings alone: a pattern that also looked for the ends would look through the rest of the text at each of them.
_PIECE = re.compile(
    r"(?P<jinja>\{\{|\{%|\{#)|(?P<comment>[\[<]#--)|(?P<interpolation>\$\{)"
    r"|(?P<directive>[\[<](?P<close>/?)#(?P<name>[a-z]++))|(?P<call>[\[<](?P<end>/?)@(?P<macro>\w*+))"
)
_RAW = re.compile(r"\{%-?\s*+raw\s*+-?%\}")
_END_RAW = re.compile(r"\{%-?\s*+endraw\s*+-?%\}")
_END_NOPARSE = re.compile(r"[\[<]/#noparse\s*+[\]>]")
_ENDS = {"{{": "}}", "{%": "%}", "{#": "#}", "[#--": "--]", "<#--": "-->"}
_ASSIGNED = re.compile(r"[\[<]#(?:assign|global|local)\s++([A-Za-z]\w*+)")
_MACROS = re.compile(r"[\[<]#macro\s++([A-Za-z]\w*+)")
_NEXT_CASE = re.compile(r"\s*+[\[<]#(?:case\b|default\s*+/?[\]>])")

# Names that mean something to FreeMarker; `[#1]` or `<#anchor` in a text is left alone.
_DIRECTIVES = re.compile(
    "assign|attempt|autoesc|break|case|compress|continue|default|else|elseif|escape|fallback|flush|ftl|function|global"
    "|if|import|include|items|list|local|lt|macro|nested|noautoesc|noescape|noparse|nt|outputformat|recover|recurse"
    "|return|rt|sep|setting|stop|switch|t|visit"
)
_DROPPED = frozenset(
    {"autoesc", "compress", "escape", "flush", "ftl", "lt", "noautoesc", "noescape", "nt", "outputformat", "rt"}
    | {"setting", "t"}
)
"""Directives about white space and escaping: HTML is escaped here whatever a template says, but for ?no_esc."""
_NO_FILES = frozenset({"import", "include"})


class FreemarkerError(ValueError):
    """Something of FreeMarker that is not understood here; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def to_jinja(text: str) -> str:
    """The template with everything of FreeMarker written as Jinja. Raises FreemarkerError."""
    if not any(sign in text for sign in ("${", "[#", "<#", "[/#", "</#", "[@", "<@")):
        return text
    return "".join(_Translation(text).pieces())


@dataclasses.dataclass(slots=True)
class _Open:
    """A directive that waits for its end, and what is to be written there."""

    name: str
    end: str
    local: int = 0
    """How many names stop being local at its end."""
    loops: int = 0
    cases: list[str] = dataclasses.field(default_factory=list)


class _Translation:
    def __init__(self, text: str) -> None:
        self.text = text
        self.scope = Scope(set(_ASSIGNED.findall(text)))
        self.macros = frozenset(_MACROS.findall(text))
        self.open: list[_Open] = []
        self.makers: dict[str, Callable[[str, int], str]] = {
            "assign": self._assign,
            "break": self._break,
            "case": self._case,
            "continue": lambda _given, at: self._in_loop("{% continue %}", at),
            "default": self._case,
            "else": self._else,
            "elseif": lambda given, at: f"{{% elif {self._expression(given, at)} %}}",
            "global": self._assign,
            "if": self._if,
            "items": self._items,
            "list": self._list,
            "local": self._assign,
            "macro": self._macro,
            "nested": self._nested,
            "sep": self._sep,
            "switch": self._switch,
        }

    def pieces(self) -> Iterator[str]:
        at = 0
        while (found := _PIECE.search(self.text, at)) is not None:
            yield self.text[at : found.start()]
            at, piece = self._piece(found)
            yield piece
        yield self.text[at:]
        if self.open:
            raise self._error(f"there is no [/#{self.open[-1].name}] for a [#{self.open[-1].name}]", len(self.text))

    def _piece(self, found: re.Match[str]) -> tuple[int, str]:
        """The place after what was found, and what it is in Jinja."""
        if found["jinja"]:
            end = self._end_of_jinja(found)
            return end, self.text[found.start() : end]
        if found["comment"]:
            end = self._end_of_comment(found)
            return end, f"{{#{_lines(self.text[found.start() : end])}#}}"
        if found["interpolation"]:
            end = self._end(found.end(), "}")
            inside = self.text[found.end() : end - 1]
            return end, f"{{{{ {self._expression(inside, found.end())}{_lines(inside)} }}}}"
        if found["call"] and (found["macro"] in self.macros or (found["end"] and self._is_open("@"))):
            return self._tag(found, lambda inside: self._call(found, inside))
        if found["directive"] and found["name"] == "noparse" and not found["close"]:
            return self._noparse(found)
        if found["directive"] and _DIRECTIVES.fullmatch(found["name"]):
            return self._tag(
                found, lambda inside: self._directive(found["close"], found["name"], inside, found.start())
            )
        return found.end(), found[0]

    def _tag(self, found: re.Match[str], make: Callable[[str], str]) -> tuple[int, str]:
        end = self._end(found.end(), "]" if found[0][0] == "[" else ">")
        inside = self.text[found.end() : end - 1]
        return end, make(inside) + _lines_tag(inside)

    def _directive(self, close: str, name: str, inside: str, at: int) -> str:
        if name in _DROPPED:
            return ""
        if close:
            return self._closed(name, at)
        if name in _NO_FILES:
            raise self._error(
                f"[#{name}] is not supported: templates here read no files; put the text in place of it", at
            )
        if name not in self.makers:
            raise self._error(f"the directive [#{name}] is not understood here; write it in Jinja", at)
        return self.makers[name](inside.rstrip().removesuffix("/"), at)

    def _closed(self, name: str, at: int) -> str:
        """The end of a directive, and of a [#sep] that it ends as well."""
        before = self._pop().end if name != "sep" and self._is_open("sep") else ""
        if not self._is_open(name) and not (name in {"global", "local"} and self._is_open("assign")):
            raise self._error(f"the directive [/#{name}] is not understood here; write it in Jinja", at)
        return before + self._pop().end

    def _pop(self) -> _Open:
        closed = self.open.pop()
        del self.scope.local[len(self.scope.local) - closed.local :]
        del self.scope.loops[len(self.scope.loops) - closed.loops :]
        return closed

    def _is_open(self, name: str) -> bool:
        return bool(self.open) and self.open[-1].name == name

    def _if(self, inside: str, at: int) -> str:
        self.open.append(_Open("if", "{% endif %}"))
        return f"{{% if {self._expression(inside, at)} %}}"

    def _else(self, _inside: str, at: int) -> str:
        before = self._pop().end if self._is_open("sep") else ""
        if not self.open or self.open[-1].name not in {"if", "list"}:
            raise self._error("an [#else] belongs to an [#if] or a [#list]", at)
        return before + "{% else %}"

    def _list(self, inside: str, at: int) -> str:
        if not re.search(r"\sas\s", inside):
            self.open.append(_Open("list", "{% endif %}"))
            items = self._expression(inside, at)
            name = f"list{len(self.open)}"
            return f"{{% set {NAMESPACE}.{name} = {items} %}}{{% if {NAMESPACE}.{name}|has_content %}}"
        found = re.fullmatch(r"(.+)\sas\s+(\w+)(?:\s*,\s*(\w+))?\s*", inside, re.DOTALL)
        if found is None:
            raise self._error("a list is written [#list items as item] or [#list map as key, value]", at)
        return self._loop("list", self._expression(found[1], at), found[2], found[3])

    def _items(self, inside: str, at: int) -> str:
        found = re.fullmatch(r"\s*as\s+(\w+)(?:\s*,\s*(\w+))?\s*", inside)
        if found is None or not self._is_open("list"):
            raise self._error("[#items as item] stands directly inside of [#list items]", at)
        return self._loop("items", f"{NAMESPACE}.list{len(self.open)}", found[1], found[2])

    def _loop(self, name: str, items: str, key: str, value: str | None) -> str:
        names = [key, *([value] if value else [])]
        self.scope.local += names
        self.scope.loops += names
        self.open.append(_Open(name, "{% endfor %}", len(names), len(names)))
        head = f"{{% for {key}, {value} in ({items})|items %}}" if value else f"{{% for {key} in {items} %}}"
        return head + "".join(f"{{% set {LOOP}{name} = loop %}}" for name in names)

    def _sep(self, _inside: str, at: int) -> str:
        self._in_loop("", at)
        self.open.append(_Open("sep", "{% endif %}"))
        return "{% if not loop.last %}"

    def _break(self, _inside: str, at: int) -> str:
        """Leave a loop; at the end of a case it is what Jinja does anyway."""
        if self._is_open("switch"):
            return ""
        if any(one.name == "switch" for one in self.open):
            raise self._error("inside of [#switch] a [#break] stands at the end of a [#case] only", at)
        return self._in_loop("{% break %}", at)

    def _in_loop(self, text: str, at: int) -> str:
        if not self.scope.loops:
            raise self._error("[#break], [#continue] and [#sep] belong inside of a [#list … as …]", at)
        return text

    def _switch(self, inside: str, at: int) -> str:
        self.open.append(_Open("switch", "{% endif %}"))
        return f"{{% set {NAMESPACE}.switch{len(self.open)} = {self._expression(inside, at)} %}}{{% if false %}}"

    def _case(self, inside: str, at: int) -> str:
        """A case, or the default; one that is followed directly by another shares what that has."""
        if not self._is_open("switch"):
            raise self._error("[#case] and [#default] stand directly inside of [#switch]", at)
        switch = self.open[-1]
        value = inside.strip()
        switch.cases.append(f"{NAMESPACE}.switch{len(self.open)} == {self._expression(value, at)}" if value else "true")
        if _NEXT_CASE.match(self.text, self._end(at + 1, "]" if self.text[at] == "[" else ">")):
            return ""
        condition, switch.cases = " or ".join(switch.cases), []
        return f"{{% elif {condition} %}}"

    def _assign(self, inside: str, at: int) -> str:
        """One or more `name = value`, or a name alone, to which everything up to the end is assigned."""
        if re.fullmatch(r"\s*[A-Za-z]\w*\s*", inside):
            self.open.append(_Open("assign", "{% endset %}"))
            return f"{{% set {NAMESPACE}.v_{inside.strip()} %}}"
        if re.match(r"\s*[A-Za-z]\w*\s*=(?!=)", inside) is None:
            raise self._error('an assignment is written [#assign name = "value" /]', at)
        return "".join(self._set(name, value, at) for name, value in self._pairs(inside, self.scope, at))

    def _set(self, name: str, value: str, at: int) -> str:
        if not name:
            raise self._error('an assignment is written [#assign name = "value" /]', at)
        self.scope.assigned.add(name)
        is_outermost = not any(one.name in {"list", "items", "macro", "@"} for one in self.open)
        # Jinja in the same template may read the name as well.
        plain = f"{{% set {name} = {NAMESPACE}.v_{name} %}}" if is_outermost else ""
        return f"{{% set {NAMESPACE}.v_{name} = {value} %}}{plain}"

    def _macro(self, inside: str, at: int) -> str:
        name, _, rest = inside.strip().partition(" ")
        if name not in self.macros or self.open:
            raise self._error(
                "a macro is written [#macro name parameter other='default'], outside of everything else", at
            )
        parameters = self._parameters(rest, at)
        self.scope.local += [parameter.partition("=")[0] for parameter in parameters]
        self.open.append(_Open("macro", "{% endmacro %}", len(parameters)))
        return f"{{% macro {MACRO}{name}({', '.join(parameters)}) %}}"

    def _parameters(self, text: str, at: int) -> list[str]:
        """Names with or without a default; Jinja wants one for every name that follows one with a default."""
        found: list[str] = []
        for name, value in self._pairs(text, Scope(), at):
            if not name and not re.fullmatch(r"[A-Za-z]\w*", value):
                raise self._error(f"the parameters [{text.strip()[:80]}] are not understood", at)
            needs_default = not name and bool(found) and "=" in found[-1]
            found.append(f"{name}={value}" if name else f"{value}={NAMESPACE}.none" if needs_default else value)
        return found

    def _pairs(self, text: str, scope: Scope, at: int) -> list[tuple[str, str]]:
        try:
            return expressions.translate_each(text, scope)
        except ValueError as error:
            raise self._error(f"[{' '.join(text.split())[:80]}] is not understood: {error}", at) from error

    def _nested(self, inside: str, at: int) -> str:
        if inside.strip() or not any(one.name == "macro" for one in self.open):
            raise self._error("[#nested] belongs inside of a [#macro] and takes nothing", at)
        return "{{ caller() if caller is defined else '' }}"

    def _call(self, found: re.Match[str], inside: str) -> str:
        if found["end"]:
            if not self._is_open("@"):
                raise self._error(f"there is no [@{found['macro']}] that ends here", found.start())
            return self._pop().end
        is_empty = inside.rstrip().endswith("/")
        arguments = self._arguments(inside.rstrip().removesuffix("/"), found.start())
        if is_empty:
            return f"{{{{ {MACRO}{found['macro']}({arguments}) }}}}"
        self.open.append(_Open("@", "{% endcall %}"))
        return f"{{% call {MACRO}{found['macro']}({arguments}) %}}"

    def _arguments(self, text: str, at: int) -> str:
        pairs = self._pairs(text, self.scope, at)
        return ", ".join(f"{name}={value}" if name else value for name, value in pairs)

    def _noparse(self, found: re.Match[str]) -> tuple[int, str]:
        start = self._end(found.end(), "]" if found[0][0] == "[" else ">")
        end = _END_NOPARSE.search(self.text, start)
        if end is None:
            raise self._error("there is no [/#noparse] that ends what begins here", found.start())
        inside = self.text[start : end.start()]
        if "endraw" in inside:
            raise self._error("[#noparse] cannot hold [endraw]", found.start())
        return end.end(), f"{{% raw %}}{inside}{{% endraw %}}"

    def _expression(self, inside: str, at: int) -> str:
        try:
            return expressions.translate(inside, self.scope)
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
        place = expressions.closing(self.text, at, close)
        if place < 0:
            raise self._error(f"there is no [{close}] that ends what begins here", at)
        return place + 1

    def _error(self, message: str, at: int) -> FreemarkerError:
        return FreemarkerError(message, self.text.count("\n", 0, at) + 1)


def _lines(text: str) -> str:
    return "\n" * text.count("\n")


def _lines_tag(text: str) -> str:
    """The line breaks that a directive held, in a comment, so that they are counted and not shown."""
    return f"{{#{_lines(text)}#}}" if "\n" in text else ""
