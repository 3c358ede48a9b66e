"""Metering of templates: a rewritten syntax tree that charges the budget for loops, comparisons and buffered text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import jinja2
from jinja2 import nodes

from identity.domain.messaging.template_budget import CHARACTERS_PER_STEP, RenderError, charge

MAX_RANGE = 10_000
_NODES_PER_STEP = 10


def _charged(characters: int) -> str:
    """Charge text that is written to a buffer, and return nothing to write."""
    charge(characters)
    return ""


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_RANGE:
        raise RenderError("a range is too long")
    return found


def _metered_items(items: Any, steps: int) -> Iterator[Any]:
    """The items of a loop; each is charged by the size of the loop's body."""
    for item in items:
        charge(steps * CHARACTERS_PER_STEP)
        yield item


def _compared(value: Any) -> Any:
    """An operand of a comparison, charged by its length. Raises RenderError for lists and maps."""
    if isinstance(value, dict | list | tuple):
        raise RenderError("only texts, numbers and the like can be compared")
    charge(len(value) if isinstance(value, str) else 0)
    return value


def _searched(value: Any) -> Any:
    """The operand of `in`, charged by its length."""
    charge(len(value) * CHARACTERS_PER_STEP if isinstance(value, dict | list | tuple) else 0)
    return value if isinstance(value, dict | list | tuple) else _compared(value)


GLOBALS: Mapping[str, Callable[..., Any]] = {
    "range": _range,
    "__charge": _charged,
    "__compared": _compared,
    "__items": _metered_items,
    "__searched": _searched,
}
"""The functions that rewritten templates call; names with two underscores are not available to authors."""


class MeteringTransformer(jinja2.visitor.NodeTransformer):
    """Adds charges to loops, buffered text, concatenations and comparisons."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 (named by Jinja)
        parts = sum(1 for part in node.body for _ in part.find_all(nodes.Node))
        self.generic_visit(node)
        items = cast("nodes.Expr", node.iter)
        node.iter = _call("__items", items, nodes.Const(parts // _NODES_PER_STEP))
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.AssignBlock:  # noqa: N802 (named by Jinja)
        self._meter_buffered(node)
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:  # noqa: N802 (named by Jinja)
        self._meter_buffered(node)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:  # noqa: N802 (named by Jinja)
        self._meter_buffered(node)
        start: nodes.Node = nodes.Output([_call("__charge", nodes.Const(0, lineno=node.lineno))])
        node.body.insert(0, start.set_lineno(node.lineno))
        return node

    def _meter_buffered(self, node: nodes.Node) -> None:
        """Charge literal text as well: it goes to a buffer, where output is not counted."""
        self.generic_visit(node)
        for output in node.find_all(nodes.Output):
            characters = sum(len(part.data) for part in output.nodes if isinstance(part, nodes.TemplateData))
            output.nodes.insert(0, _call("__charge", nodes.Const(characters, lineno=output.lineno)))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (named by Jinja)
        self.generic_visit(node)
        joined: nodes.Expr = nodes.Const("")
        for part in node.nodes:
            joined = nodes.Add(joined, part)
        return joined.set_lineno(node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802 (named by Jinja)
        self.generic_visit(node)
        node.expr = _call("__compared", node.expr)
        for operand in node.ops:
            operand.expr = _call("__searched" if operand.op in {"in", "notin"} else "__compared", operand.expr)
        return node


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    call = nodes.Call(nodes.Name(name, "load"), list(arguments), [], None, None)
    call.set_lineno(arguments[0].lineno)
    return call
