"""Jinja templates with which an advanced theme replaces hosted pages: sandboxed, metered, and checked when stored.

A template is named as the built-in page, such as `login`. It can extend `base.html` and include partial pages, which
are those of the theme where it has them; `builtin/login.html` is always the built-in page. page_values.yaml lists the
values of each page. The filter `safe` does not exist: whatever a template writes is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from identity.call import Document
from identity.domain.configuration import page_texts
from identity.domain.messaging import template_budget, template_filters, template_metering
from identity.domain.messaging.template_budget import Budget, RenderError
from identity.domain.messaging.template_language import is_plain
from identity.domain.objects import property_files
from identity.domain.objects.data_files import load_yaml
from identity.errors import FieldError

VALUES: Final[Mapping[str, list[str]]] = load_yaml(__file__, "page_values.yaml")["pages"]
COMMON: Final = frozenset({"asset", "captcha", "languages", "range", "texts"})
"""The values that every page has."""
BUILTIN: Final = "builtin"
"""The prefix of the names of built-in templates."""

_FILTERS: Final = (
    "cap_first", "capitalize", "d", "default", "e", "escape", "first", "join", "last", "length", "lower", "replace",
    "string", "title", "trim", "upper",
)  # fmt: skip
_MAXIMUM_STEPS: Final = 20_000
_MAXIMUM_NUMBER: Final = 2**53
_FAILURES: Final = (
    jinja2.TemplateError, RenderError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError, MemoryError,
)  # fmt: skip
_VALUE_TYPES: Final = (str, int, float, list, tuple, dict)
_ALLOWED_METHODS: Final = frozenset({"get", "items"})


class PageEnvironment(ImmutableSandboxedEnvironment):
    """Templates whose loops, calls and texts are charged to a budget, also those that are loaded."""

    intercepted_binops = frozenset({"//", "%", "+", "*", "-", "/", "**"})

    def __init__(self, loader: jinja2.BaseLoader | None = None) -> None:
        super().__init__(
            loader=loader,
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            optimized=False,  # constant folding would run operators unmetered
            finalize=template_filters.finalize,
            auto_reload=False,
            cache_size=-1,
        )
        self.filters = {name: template_filters.metered(template_filters.FILTERS[name]) for name in _FILTERS}
        self.tests = {name: self.tests[name] for name in template_filters.TESTS}
        self.globals = dict(template_metering.GLOBALS)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Deny methods of texts and lists, some of which build huge values."""
        is_method = isinstance(obj, _VALUE_TYPES) and callable(value) and attr not in _ALLOWED_METHODS
        return not is_method and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Deny `str.format` as well: one format specification could build a string of gigabytes."""

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute with numbers of limited size; `+` also concatenates texts."""
        if operator == "+" and (isinstance(left, str) or isinstance(right, str)):
            return template_filters.concatenate(left, right)
        template_budget.charge()
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise RenderError(f"the operator {operator} is for numbers")
        result = super().call_binop(context, operator, left, right)
        if abs(result) > _MAXIMUM_NUMBER:
            raise RenderError("a number is too large")
        return result

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = template_metering.MeteringTransformer().visit(super()._parse(source, name, filename))
        holders: list[nodes.Template | nodes.Block] = [tree, *tree.find_all(nodes.Block)]
        for holder in holders:
            # A template that includes itself twice would otherwise cost nothing until it writes.
            charge = nodes.Call(nodes.Name("__charge", "load"), [nodes.Const(0)], [], None, None)
            holder.body.insert(0, nodes.Output([charge]).set_lineno(1))
        return tree


def render(environment: PageEnvironment, name: str, values: Mapping[str, Any]) -> str:
    """Render a page within a budget. Raises RenderError."""
    budget = Budget(steps=_MAXIMUM_STEPS)
    token = template_budget.current_budget.set(budget)
    try:
        return "".join(budget.metered(environment.get_template(name).generate(values)))
    except _FAILURES as error:
        raise RenderError(str(error)[:300] or type(error).__name__) from error
    finally:
        template_budget.current_budget.reset(token)


def of_theme(theme: Document | None) -> Mapping[str, str]:
    """Return the page templates that a theme renders."""
    if theme is None or theme.get("type") == "simple":
        return {}
    found: Mapping[str, str] = theme.get("pageTemplates", {})
    return {name: text for name, text in found.items() if text.strip()}


def problems(theme: Document) -> Iterator[FieldError]:
    """Return an error for each template that is not valid, with its line."""
    for name, text in theme.get("pageTemplates", {}).items():
        try:
            _require_valid(text)
        except jinja2.TemplateSyntaxError as error:
            path = f"theme.pageTemplates.{name}"
            yield FieldError.of("invalid", path, f"Line {error.lineno} of [{path}]: {error.message}")
        except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError):
            path = f"theme.pageTemplates.{name}"
            yield FieldError.invalid(path, "is nested too deeply, or has a value that is too long")


def notices(theme: Document) -> Iterator[str]:
    """Return a sentence for everything that a valid template uses and that does not exist."""
    own_texts = property_files.read(theme.get("defaultMessages", ""))
    for name, text in sorted(of_theme(theme).items()):
        tree = ImmutableSandboxedEnvironment().parse(text)
        known = {*VALUES.get(name, ()), *COMMON}
        missing = [f"[{each}]" for each in sorted(meta.find_undeclared_variables(tree) - known)]
        missing += sorted(_missing_texts(tree, own_texts))
        missing += [f"[{each}]" for each in meta.find_referenced_templates(tree) if each and not _exists(each)]
        if missing:
            yield f"The page template [{name}] uses what does not exist: {', '.join(missing)}."


def text_keys(theme: Document) -> set[str]:
    """Return the keys of the texts that the valid page templates of a theme show."""
    trees = (ImmutableSandboxedEnvironment().parse(text) for text in of_theme(theme).values())
    return {key for tree in trees for key in _text_keys(tree)}


def _text_keys(tree: nodes.Template) -> Iterator[str]:
    for node in tree.find_all(nodes.Getitem):
        is_texts = isinstance(node.node, nodes.Name) and node.node.name == "texts"
        if is_texts and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            yield node.arg.value


def _missing_texts(tree: nodes.Template, own_texts: Mapping[str, str]) -> set[str]:
    keys = _text_keys(tree)
    return {f'[texts["{key}"]]' for key in keys if key not in own_texts and key not in page_texts.TEXTS}


def _exists(template: str) -> bool:
    return template.removeprefix(f"{BUILTIN}/").removesuffix(".html") in VALUES


def _require_valid(text: str) -> None:
    """Raise TemplateSyntaxError for what is not part of the language of page templates."""
    environment = PageEnvironment()
    tree = ImmutableSandboxedEnvironment().parse(text)
    for node in tree.find_all((nodes.Name, nodes.Pow, nodes.List, nodes.Dict, nodes.Pair, nodes.Tuple)):
        if isinstance(node, nodes.Name) and node.name.startswith("__"):
            raise jinja2.TemplateSyntaxError(f"[{node.name}] is no name for a value", node.lineno)
        if isinstance(node, nodes.Pow):
            raise jinja2.TemplateSyntaxError("[**] is not part of the language of templates", node.lineno)
        if isinstance(node, nodes.List | nodes.Dict | nodes.Pair | nodes.Tuple) and not is_plain(node):
            # A list built from values could multiply its size with each use.
            raise jinja2.TemplateSyntaxError("a list or map may hold only texts and numbers", node.lineno)
    environment.compile(text)
