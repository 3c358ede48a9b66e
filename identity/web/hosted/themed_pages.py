"""Hosted pages rendered from the page templates of a theme; the built-in page replaces one that fails."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
import structlog

from identity.domain.configuration import page_templates
from identity.domain.configuration.page_templates import PageEnvironment
from identity.domain.messaging.template_budget import RenderError
from identity.web import page_files

_log = structlog.get_logger(__name__)
_FOLDER: Final = Path(__file__).resolve().parent / "templates"


def render(template: str, values: Mapping[str, Any], theme_id: str, sources: Mapping[str, str]) -> str | None:
    """Return a page of a theme; None if its templates do not concern the page, or fail."""
    if "base" not in sources and template.removesuffix(".html") not in sources:
        return None
    try:
        return page_templates.render(_environment(tuple(sorted(sources.items()))), template, values)
    except RenderError as error:
        _log.warning("page template failed", theme_id=theme_id, page=template, reason=error.message)
        return None


@functools.lru_cache(maxsize=16)
def _environment(sources: tuple[tuple[str, str], ...]) -> PageEnvironment:
    builtin = jinja2.FileSystemLoader(_FOLDER)
    own = jinja2.DictLoader({f"{name}.html": text for name, text in sources})
    environment = PageEnvironment(
        jinja2.ChoiceLoader([own, jinja2.PrefixLoader({page_templates.BUILTIN: builtin}), builtin])
    )
    environment.globals["asset"] = functools.partial(page_files.path, "hosted")
    return environment
