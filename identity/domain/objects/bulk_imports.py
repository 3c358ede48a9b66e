"""What imports of users and of refresh tokens share: how much one may bring, and how its errors are told.

Errors name an item by its place (`users[3].email`); their codes do not, so that a caller can look for one
(`[duplicate]users.email`).
"""

from __future__ import annotations

from typing import Final

from identity.errors import FieldError

MAXIMUM_ITEMS: Final = 10_000
MAXIMUM_ERRORS: Final = 100
"""Nobody reads more of them."""


def at(many: str, index: int, error: FieldError) -> FieldError:
    """An error of one item, told of it alone (`user.email`, or `user`), as that of an item of the list."""
    inner = error.path.removeprefix(many.removesuffix("s"))
    path = f"{many}[{index}]{inner}"
    code = error.code.replace(error.path, f"{many}{inner}")
    return FieldError(path, code, error.message.replace(f"[{error.path}]", f"[{path}]"))


def error(many: str, index: int, kind: str, name: str, message: str) -> FieldError:
    """An error of a member of an item; `{}` in the message stands for its path."""
    path = f"{many}[{index}].{name}"
    return FieldError(path, f"[{kind}]{many}.{name}", message.format(f"[{path}]"))


def too_many(many: str) -> FieldError:
    """The error of a list that is too long."""
    return FieldError.of("tooMany", many, f"The [{many}] may be {MAXIMUM_ITEMS} in one call.")


def empty(many: str) -> FieldError:
    """The error of a list with nothing in it."""
    return FieldError.of("empty", many, f"You must specify the [{many}] property.")
