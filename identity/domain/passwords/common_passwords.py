"""Common passwords, from `common_passwords.txt` in the same folder: one per line, in lower case.

A tenant with breach detection rejects them in any case, whatever source of breach data the instance has.
"""

from __future__ import annotations

import functools
import pathlib


def is_common(password: str) -> bool:
    """Whether this is a common password, regardless of case."""
    return password.casefold() in load()


@functools.cache
def load() -> frozenset[str]:
    """Return all common passwords."""
    return frozenset(pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split())
