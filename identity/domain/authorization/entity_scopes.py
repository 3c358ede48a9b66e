"""The scopes of the client credentials grant: target entities and the permissions requested on them.

    scope      = item *( SP item )
    item       = "target-entity:" uuid [ ":" permission *( "," permission ) ]
    permission = 1*<any character of a scope but ",">      ; "scim:user:read" is one

Only the first two colons are separators (spec: OAuth, client_credentials).
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
"""target -> the requested permissions, in request order; empty for all."""


def parse(text: str | None) -> TargetPermissions:
    """Parse a scope. Permissions of a repeated target are combined. Raises InvalidScope."""
    requested: dict[str, tuple[str, ...]] = {}
    items = [item for item in (text or "").split(" ") if item]
    if len(items) > _MAXIMUM:
        raise unknown_target(f"more than {_MAXIMUM} of them")
    for item in items:
        target, permissions = _item(item)
        before = requested.get(target)
        is_all = not permissions or before == ()
        requested[target] = () if is_all else tuple(dict.fromkeys((*(before or ()), *permissions)))
    return requested


def granted(target: str, requested: Collection[str], held: Collection[str]) -> tuple[str, ...]:
    """Return the `held` permissions that are `requested`, or all. Raises InvalidScope."""
    for permission in requested:
        if permission not in held:
            reason = "invalid_entity_permission_scope"
            raise InvalidScope(reason, f"The permission {permission} of the entity {target} is not granted.")
    return tuple(requested or held)


def unknown_target(what: str) -> InvalidScope:
    """Return the error for a target without a grant; it does not reveal whether the entity exists."""
    return InvalidScope("invalid_target_entity_scope", f"The target entity is not valid: {what[:100]}")


def _item(item: str) -> tuple[str, tuple[str, ...]]:
    prefix, _, rest = item.partition(":")
    text, colon, names = rest.partition(":")
    target = parse_id(text)
    permissions = tuple(names.split(",")) if colon else ()
    if prefix != _PREFIX or target is None or not scopes.is_token(item) or not all(permissions or ("-",)):
        raise unknown_target(item)
    return target, permissions
