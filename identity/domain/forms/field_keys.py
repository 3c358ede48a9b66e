"""The keys of form fields: which member of a user, of a registration or of the consents a field sets.

A key is predefined (`user.firstName`), custom (`user.data.color`, `registration.data.address['city']`,
`user.data.colors[0]`) or names a consent (`consents['<id>']`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

PREDEFINED: Final[Mapping[str, tuple[str, str]]] = load_yaml(__file__, "field_keys.yaml")
"""Predefined key -> its control and type."""

LISTS: Final = frozenset({"registration.preferredLanguages", "registration.roles", "user.preferredLanguages"})
"""The predefined keys whose members are lists."""

PASSWORD: Final = "user.password"  # noqa: S105 (the name of a field)
ROLES: Final = "registration.roles"
LOGIN_IDS: Final = ("user.email", "user.username", "user.phoneNumber")

_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]{1,64})|\['([A-Za-z0-9_-]{1,64})'\]|\[([0-9]{1,2})\]")
_CUSTOM: Final = re.compile(
    r"(user|registration)\.data(\.[A-Za-z0-9_-]{1,64}|\['[A-Za-z0-9_-]{1,64}'\])"
    r"(\.[A-Za-z0-9_-]{1,64}|\['[A-Za-z0-9_-]{1,64}'\]|\[[0-9]{1,2}\]){0,7}"
)
_RESERVED: Final = frozenset({"__proto__", "constructor", "prototype"})
"""Names that lambdas, which are JavaScript, could mistake for members of every object."""

Path = tuple[str | int, ...]


def is_custom(key: str) -> bool:
    """Whether a key names a member of `user.data` or `registration.data`."""
    return _CUSTOM.fullmatch(key) is not None and not _RESERVED.intersection(path_of(key))


def is_consent(key: str) -> bool:
    """Whether a key names a consent."""
    return key.startswith("consents[")


def of_consent(consent_id: str) -> str:
    """Return the key of a consent."""
    return f"consents['{consent_id}']"


def owner_of(key: str) -> str:
    """Return what a key belongs to: `user`, `registration` or `consents`."""
    return "consents" if is_consent(key) else key.partition(".")[0]


def path_of(key: str) -> Path:
    """Return the steps of a predefined or custom key, without `user` or `registration`: names, and positions."""
    _, _, members = key.partition(".")
    steps = _STEP.finditer(f".{members}")
    return tuple(
        int(position) if position else name or quoted for name, quoted, position in (s.groups() for s in steps)
    )


def value_of(document: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for step in path:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def with_value(document: Any, path: Path, value: Any) -> Any:
    """Return a copy of a document with the value at a path; None removes a member.

    Whatever is in the way of the path is replaced. Gaps in lists are filled with None.
    """
    step, *rest = path
    if isinstance(step, int):
        items = list(document) if isinstance(document, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = with_value(items[step], tuple(rest), value) if rest else value
        return items
    members: Document = dict(document) if isinstance(document, dict) else {}
    new = with_value(members.get(step), tuple(rest), value) if rest else value
    if new is None:
        members.pop(step, None)
        return members
    return {**members, step: new}
