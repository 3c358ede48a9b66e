"""The scopes of the client credentials grant: which entities a caller wants to speak to, and what it wants to do there.

    scope      = item *( SP item )
    item       = "target-entity:" uuid [ ":" permission *( "," permission ) ]
    permission = 1*<any character of a scope but ",">      ; "scim:user:read" is one

The two colons that count are the first two (spec: OAuth, client_credentials).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from identity.domain.clients import scopes
from identity.errors import InvalidScope
from identity.ids import parse_id

_PREFIX: Final = "target-entity"
_MAXIMUM: Final = 100

TargetPermissions = Mapping[str, tuple[str, ...]]
"""target -> the permissions that are wanted there, in the order of the request; none of them stands for all."""


def parse(text: str | None) -> TargetPermissions:
    """The targets of a scope. What is said of a target twice counts together. Raises InvalidScope."""
    wanted: dict[str, tuple[str, ...]] = {}
    items = [item for item in (text or "").split(" ") if item]
    if len(items) > _MAXIMUM:
        raise unknown_target(f"more than {_MAXIMUM} of them")
    for item in items:
        target, permissions = _item(item)
        before = wanted.get(target)
        is_all = not permissions or before == ()
        wanted[target] = () if is_all else tuple(dict.fromkeys((*(before or ()), *permissions)))
    return wanted


def granted(target: str, wanted: Collection[str], held: Collection[str]) -> tuple[str, ...]:
    """What of the `held` permissions goes into the token: those `wanted`, or all. Raises InvalidScope."""
    for permission in wanted:
        if permission not in held:
            reason = "invalid_entity_permission_scope"
            raise InvalidScope(reason, f"The permission {permission} of the entity {target} is not granted.")
    return tuple(wanted or held)


def unknown_target(what: str) -> InvalidScope:
    """A scope that names no entity on which the caller has a grant: which of all that it is, it is not told."""
    return InvalidScope("invalid_target_entity_scope", f"The target entity is not valid: {what[:100]}")


def _item(item: str) -> tuple[str, tuple[str, ...]]:
    prefix, _, rest = item.partition(":")
    text, colon, names = rest.partition(":")
    target = parse_id(text)
    permissions = tuple(names.split(",")) if colon else ()
    if prefix != _PREFIX or target is None or not scopes.is_token(item) or not all(permissions or ("-",)):
        raise unknown_target(item)
    return target, permissions
