"""Access tokens of entities, from the client credentials grant: their claims (spec: OAuth, JWT contents)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.instants import NumericDate
from identity.tokens import access_tokens

GRANTS: Final = ["client_credentials"]
"""The `gty` that only tokens of entities have, so that none is accepted as a token of a user."""


@dataclasses.dataclass(frozen=True, slots=True)
class EntityTokenContext:
    """What a token is issued for: the entity, and its permissions on each target.

    `confirmation` is the `cnf` of a token that is bound to a key (RFC 7800).
    """

    tenant: Document
    entity: Document
    entity_type: Document
    permissions: Mapping[str, tuple[str, ...]]
    scope: str | None = None
    confirmation: Document | None = None


def claims(context: EntityTokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """Return the claims of an entity's access token; without targets it has no audience."""
    claims_: Document = {
        "exp": now + ttl_seconds,
        "gty": list(GRANTS),
        "iat": now,
        "iss": context.tenant["issuer"],
        "jti": token_id,
        "sub": context.entity["id"],
        "tid": context.tenant["id"],
        "tty": access_tokens.TTY,
    }
    if context.scope is not None:
        claims_["scope"] = context.scope
    if context.confirmation is not None:
        claims_["cnf"] = context.confirmation
    if context.permissions:
        targets = list(context.permissions)
        claims_["aud"] = targets[0] if len(targets) == 1 else targets
        claims_["permissions"] = {target: list(granted) for target, granted in context.permissions.items()}
    return claims_


def is_entity_token(claims_: Mapping[str, Any]) -> bool:
    """Whether these are the claims of an entity's token."""
    return claims_.get("gty") == GRANTS
