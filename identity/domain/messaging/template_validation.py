"""Validation of the syntax tree of a template: which constructs of Jinja the template language has."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jinja2 import nodes

from identity.domain.messaging import freemarker
from identity.domain.messaging.freemarker_expressions import NAMESPACE
from identity.domain.messaging.template_budget import ParseError
from identity.domain.messaging.template_filters import FILTER_NAMES, TESTS

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
