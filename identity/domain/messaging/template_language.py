"""The language of mail and message templates: sandboxed Jinja, and FreeMarker translated to it.

The cost of a template is limited by a budget (template_budget.py), which loops, filters, operators and output are
charged to. Objects have members and no methods; constructs that are not part of the language (includes, calls) are
refused at parsing.
"""

from __future__ import annotations

import functools
import math
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import nodes, utils
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from identity.domain.messaging import freemarker, freemarker_builtins
from identity.domain.messaging.freemarker_expressions import NAMESPACE
from identity.domain.messaging.template_budget import Budget, ParseError, RenderError, charge, current_budget
from identity.domain.messaging.template_filters import FILTER_NAMES, FILTERS, TESTS, concatenate, finalize, metered
from identity.domain.messaging.template_metering import GLOBALS, MeteringTransformer

NOW = ".now"
"""The value that FreeMarker reads as `.now`: milliseconds since 1970."""
MAX_TEMPLATE_CHARACTERS = 262_144
"""Ten times the size of a mail with its style sheet."""
_MAX_NUMBER = 2**63


class Missing(jinja2.StrictUndefined):
    """An absent value: conditions and member access are permitted, output is an error."""

    def __bool__(self) -> bool:  # type: ignore[override]  # StrictUndefined raises
        return False


class Placeholder(jinja2.ChainableUndefined):
    """A value that is unknown in a preview; its output is its own name."""

    def __str__(self) -> str:
        return f"${{{self._undefined_name}}}"

    def __html__(self) -> str:
        return str(self)


class _Variables(utils.Namespace):
    """The variables that a template assigns."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class _Environment(ImmutableSandboxedEnvironment):
    """Members instead of attributes, and charged operators."""

    intercepted_binops = frozenset({"//", "%", "+", "*", "-", "/", "**"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext):
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        charge()
        if isinstance(obj, jinja2.Undefined):
            return self.undefined(name=f"{obj._undefined_name}.{argument}")  # noqa: SLF001 (no public accessor)
        if isinstance(obj, utils.Namespace):
            return self._assigned(obj, str(argument))
        if isinstance(obj, str | list | tuple | dict):
            try:
                return obj[argument]
            except (LookupError, TypeError):
                return self.undefined(name=str(argument)[:100])
        return self.undefined(name=str(argument)[:100])

    def _assigned(self, namespace: utils.Namespace, name: str) -> Any:
        """A variable that the template assigned."""
        try:
            return self.undefined(name=name[:100]) if name.startswith("_") else getattr(namespace, name)
        except AttributeError:
            return self.undefined(name=name.removeprefix("v_")[:100])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        left, right = _operand(left), _operand(right)
        if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
            return concatenate(left, right)
        charge()
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise RenderError(f"the operator {operator} is for numbers")
        result = super().call_binop(context, operator, left, right)
        if abs(result) > _MAX_NUMBER:
            raise RenderError("a number is too large")
        return result


def _operand(value: Any) -> Any:
    """An operand; an absent value raises, and a placeholder is text."""
    if isinstance(value, jinja2.Undefined):
        return str(value)
    return value


def _keeping_placeholders(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of FreeMarker that returns the placeholders of a preview unchanged."""

    @functools.wraps(function)
    def run(value: Any, *arguments: Any) -> Any:
        return value if isinstance(value, Placeholder) else function(value, *arguments)

    return run


@functools.cache
def _environment(*, html: bool, preview: bool) -> _Environment:
    environment = _Environment(
        autoescape=html,
        undefined=Placeholder if preview else Missing,
        optimized=False,  # constant folding would run operators unmetered
        finalize=finalize,
        keep_trailing_newline=True,
        cache_size=0,
        extensions=["jinja2.ext.loopcontrols"],
    )
    builtins = {name: _keeping_placeholders(function) for name, function in freemarker_builtins.FILTERS.items()}
    environment.filters = {name: metered(function) for name, function in {**FILTERS, **builtins}.items()}
    environment.filters["literal"] = Markup if html else str
    environment.tests = {name: environment.tests[name] for name in TESTS}
    environment.globals = dict(GLOBALS)
    return environment


def check(text: str) -> None:
    """Raise ParseError if the text is not a valid template."""
    _compile(text, html=True, preview=False)


def render(text: str, values: Mapping[str, Any], *, html: bool, preview: bool = False) -> str:
    """Render a template with the given values. Raises ParseError and RenderError."""
    template = _compile(text, html=html, preview=True) if preview else _cached_template(text, html=html)
    budget = Budget()
    token = current_budget.set(budget)
    try:
        assigned = _Variables(now=values[NOW]) if NOW in values else _Variables()
        return "".join(budget.metered(template.generate({**values, NAMESPACE: assigned})))
    except RenderError as error:
        raise RenderError(error.message, _line_of(error)) from error
    except jinja2.TemplateError as error:
        raise RenderError(error.message or "the template cannot be rendered", _line_of(error)) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, MemoryError) as error:
        raise RenderError(str(error)[:300] or type(error).__name__, _line_of(error)) from error
    finally:
        current_budget.reset(token)


def _line_of(error: BaseException) -> int:
    """The line of the template that raised an error, from the traceback, or 0."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if _is_template(frame)]
    return lines[-1] if lines else 0


def _is_template(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename == "<template>"


@functools.lru_cache(maxsize=32)
def _cached_template(text: str, *, html: bool) -> jinja2.Template:
    """Compile a template, cached: most mails use the same few templates."""
    return _compile(text, html=html, preview=False)


def _compile(text: str, *, html: bool, preview: bool) -> jinja2.Template:
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise ParseError("the template is too long")
    environment = _environment(html=html, preview=preview)
    try:
        tree = environment.parse(freemarker.to_jinja(text))
        validate(tree)
        return environment.from_string(MeteringTransformer().visit(tree))
    except freemarker.FreemarkerError as error:
        raise ParseError(error.message, error.line) from error
    except jinja2.TemplateSyntaxError as error:
        raise ParseError(error.message or "not a template", error.lineno) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError("the template is nested too deeply, or holds a value that cannot be read") from error


MAX_NODES = 10_000

_UNSUPPORTED = {
    nodes.Block: "block",
    nodes.Extends: "extends",
    nodes.FilterBlock: "a filter block",
    nodes.FromImport: "import",
    nodes.Import: "import",
    nodes.Include: "include",
    nodes.ScopedEvalContextModifier: "autoescape",
    nodes.EvalContextModifier: "autoescape",
    nodes.Pow: "**",
    nodes.Slice: "a slice",
}

_TRANSLATIONS_ONLY: Mapping[type[nodes.Node], str] = {
    nodes.AssignBlock: "a set block",
    nodes.CallBlock: "call",
    nodes.Macro: "macro",
    nodes.NSRef: "namespace",
}
"""Constructs that only translations of FreeMarker may contain, under reserved names."""


def validate(tree: nodes.Template) -> None:
    """Raise ParseError for constructs that are not part of the language, and for trees that are too large."""
    _validate_jumps(tree)
    count, pending = 0, list(tree.iter_child_nodes())
    while pending:
        node = pending.pop()
        pending.extend(node.iter_child_nodes())
        count += 1
        if count > MAX_NODES:
            raise ParseError("the template has too many parts")
        _validate_node(node)


def _validate_jumps(tree: nodes.Template) -> None:
    """Raise ParseError for a break or continue outside a loop."""
    jumps = (nodes.Break, nodes.Continue)
    inside = {id(jump) for loop in tree.find_all(nodes.For) for jump in loop.find_all(jumps)}
    for jump in tree.find_all(jumps):
        if id(jump) not in inside:
            raise ParseError("[break] and [continue] belong inside a loop", jump.lineno)


def _validate_translated(node: nodes.Node) -> None:
    """Raise ParseError for constructs that only translations of FreeMarker may contain."""
    name = _TRANSLATIONS_ONLY.get(type(node))
    if name is not None and not _is_translated(node):
        raise ParseError(f"[{name}] is not part of the language of templates", node.lineno)


def _is_translated(node: nodes.Node) -> bool:
    if isinstance(node, nodes.AssignBlock):
        return isinstance(node.target, nodes.NSRef)
    if isinstance(node, nodes.CallBlock):
        return _is_macro(node.call.node)
    if isinstance(node, nodes.Macro):
        return node.name.startswith(freemarker.MACRO)
    return isinstance(node, nodes.NSRef) and node.name == NAMESPACE


def _is_macro(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Name) and node.name.startswith(freemarker.MACRO)


def _may_be_called(node: nodes.Expr) -> bool:
    return _is_macro(node) or (isinstance(node, nodes.Name) and node.name in {"range", "caller"})


def _validate_node(node: nodes.Node) -> None:
    _validate_translated(node)
    for kind, name in _UNSUPPORTED.items():
        if isinstance(node, kind):
            raise ParseError(f"[{name}] is not part of the language of templates", node.lineno)
    if isinstance(node, nodes.Call) and not _may_be_called(node.node):
        raise ParseError("nothing but range can be called", node.lineno)
    if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
        # Jinja would compile infinity to an undefined name.
        raise ParseError("a number is too large", node.lineno)
    if isinstance(node, nodes.For) and node.recursive:
        raise ParseError("[recursive] is not part of the language of templates", node.lineno)
    if isinstance(node, nodes.Name) and node.name.startswith("__"):
        raise ParseError(f"[{node.name}] is no name for a value", node.lineno)
    if isinstance(node, nodes.List | nodes.Dict | nodes.Pair | nodes.Tuple) and not is_plain(node):
        # A list built from values could multiply its size with each use.
        raise ParseError("a list or map that is written out may hold only texts and numbers", node.lineno)
    if isinstance(node, nodes.Filter) and node.name not in FILTER_NAMES:
        raise ParseError(f"there is no filter [{node.name}]", node.lineno)
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        raise ParseError(f"there is no test [{node.name}]", node.lineno)


def is_plain(node: nodes.Node) -> bool:
    """Whether a list, map or tuple is written out of constants alone."""
    if isinstance(node, nodes.Tuple) and node.ctx == "store":
        return True
    plain = (nodes.Const, nodes.List, nodes.Dict, nodes.Pair, nodes.Tuple, nodes.Neg)
    return all(isinstance(child, plain) for child in node.iter_child_nodes())
