"""References from other objects to keys: whether the key exists and can do what it is wanted for."""

from __future__ import annotations

from typing import Any

from identity.call import Document
from identity.domain import tenants as tenant_rules
from identity.errors import FieldError
from identity.events.bus import Event
from identity.services import Services


async def problems(services: Services, jwt_configuration: Document, path: str) -> list[FieldError]:
    """A field error for each key of a jwtConfiguration that does not exist or cannot sign."""
    errors = [
        FieldError.of("invalid", f"{path}.{name}", f"The [{path}.{name}] must name a key that can sign.")
        for name in tenant_rules.KEY_MEMBERS
        if name in jwt_configuration and not await can_sign(services, jwt_configuration[name])
    ]
    for name in ("accessTokenVerificationKeyIds", "idTokenVerificationKeyIds"):
        for index, key_id in enumerate(jwt_configuration.get(name, [])):
            if await services.keys.cached(None, key_id) is None:
                field = f"{path}.{name}[{index}]"
                errors.append(FieldError.of("invalid", field, f"The [{field}] must name an existing key."))
    return errors


async def can_sign(services: Services, key_id: str) -> bool:
    """Whether the key exists and holds a secret or a private half."""
    key = await services.keys.cached(None, key_id)
    return key is not None and ("secret" in key or "privateKey" in key)


def change_event(application_ids: list[str]) -> Event:
    """`jwt.public-key.update`: these applications now sign with other keys."""
    return Event("jwt.public-key.update", {"applicationIds": sorted(application_ids)})


async def asymmetric_change(services: Services, before: Document, after: Document) -> bool:
    """Whether two jwtConfigurations sign with different keys, one of them with a public half."""
    old, new = tenant_rules.signing_keys(before), tenant_rules.signing_keys(after)
    if old == new:
        return False
    keys: list[Any] = [await services.keys.cached(None, key_id) for key_id in old ^ new]
    return any(key is not None and key["type"] != "HMAC" for key in keys)
