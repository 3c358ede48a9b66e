"""Translates FreeMarker templates to Jinja, for templates that were written for the published product.

Supported are interpolations, comments, and the directives `if`, `list` (with `items`, `sep`, `break`, `continue`),
`switch`, `assign`, `global`, `local`, `macro`, `nested` and `noparse`, in square or angle brackets. Directives that
control white space or escaping are removed. Other directives, such as `include`, `import` and `function`, are errors:
they must not appear in the output as text. Line numbers are preserved, so that errors refer to the original template.
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

# Matches the beginnings of constructs only: searching for an end from each of them would take quadratic time.
_CONSTRUCT = re.compile(
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

# The names of FreeMarker's directives; other text in brackets, such as `[#1]` or `<#anchor`, is not changed.
_DIRECTIVES = re.compile(
    "assign|attempt|autoesc|break|case|compress|continue|default|else|elseif|escape|fallback|flush|ftl|function|global"
    "|if|import|include|items|list|local|lt|macro|nested|noautoesc|noescape|noparse|nt|outputformat|recover|recurse"
    "|return|rt|sep|setting|stop|switch|t|visit"
)
_REMOVED = frozenset(
    {"autoesc", "compress", "escape", "flush", "ftl", "lt", "noautoesc", "noescape", "nt", "outputformat", "rt"}
    | {"setting", "t"}
)
"""Directives about white space and escaping: HTML is always escaped, except by ?no_esc."""
_ASSIGNMENT_SYNTAX = 'the syntax of an assignment is [#assign name = "value" /]'


class FreemarkerError(ValueError):
    """A FreeMarker construct that is not supported or not valid; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def to_jinja(text: str) -> str:
    """Translate the FreeMarker constructs of a template to Jinja. Raises FreemarkerError."""
    if not any(sign in text for sign in ("${", "[#", "<#", "[/#", "</#", "[@", "<@")):
        return text
    return "".join(_Translator(text).translate())


@dataclasses.dataclass(slots=True)
class _Block:
    """An open directive: the Jinja text of its end, and the number of variables whose scope ends there."""

    name: str
    end: str
    local_count: int = 0
    loop_count: int = 0
    cases: list[str] = dataclasses.field(default_factory=list)


class _Translator:
    def __init__(self, text: str) -> None:
        self.text = text
        self.scope = Scope(set(_ASSIGNED.findall(text)))
        self.macros = frozenset(_MACROS.findall(text))
        self.blocks: list[_Block] = []

    def translate(self) -> Iterator[str]:
        position = 0
        while (match := _CONSTRUCT.search(self.text, position)) is not None:
            yield self.text[position : match.start()]
            position, translation = self._construct(match)
            yield translation
        yield self.text[position:]
        if self.blocks:
            name = self.blocks[-1].name
            raise self._error(f"the [/#{name}] of a [#{name}] is missing", len(self.text))

    def _construct(self, match: re.Match[str]) -> tuple[int, str]:
        """Return the end of a construct and its translation."""
        if match["jinja"]:
            end = self._end_of_jinja(match)
            return end, self.text[match.start() : end]
        if match["comment"]:
            end = self._end_of_comment(match)
            return end, f"{{#{_newlines(self.text[match.start() : end])}#}}"
        if match["interpolation"]:
            end = self._end_of_bracket(match.end(), "}")
            inside = self.text[match.end() : end - 1]
            return end, f"{{{{ {self._expression(inside, match.end())}{_newlines(inside)} }}}}"
        if match["call"] and (match["macro"] in self.macros or (match["end"] and self._is_open("@"))):
            return self._tag(match, self._call)
        if match["directive"] and match["name"] == "noparse" and not match["close"]:
            return self._noparse(match)
        if match["directive"] and _DIRECTIVES.fullmatch(match["name"]):
            return self._tag(match, self._directive)
        return match.end(), match[0]

    def _tag(self, match: re.Match[str], translate: Callable[[re.Match[str], str], str]) -> tuple[int, str]:
        end = self._end_of_bracket(match.end(), "]" if match[0][0] == "[" else ">")
        inside = self.text[match.end() : end - 1]
        translation = translate(match, inside)
        newlines = _newlines(inside)
        return end, translation + (f"{{#{newlines}#}}" if newlines else "")

    def _directive(self, match: re.Match[str], inside: str) -> str:
        name, start = match["name"], match.start()
        if name in _REMOVED:
            return ""
        if match["close"]:
            return self._close_directive(name, start)
        if name in {"import", "include"}:
            raise self._error(
                f"[#{name}] is not supported: templates cannot read files; define macros in the template itself", start
            )
        translate: Callable[[str, int], str] | None = getattr(self, f"_translate_{name}", None)
        if translate is None:
            raise self._unsupported(f"[#{name}]", start)
        return translate(inside.rstrip().removesuffix("/"), start)

    def _unsupported(self, tag: str, start: int) -> FreemarkerError:
        return self._error(f"the directive {tag} is not supported; use Jinja instead", start)

    def _close_directive(self, name: str, start: int) -> str:
        """Close a directive, and a [#sep] that ends with it."""
        end_of_sep = self._close_block() if name != "sep" and self._is_open("sep") else ""
        if not self._is_open(name) and not (name in {"global", "local"} and self._is_open("assign")):
            raise self._unsupported(f"[/#{name}]", start)
        return end_of_sep + self._close_block()

    def _close_block(self) -> str:
        block = self.blocks.pop()
        del self.scope.local[len(self.scope.local) - block.local_count :]
        del self.scope.loops[len(self.scope.loops) - block.loop_count :]
        return block.end

    def _is_open(self, name: str) -> bool:
        return bool(self.blocks) and self.blocks[-1].name == name

    def _translate_if(self, inside: str, start: int) -> str:
        self.blocks.append(_Block("if", "{% endif %}"))
        return f"{{% if {self._expression(inside, start)} %}}"

    def _translate_elseif(self, inside: str, start: int) -> str:
        return f"{{% elif {self._expression(inside, start)} %}}"

    def _translate_else(self, _inside: str, start: int) -> str:
        end_of_sep = self._close_block() if self._is_open("sep") else ""
        if not self._is_open("if") and not self._is_open("list"):
            raise self._error("[#else] is only valid in [#if] and [#list]", start)
        return end_of_sep + "{% else %}"

    def _translate_list(self, inside: str, start: int) -> str:
        if not re.search(r"\sas\s", inside):
            self.blocks.append(_Block("list", "{% endif %}"))
            items = self._expression(inside, start)
            variable = f"{NAMESPACE}.list{len(self.blocks)}"
            return f"{{% set {variable} = {items} %}}{{% if {variable}|has_content %}}"
        match = re.fullmatch(r"(.+)\sas\s+(\w+)(?:\s*,\s*(\w+))?\s*", inside, re.DOTALL)
        if match is None:
            raise self._error("the syntax of a list is [#list items as item] or [#list map as key, value]", start)
        return self._loop("list", self._expression(match[1], start), match[2], match[3])

    def _translate_items(self, inside: str, start: int) -> str:
        match = re.fullmatch(r"\s*as\s+(\w+)(?:\s*,\s*(\w+))?\s*", inside)
        if match is None or not self._is_open("list"):
            raise self._error("[#items as item] is only valid directly in [#list items]", start)
        return self._loop("items", f"{NAMESPACE}.list{len(self.blocks)}", match[1], match[2])

    def _loop(self, directive: str, items: str, key: str, value: str | None) -> str:
        names = [key, value] if value else [key]
        self.scope.local += names
        self.scope.loops += names
        self.blocks.append(_Block(directive, "{% endfor %}", len(names), len(names)))
        head = f"{{% for {key}, {value} in ({items})|items %}}" if value else f"{{% for {key} in {items} %}}"
        return head + "".join(f"{{% set {LOOP}{name} = loop %}}" for name in names)

    def _translate_sep(self, _inside: str, start: int) -> str:
        self._require_loop(start)
        self.blocks.append(_Block("sep", "{% endif %}"))
        return "{% if not loop.last %}"

    def _translate_continue(self, _inside: str, start: int) -> str:
        self._require_loop(start)
        return "{% continue %}"

    def _translate_break(self, _inside: str, start: int) -> str:
        """Leave a loop; at the end of a case, Jinja needs no statement."""
        if self._is_open("switch"):
            return ""
        if any(block.name == "switch" for block in self.blocks):
            raise self._error("in [#switch], [#break] is only valid at the end of a [#case]", start)
        self._require_loop(start)
        return "{% break %}"

    def _require_loop(self, start: int) -> None:
        if not self.scope.loops:
            raise self._error("[#break], [#continue] and [#sep] are only valid in [#list … as …]", start)

    def _translate_switch(self, inside: str, start: int) -> str:
        self.blocks.append(_Block("switch", "{% endif %}"))
        variable = f"{NAMESPACE}.switch{len(self.blocks)}"
        return f"{{% set {variable} = {self._expression(inside, start)} %}}{{% if false %}}"

    def _translate_case(self, inside: str, start: int) -> str:
        """Translate a case or the default; adjacent cases share the body of the last of them."""
        if not self._is_open("switch"):
            raise self._error("[#case] and [#default] are only valid directly in [#switch]", start)
        switch = self.blocks[-1]
        variable, value = f"{NAMESPACE}.switch{len(self.blocks)}", inside.strip()
        switch.cases.append(f"{variable} == {self._expression(value, start)}" if value else "true")
        end = self._end_of_bracket(start + 1, "]" if self.text[start] == "[" else ">")
        if _NEXT_CASE.match(self.text, end):
            return ""
        condition, switch.cases = " or ".join(switch.cases), []
        return f"{{% elif {condition} %}}"

    _translate_default = _translate_case

    def _translate_assign(self, inside: str, start: int) -> str:
        """Translate one or more `name = value`, or a name alone, which captures the text up to the end tag."""
        if re.fullmatch(r"\s*[A-Za-z]\w*\s*", inside):
            self.blocks.append(_Block("assign", "{% endset %}"))
            return f"{{% set {NAMESPACE}.v_{inside.strip()} %}}"
        if re.match(r"\s*[A-Za-z]\w*\s*=(?!=)", inside) is None:
            raise self._error(_ASSIGNMENT_SYNTAX, start)
        return "".join(self._set(name, value, start) for name, value in self._pairs(inside, self.scope, start))

    _translate_global = _translate_assign
    _translate_local = _translate_assign

    def _set(self, name: str, value: str, start: int) -> str:
        if not name:
            raise self._error(_ASSIGNMENT_SYNTAX, start)
        self.scope.assigned.add(name)
        is_top_level = not any(block.name in {"list", "items", "macro", "@"} for block in self.blocks)
        # Jinja expressions in the same template can read the variable as well.
        jinja_variable = f"{{% set {name} = {NAMESPACE}.v_{name} %}}" if is_top_level else ""
        return f"{{% set {NAMESPACE}.v_{name} = {value} %}}{jinja_variable}"

    def _translate_macro(self, inside: str, start: int) -> str:
        name, _, rest = inside.strip().partition(" ")
        if name not in self.macros or self.blocks:
            raise self._error("the syntax of a macro is [#macro name parameter other='default'], at top level", start)
        parameters = self._parameters(rest, start)
        self.scope.local += [parameter.partition("=")[0] for parameter in parameters]
        self.blocks.append(_Block("macro", "{% endmacro %}", len(parameters)))
        return f"{{% macro {MACRO}{name}({', '.join(parameters)}) %}}"

    def _parameters(self, text: str, start: int) -> list[str]:
        """Translate parameters; Jinja requires a default for each parameter after one with a default."""
        parameters: list[str] = []
        for name, value in self._pairs(text, Scope(), start):
            if not name and not re.fullmatch(r"[A-Za-z]\w*", value):
                raise self._error(f"the parameters [{text.strip()[:80]}] are invalid", start)
            needs_default = bool(parameters) and "=" in parameters[-1]
            default = f"={NAMESPACE}.none" if needs_default else ""
            parameters.append(f"{name}={value}" if name else f"{value}{default}")
        return parameters

    def _translate_nested(self, inside: str, start: int) -> str:
        if inside.strip() or not any(block.name == "macro" for block in self.blocks):
            raise self._error("[#nested] is only valid in [#macro], without arguments", start)
        return "{{ caller() if caller is defined else '' }}"

    def _call(self, match: re.Match[str], inside: str) -> str:
        if match["end"]:
            if not self._is_open("@"):
                raise self._error(f"there is no [@{match['macro']}] to close", match.start())
            return self._close_block()
        has_body = not inside.rstrip().endswith("/")
        pairs = self._pairs(inside.rstrip().removesuffix("/"), self.scope, match.start())
        arguments = ", ".join(f"{name}={value}" if name else value for name, value in pairs)
        call = f"{MACRO}{match['macro']}({arguments})"
        if not has_body:
            return f"{{{{ {call} }}}}"
        self.blocks.append(_Block("@", "{% endcall %}"))
        return f"{{% call {call} %}}"

    def _noparse(self, match: re.Match[str]) -> tuple[int, str]:
        start = self._end_of_bracket(match.end(), "]" if match[0][0] == "[" else ">")
        end = _END_NOPARSE.search(self.text, start)
        if end is None:
            raise self._missing("[/#noparse]", match.start())
        inside = self.text[start : end.start()]
        if "endraw" in inside:
            raise self._error("[#noparse] cannot contain [endraw]", match.start())
        return end.end(), f"{{% raw %}}{inside}{{% endraw %}}"

    def _expression(self, inside: str, start: int) -> str:
        try:
            return expressions.translate(inside, self.scope)
        except ValueError as error:
            raise self._invalid(inside, error, start) from error

    def _pairs(self, text: str, scope: Scope, start: int) -> list[tuple[str, str]]:
        try:
            return expressions.translate_arguments(text, scope)
        except ValueError as error:
            raise self._invalid(text, error, start) from error

    def _end_of_jinja(self, match: re.Match[str]) -> int:
        """Return the end of a Jinja construct; without one, the end of the text, for which Jinja raises the error."""
        raw = _RAW.match(self.text, match.start())
        if raw is not None:
            end = _END_RAW.search(self.text, raw.end())
            return len(self.text) if end is None else end.end()
        position = self.text.find(_ENDS[match[0]], match.end())
        return len(self.text) if position < 0 else position + 2

    def _end_of_comment(self, match: re.Match[str]) -> int:
        end = _ENDS[match[0]]
        position = self.text.find(end, match.end())
        if position < 0:
            raise self._missing(f"[{end}]", match.start())
        return position + len(end)

    def _end_of_bracket(self, start: int, close: str) -> int:
        """Return the position after the closing bracket; skips quotes and nested brackets."""
        position = expressions.find_closing(self.text, start, close)
        if position < 0:
            raise self._missing(f"[{close}]", start)
        return position + 1

    def _missing(self, end: str, start: int) -> FreemarkerError:
        return self._error(f"the closing {end} is missing", start)

    def _invalid(self, text: str, error: ValueError, start: int) -> FreemarkerError:
        return self._error(f"[{' '.join(text.split())[:80]}] is invalid: {error}", start)

    def _error(self, message: str, position: int) -> FreemarkerError:
        return FreemarkerError(message, self.text.count("\n", 0, position) + 1)


def _newlines(text: str) -> str:
    return "\n" * text.count("\n")
