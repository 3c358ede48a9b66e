"""Stored credentials: the address and account that each is bound to, and their masking in responses.

A credential is sent only to the address, and under the account, that it was stored for. If one of these changes and the
request has no new credential, the stored one is dropped. In requests `MASK` means "keep the stored value", so that an
object that was read with masked credentials can be sent back.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.secret_masking import MASK as MASK
from identity.errors import FieldError, Invalid

_EACH: Final = "*"
_OR: Final = "|"

Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """A credential in a stored object.

    `member` is its dotted path, in which `*` stands for every key of a map. `bound_to` are the members of its address
    and account; `a|b` is the first of the two that is present, and `*` the same key as in `member`. A `write_only`
    credential is never in a response, so that a request without it keeps it.
    """

    member: str
    bound_to: tuple[str, ...] = ()
    write_only: bool = False


def masked(credentials: Iterable[Credential], document: Document) -> Document:
    """Return a copy of the object with `MASK` in place of each credential."""
    copied = copy.deepcopy(document)
    for credential in credentials:
        for path in _paths(copied, credential.member):
            _set(copied, path, MASK)
    return copied


def resolved(name: str, credentials: Iterable[Credential], document: Document, stored: Document | None) -> Document:
    """Return the object to store: credentials that the request did not state are taken from `stored`, or dropped.

    `name` is the wrapper of the object in requests. Raises Invalid for a mask that a
    change puts where no credential is stored.
    """
    document = copy.deepcopy(document)
    for credential in credentials:
        if stored is not None:
            _require_stored(name, credential, document, stored)
        if credential.write_only:
            _mask_if_absent(document, tuple(credential.member.split(".")))
        for path in _paths(document, credential.member):
            if _get(document, path) == MASK:
                _set(document, path, _stored_value(credential, path, document, stored))
    return document


def _require_stored(name: str, credential: Credential, document: Document, stored: Document) -> None:
    for path in _paths(document, credential.member):
        if _get(document, path) == MASK and _get(stored, path) is None:
            field = ".".join((name, *path))
            raise Invalid([FieldError.invalid(field, "is masked, but no value is stored for it. State the value")])


def _stored_value(credential: Credential, path: Path, document: Document, stored: Document | None) -> Any:
    """Return the stored value of a credential; None if there is none or it is bound to another address."""
    if stored is None:
        return None
    keys = _keys(credential.member, path)
    is_unchanged = all(_bound(document, one, keys) == _bound(stored, one, keys) for one in credential.bound_to)
    return _get(stored, path) if is_unchanged else None


def _bound(document: Document, members: str, keys: Path) -> Any:
    """Return the value of the first alternative that is present."""
    for member in members.split(_OR):
        remaining = iter(keys)
        path = tuple(next(remaining) if step == _EACH else step for step in member.split("."))
        if (value := _get(document, path)) is not None:
            return value
    return None


def _keys(member: str, path: Path) -> Path:
    """Return the keys in place of `*` in the member."""
    return tuple(step for pattern, step in zip(member.split("."), path, strict=True) if pattern == _EACH)


def _paths(document: Any, member: str) -> list[Path]:
    """Return the paths of the document that match the member."""
    return list(_matching(document, tuple(member.split("."))))


def _matching(value: Any, pattern: Path) -> Iterator[Path]:
    if not pattern:
        yield ()
    elif isinstance(value, dict):
        for step in list(value) if pattern[0] == _EACH else [name for name in pattern[:1] if name in value]:
            yield from ((step, *rest) for rest in _matching(value[step], pattern[1:]))


def _get(document: Any, path: Path) -> Any:
    for step in path:
        document = document.get(step) if isinstance(document, dict) else None
    return document


def _set(document: Document, path: Path, value: Any) -> None:
    """Set the value of a member; None removes it."""
    holder = _get(document, path[:-1])
    if value is None:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = value


def _mask_if_absent(document: Document, path: Path) -> None:
    holder = _get(document, path[:-1])
    if isinstance(holder, dict):
        holder.setdefault(path[-1], MASK)
