"""Imports of libraries without an optional package that they would load, but that the service does not use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def withheld(package: str) -> Iterator[None]:
    """Let imports of a package fail during the block, as if it were not installed, unless it is loaded already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # how the import system marks a missing module
    try:
        yield
    finally:
        del sys.modules[package]
