"""The language of email templates: Jinja without anything that could run away or look inside of Python.

There is no clock in here: what a template may cost is counted, in steps and in letters, so that the same template
always ends the same way. Every loop, filter, operator and output pays; objects have members and no methods; what the
language leaves out (macros, includes, calls) is refused when a template is read.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import json
import math
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import jinja2
from jinja2 import filters, nodes, utils
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from identity.domain.messaging import freemarker, freemarker_builtins
from identity.domain.messaging.freemarker_builtins import Moment
from identity.domain.messaging.freemarker_expressions import NAMESPACE

NOW = ".now"
"""The value that FreeMarker reads as `.now`: milliseconds since 1970."""
MAXIMUM_TEMPLATE = 262_144
"""Letters of one template: a mail with its style sheet has a tenth of that."""
MAXIMUM_OUTPUT = 524_288
MAXIMUM_STEPS = 100_000
MAXIMUM_NODES = 10_000
MAXIMUM_RANGE = 10_000
_LETTERS_PER_STEP = 256
_MAXIMUM_NUMBER = 2**63

_REFUSED = {
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

_TRANSLATED: Mapping[type[nodes.Node], str] = {
    nodes.AssignBlock: "a set block",
    nodes.CallBlock: "call",
    nodes.Macro: "macro",
    nodes.NSRef: "namespace",
}
"""What only translations of FreeMarker may hold, with names of their own."""


class TemplateError(ValueError):
    """A template that cannot be read or rendered; `line` is 0 where it is not known."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = f"Line {line}: {message}" if line else message
        self.line = line


class ParseError(TemplateError):
    """The text is no template."""


class RenderError(TemplateError):
    """The template cannot be rendered with these values."""


@dataclasses.dataclass(slots=True)
class _Budget:
    steps: int
    letters: int

    def pay(self, letters: int = 0) -> None:
        self.steps -= 1 + letters // _LETTERS_PER_STEP
        if self.steps < 0:
            raise RenderError("the template does too much")

    def write(self, letters: int) -> None:
        self.letters -= letters
        if self.letters < 0:
            raise RenderError("the result is too long")


_budget: contextvars.ContextVar[_Budget] = contextvars.ContextVar("template_budget")


class Missing(jinja2.StrictUndefined):
    """A value that is not there: may be asked for, and for its members; may not be shown."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the strict one raises: here a condition may ask
        return False


class Placeholder(jinja2.ChainableUndefined):
    """A value that is not known yet, shown as what will stand there: for previews."""

    def __str__(self) -> str:
        return f"${{{self._undefined_name}}}"

    def __html__(self) -> str:
        return str(self)


class _Assigned(utils.Namespace):
    """What a template assigns; Jinja wants a namespace for it."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class _Environment(ImmutableSandboxedEnvironment):
    """Members instead of attributes, and a price for every operator."""

    intercepted_binops = frozenset({"//", "%", "+", "*", "-", "/", "**"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext):
            return super().getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        _budget.get().pay()
        if isinstance(obj, jinja2.Undefined):
            return self.undefined(name=f"{obj._undefined_name}.{argument}")  # noqa: SLF001 (its own kind)
        if isinstance(obj, utils.Namespace):
            return self._assigned(obj, str(argument))
        if isinstance(obj, str | list | tuple | dict):
            try:
                return obj[argument]
            except (LookupError, TypeError):
                return self.undefined(name=str(argument)[:100])
        return self.undefined(name=str(argument)[:100])

    def _assigned(self, namespace: utils.Namespace, name: str) -> Any:
        """What a template assigned, by its name."""
        try:
            return self.undefined(name=name[:100]) if name.startswith("_") else getattr(namespace, name)
        except AttributeError:
            return self.undefined(name=name.removeprefix("v_")[:100])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        left, right = _shown_value(left), _shown_value(right)
        if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
            return _joined(left, right)
        _budget.get().pay()
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise RenderError(f"the operator {operator} is for numbers")
        result = super().call_binop(context, operator, left, right)
        if abs(result) > _MAXIMUM_NUMBER:
            raise RenderError("a number is too large")
        return result


def _shown_value(value: Any) -> Any:
    """A value to work with; one that is not there says so, and a placeholder is a text like any other."""
    if isinstance(value, jinja2.Undefined):
        return str(value)
    return value


def _joined(*values: Any) -> Any:
    """Texts put together; where one of them is HTML already, the others are escaped."""
    budget = _budget.get()
    parts: list[Any] = [value if isinstance(value, str) else str(_finalized(value)) for value in values]
    length = sum(map(len, parts))
    budget.pay(length)
    if length > MAXIMUM_OUTPUT:
        raise RenderError("a text is too long")
    if any(isinstance(part, Markup) for part in parts):
        return Markup("").join(parts)
    return "".join(parts)


def _finalized(value: Any) -> Any:
    """What is written for a value: nothing for nothing, JSON for what is no text and no number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Moment):
        return str(value)
    if not isinstance(value, str | int | float | jinja2.Undefined):
        raise RenderError("this cannot be shown")
    return value


def _finalize(value: Any) -> Any:
    result = _finalized(value)
    _budget.get().pay(len(result) if isinstance(result, str) else 0)
    return result


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:  # noqa: FBT002 (as Jinja has it)
    if isinstance(value, jinja2.Undefined) or value is None or (boolean and not value):
        return default
    return value


def _replace(value: Any, old: str, new: str) -> Any:
    text, old, new = str(value), str(old), str(new)
    if not old or len(text) + text.count(old) * len(new) > MAXIMUM_OUTPUT:
        raise RenderError("a text is too long")
    _budget.get().pay(len(text))
    return text.replace(old, new)


def _join(value: Any, separator: str = "") -> Any:
    items = list(value)
    parts: list[Any] = []
    for index, item in enumerate(items):
        parts += [separator, item] if index else [item]
    return _joined(*parts)


def _is_there(value: Any) -> bool:
    return not isinstance(value, jinja2.Undefined) and value is not None


def _has_content(value: Any) -> bool:
    return _is_there(value) and value not in ("", [], {})


def _cap_first(value: Any) -> str:
    text = str(value)
    return text[:1].upper() + text[1:]


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif not isinstance(value, jinja2.Undefined):
        raise RenderError("only a map has items")


def _truncate(value: Any, length: int = 255, end: str = "...") -> str:
    text = str(value)
    return text if len(text) <= length else text[: max(0, length - len(end))] + end


_FILTERS: dict[str, Callable[..., Any]] = {
    "cap_first": _cap_first,
    "capitalize": lambda value: str(value).capitalize(),
    "d": _default,
    "default": _default,
    "e": filters.FILTERS["escape"],
    "escape": filters.FILTERS["escape"],
    "first": lambda value: next(iter(value), ""),
    "has_content": _has_content,
    "int": filters.FILTERS["int"],
    "is_there": _is_there,
    "items": _items,
    "join": _join,
    "last": lambda value: value[-1] if value else "",
    "length": len,
    "lower": lambda value: str(value).lower(),
    "replace": _replace,
    "safe": filters.FILTERS["safe"],
    "sort": sorted,
    "string": lambda value: str(_finalized(value)),
    "title": lambda value: str(value).title(),
    "tojson": utils.htmlsafe_json_dumps,
    "trim": lambda value: str(value).strip(),
    "truncate": _truncate,
    "upper": lambda value: str(value).upper(),
    "urlencode": filters.FILTERS["urlencode"],
}
_FILTER_NAMES = frozenset({*_FILTERS, *freemarker_builtins.FILTERS, "literal"})
_TESTS = (
    "boolean", "defined", "divisibleby", "even", "false", "float", "integer", "iterable", "mapping", "none", "number",
    "odd", "sequence", "string", "true", "undefined",
)  # fmt: skip
_NODES_PER_STEP = 10


def _priced(of: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays for what it takes and gives."""

    @functools.wraps(of)
    def run(value: Any, *arguments: Any, **named: Any) -> Any:
        budget = _budget.get()
        budget.pay(len(value) if isinstance(value, str | list | dict) else 0)
        result = of(value, *arguments, **named)
        budget.pay(len(result) if isinstance(result, str | list) else 0)
        if isinstance(result, str) and len(result) > MAXIMUM_OUTPUT:
            raise RenderError("a text is too long")
        return result

    return run


def _for_previews(of: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of FreeMarker, to which the placeholder of a preview is a placeholder still."""

    @functools.wraps(of)
    def run(value: Any, *arguments: Any) -> Any:
        return value if isinstance(value, Placeholder) else of(value, *arguments)

    return run


def _paid(letters: int) -> str:
    """Nothing, at the price of this many letters, for text that is written into a buffer."""
    _budget.get().pay(letters)
    return ""


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAXIMUM_RANGE:
        raise RenderError("a range is too long")
    return found


def _ticked(items: Any, steps: int) -> Iterator[Any]:
    """The items of a loop, each of which costs as much as there is to do with it."""
    for item in items:
        _budget.get().pay(steps * _LETTERS_PER_STEP)
        yield item


def _weighed(value: Any) -> Any:
    """Something that is compared: texts pay by their length, and what has parts is not compared at all."""
    if isinstance(value, dict | list | tuple):
        raise RenderError("only texts, numbers and the like can be compared")
    _budget.get().pay(len(value) if isinstance(value, str) else 0)
    return value


def _searched(value: Any) -> Any:
    """Something that is searched: it pays by its length."""
    _budget.get().pay(len(value) * _LETTERS_PER_STEP if isinstance(value, dict | list | tuple) else 0)
    return value if isinstance(value, dict | list | tuple) else _weighed(value)


@functools.cache
def _environment(*, html: bool, preview: bool) -> _Environment:
    environment = _Environment(
        autoescape=html,
        undefined=Placeholder if preview else Missing,
        optimized=False,  # or constants would be worked out while reading, at no price
        finalize=_finalize,
        keep_trailing_newline=True,
        cache_size=0,
        extensions=["jinja2.ext.loopcontrols"],
    )
    of_freemarker = {name: _for_previews(of) for name, of in freemarker_builtins.FILTERS.items()}
    environment.filters = {name: _priced(of) for name, of in {**_FILTERS, **of_freemarker}.items()}
    environment.filters["literal"] = Markup if html else str
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {"range": _range, "__ticked": _ticked, "__weighed": _weighed, "__searched": _searched}
    environment.globals["__paid"] = _paid
    return environment


def check(text: str) -> None:
    """Raise ParseError when the text is no template."""
    _compile(text, html=True, preview=False)


def render(text: str, values: Mapping[str, Any], *, html: bool, preview: bool = False) -> str:
    """The text with the values put in. Raises ParseError and RenderError."""
    template = _compile(text, html=html, preview=True) if preview else _remembered(text, html=html)
    budget = _Budget(MAXIMUM_STEPS, MAXIMUM_OUTPUT)
    token = _budget.set(budget)
    try:
        assigned = _Assigned(now=values[NOW]) if NOW in values else _Assigned()
        return "".join(_written(template.generate({**values, NAMESPACE: assigned}), budget))
    except RenderError as error:
        raise RenderError(error.message, _line_of(error)) from error
    except jinja2.TemplateError as error:
        raise RenderError(error.message or "the template cannot be rendered", _line_of(error)) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, MemoryError) as error:
        raise RenderError(str(error)[:300] or type(error).__name__, _line_of(error)) from error
    finally:
        _budget.reset(token)


def _line_of(error: BaseException) -> int:
    """The line of the template at which an error arose, or 0: Jinja puts it into the traceback."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if _is_template(frame)]
    return lines[-1] if lines else 0


def _is_template(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename == "<template>"


def _written(chunks: Iterator[str], budget: _Budget) -> Iterator[str]:
    for chunk in chunks:
        budget.pay()
        budget.write(len(chunk))
        yield chunk


@functools.lru_cache(maxsize=32)
def _remembered(text: str, *, html: bool) -> jinja2.Template:
    """A compiled template: the same one is sent again and again."""
    return _compile(text, html=html, preview=False)


def _compile(text: str, *, html: bool, preview: bool) -> jinja2.Template:
    if len(text) > MAXIMUM_TEMPLATE:
        raise ParseError("the template is too long")
    environment = _environment(html=html, preview=preview)
    try:
        tree = environment.parse(freemarker.to_jinja(text))
        _judge(tree)
        return environment.from_string(_Pricing().visit(tree))
    except freemarker.FreemarkerError as error:
        raise ParseError(error.message, error.line) from error
    except jinja2.TemplateSyntaxError as error:
        raise ParseError(error.message or "not a template", error.lineno) from error
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        if isinstance(error, ParseError):
            raise
        raise ParseError("the template is nested too deeply, or holds a value that cannot be read") from error


def _judge(tree: nodes.Template) -> None:
    """Raise ParseError for what the language leaves out."""
    _judge_jumps(tree)
    count, waiting = 0, list(tree.iter_child_nodes())
    while waiting:
        node = waiting.pop()
        waiting.extend(node.iter_child_nodes())
        count += 1
        if count > MAXIMUM_NODES:
            raise ParseError("the template has too many parts")
        _judge_node(node)


def _judge_jumps(tree: nodes.Template) -> None:
    """Raise ParseError for a break or continue outside of a loop."""
    jumps = (nodes.Break, nodes.Continue)
    inside = {id(jump) for loop in tree.find_all(nodes.For) for jump in loop.find_all(jumps)}
    for jump in tree.find_all(jumps):
        if id(jump) not in inside:
            raise ParseError("[break] and [continue] belong inside of a loop", jump.lineno)


def _judge_translated(node: nodes.Node) -> None:
    """Raise ParseError for what only a translation of FreeMarker may hold, under names of its own."""
    name = _TRANSLATED.get(type(node))
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


def _judge_node(node: nodes.Node) -> None:
    _judge_translated(node)
    for kind, name in _REFUSED.items():
        if isinstance(node, kind):
            raise ParseError(f"[{name}] is not part of the language of templates", node.lineno)
    if isinstance(node, nodes.Call) and not _may_be_called(node.node):
        raise ParseError("nothing but range can be called", node.lineno)
    if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
        # Jinja would write it down as a name that nothing goes by.
        raise ParseError("a number is too large", node.lineno)
    if isinstance(node, nodes.For) and node.recursive:
        raise ParseError("[recursive] is not part of the language of templates", node.lineno)
    if isinstance(node, nodes.Name) and node.name.startswith("__"):
        raise ParseError(f"[{node.name}] is no name for a value", node.lineno)
    if isinstance(node, nodes.List | nodes.Dict | nodes.Pair | nodes.Tuple) and not _is_plain(node):
        # What is put together from values could hold itself a thousandfold.
        raise ParseError("a list or map that is written out may hold only texts and numbers", node.lineno)
    if isinstance(node, nodes.Filter) and node.name not in _FILTER_NAMES:
        raise ParseError(f"there is no filter [{node.name}]", node.lineno)
    if isinstance(node, nodes.Test) and node.name not in _TESTS:
        raise ParseError(f"there is no test [{node.name}]", node.lineno)


def _is_plain(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Tuple) and node.ctx == "store":
        return True
    plain = (nodes.Const, nodes.List, nodes.Dict, nodes.Pair, nodes.Tuple, nodes.Neg)
    return all(isinstance(child, plain) for child in node.iter_child_nodes())


class _Pricing(jinja2.visitor.NodeTransformer):
    """Makes loops, joins and comparisons pay."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (named by Jinja)
        parts = sum(1 for part in node.body for _ in part.find_all(nodes.Node))
        self.generic_visit(node)
        items = cast("nodes.Expr", node.iter)
        node.iter = _called("__ticked", items, nodes.Const(parts // _NODES_PER_STEP))
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.AssignBlock:  # noqa: N802 (named by Jinja)
        self._price_buffered(node)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802 (named by Jinja)
        self._price_buffered(node)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802 (named by Jinja)
        self._price_buffered(node)
        start: nodes.Node = nodes.Output([_called("__paid", nodes.Const(0, lineno=node.lineno))])
        node.body.insert(0, start.set_lineno(node.lineno))
        return node

    def _price_buffered(self, node: nodes.Node) -> None:
        """Make plain text pay as well: it is written into a buffer, before anything counts the output."""
        self.generic_visit(node)
        for output in node.find_all(nodes.Output):
            letters = sum(len(part.data) for part in output.nodes if isinstance(part, nodes.TemplateData))
            output.nodes.insert(0, _called("__paid", nodes.Const(letters, lineno=output.lineno)))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (named by Jinja)
        self.generic_visit(node)
        joined: nodes.Expr = nodes.Const("")
        for part in node.nodes:
            joined = nodes.Add(joined, part)
        return joined.set_lineno(node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802 (named by Jinja)
        self.generic_visit(node)
        node.expr = _called("__weighed", node.expr)
        for operand in node.ops:
            operand.expr = _called("__searched" if operand.op in {"in", "notin"} else "__weighed", operand.expr)
        return node


def _called(name: str, *arguments: nodes.Expr) -> nodes.Call:
    made = nodes.Call(nodes.Name(name, "load"), list(arguments), [], None, None)
    made.set_lineno(arguments[0].lineno)
    return made
