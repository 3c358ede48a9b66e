"""Regular expressions of administrators, matched in linear time by RE2.

RE2 has no backreferences and no lookaround, so that no expression can block the event loop.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import re2

_MAXIMUM_MEMORY_BYTES: Final = 1 << 20


def is_valid(expression: str) -> bool:
    """Whether RE2 accepts the expression, within the memory limit."""
    try:
        _compiled(expression)
    except re2.error:
        return False
    return True


def matches(expression: str, text: str) -> bool:
    """Whether the expression matches the whole text."""
    return _compiled(expression).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.max_mem = _MAXIMUM_MEMORY_BYTES
    options.log_errors = False
    return re2.compile(expression, options)
