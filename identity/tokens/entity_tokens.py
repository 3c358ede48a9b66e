"""Access tokens of entities, from the client credentials grant: what stands in one (spec: OAuth, JWT contents)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.instants import NumericDate
from identity.tokens import access_tokens

GRANTS: Final = ["client_credentials"]
"""The `gty` of such a token, and of no other: by it a token of an entity is never taken for one of a user."""


@dataclasses.dataclass(frozen=True, slots=True)
class EntityTokenContext:
    """What a token is issued for: which entity asked, and what it may do with each of its targets.

    `confirmation` is the `cnf` of a token that is bound to a key (RFC 7800).
    """

    tenant: Document
    entity: Document
    entity_type: Document
    permissions: Mapping[str, tuple[str, ...]]
    scope: str | None = None
    confirmation: Document | None = None


def claims(login: EntityTokenContext, token_id: str, now: NumericDate, ttl_seconds: int) -> Document:
    """The claims of an entity's access token: without targets it is for nobody in particular."""
    answer: Document = {
        "exp": now + ttl_seconds,
        "gty": list(GRANTS),
        "iat": now,
        "iss": login.tenant["issuer"],
        "jti": token_id,
        "sub": login.entity["id"],
        "tid": login.tenant["id"],
        "tty": access_tokens.TTY,
    }
    if login.scope is not None:
        answer["scope"] = login.scope
    if login.confirmation is not None:
        answer["cnf"] = login.confirmation
    if login.permissions:
        targets = list(login.permissions)
        answer["aud"] = targets[0] if len(targets) == 1 else targets
        answer["permissions"] = {target: list(granted) for target, granted in login.permissions.items()}
    return answer


def is_entity_token(claims_: Mapping[str, Any]) -> bool:
    """Whether these are the claims of an entity's token."""
    return claims_.get("gty") == GRANTS
