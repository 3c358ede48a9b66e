"""Limits and errors of imports of users and of refresh tokens.

Errors have the index of the item in their path (`users[3].email`), but not in their code, so that callers can match it
(`[duplicate]users.email`).
"""

from __future__ import annotations

from typing import Final

from identity.errors import FieldError

MAXIMUM_ITEMS: Final = 10_000
MAXIMUM_ERRORS: Final = 100
"""The maximum number of errors in a response."""


def at(many: str, index: int, error: FieldError) -> FieldError:
    """Return an error of one item (`user.email`, or `user`) as an error of the item in the list."""
    inner = error.path.removeprefix(many.removesuffix("s"))
    path = f"{many}[{index}]{inner}"
    code = error.code.replace(error.path, f"{many}{inner}")
    return FieldError(path, code, error.message.replace(f"[{error.path}]", f"[{path}]"))


def error(many: str, index: int, kind: str, name: str, message: str) -> FieldError:
    """Return an error of a member of an item; `{}` in the message is replaced by its path."""
    path = f"{many}[{index}].{name}"
    return FieldError(path, f"[{kind}]{many}.{name}", message.format(f"[{path}]"))


def too_many(many: str) -> FieldError:
    """Return the error of a list that is too long."""
    return FieldError.invalid(many, f"may be {MAXIMUM_ITEMS} in one call", "tooMany")


def empty(many: str) -> FieldError:
    """Return the error of an empty list."""
    return FieldError.missing(many, "empty")
