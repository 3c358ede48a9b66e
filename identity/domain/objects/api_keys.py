"""Rules of API keys: their content, and the authority of one key over another."""

from __future__ import annotations

import math
from typing import Final

from identity import permissions
from identity.call import Document
from identity.errors import FieldError, Invalid
from identity.instants import Instant

GUESSABLE_BITS: Final = 100
"""The estimated entropy below which a key is guessable; 32 random hexadecimal digits and a UUID are above it."""


def is_guessable(value: str) -> bool:
    """Return whether a key can be guessed, judging by its length and the number of its different characters."""
    return len(value) * math.log2(len(set(value)) or 1) < GUESSABLE_BITS


def value_problems(value: str, minimum_length: int) -> list[FieldError]:
    """Return the problems of a value that a caller chose."""
    if len(value) >= minimum_length:
        return []
    return [FieldError.invalid("apiKey.key", f"must have at least {minimum_length} characters", "tooShort")]


def tidied_permissions(wanted: Document) -> Document:
    """Return the permissions without `/api/api-key`, which `keyManager` alone governs, with methods in upper case.

    Raises Invalid if nothing is left of a list that was not empty: an empty list grants everything.
    """
    endpoints = {
        endpoint: sorted({method.upper() for method in methods})
        for endpoint, methods in wanted.get("endpoints", {}).items()
        if endpoint != permissions.KEY_MANAGER_ENDPOINT
    }
    if wanted.get("endpoints") and not endpoints:
        path = "apiKey.permissions.endpoints"
        raise Invalid.field("invalid", path, "The endpoint [/api/api-key] cannot be granted, and there is no other.")
    return {"endpoints": endpoints}


def content_problems(wanted: Document, caller: Document | None, now: Instant) -> list[FieldError]:
    """Return the problems of a key that `caller` (None: the service itself) stores."""
    errors = _permission_problems(wanted, caller)
    expiration = wanted.get("expirationInstant")
    if expiration is not None and expiration <= now:
        errors.append(FieldError.of("invalid", "apiKey.expirationInstant", "The expiration must lie in the future."))
    if not wanted["retrievable"] and not wanted.get("name"):
        errors.append(
            FieldError.of(
                "blank", "apiKey.name", "You must specify the [apiKey.name] of a key that is not retrievable."
            )
        )
    if caller is not None:
        errors += _caller_problems(wanted, caller)
    return errors


def may_manage(caller: Document, target: Document) -> bool:
    """Return whether the caller's authority includes the target's: endpoints, addresses, expiration.

    A key that can be read can be used, so that a key with an address list or an expiration manages no key with fewer
    limits. Tenancy is checked elsewhere: a key of another tenant does not exist for the caller.
    """
    return permissions.covers(caller["permissions"]["endpoints"], target["permissions"]["endpoints"]) and not any(
        _bond_problems(target, caller)
    )


def is_visible(caller: Document, target: Document) -> bool:
    """Return whether the caller can see the target: a tenant-scoped key sees its own tenant's keys."""
    return caller.get("tenantId") is None or caller.get("tenantId") == target.get("tenantId")


def _permission_problems(wanted: Document, caller: Document | None) -> list[FieldError]:
    path = "apiKey.permissions.endpoints"
    endpoints = wanted["permissions"]["endpoints"]
    unknown = permissions.unknown_entries(endpoints)
    if unknown:
        return [FieldError.of("invalid", path, f"There is no endpoint or method [{'], ['.join(unknown)[:500]}].")]
    if any(not methods for methods in endpoints.values()):
        return [FieldError.of("invalid", path, "Every endpoint must name at least one method.")]
    if caller is not None and not permissions.covers(caller["permissions"]["endpoints"], endpoints):
        return [FieldError.of("invalid", path, "A key cannot be given more permissions than the calling key has.")]
    return []


def _caller_problems(wanted: Document, caller: Document) -> list[FieldError]:
    errors = _bond_problems(wanted, caller)
    if caller.get("tenantId") is not None and wanted.get("tenantId") != caller["tenantId"]:
        errors.append(
            FieldError.of("invalid", "apiKey.tenantId", "A tenant-scoped key manages keys of its own tenant.")
        )
    return errors


def _bond_problems(target: Document, caller: Document) -> list[FieldError]:
    """Return the problems of a key with fewer limits of address or expiration than its creator."""
    errors = []
    acl = caller.get("ipAccessControlListId")
    if acl is not None and target.get("ipAccessControlListId") != acl:
        errors.append(
            FieldError.of(
                "invalid", "apiKey.ipAccessControlListId", "The key must carry the calling key's access list."
            )
        )
    end = caller.get("expirationInstant")
    if end is not None and (target.get("expirationInstant") is None or target["expirationInstant"] > end):
        errors.append(FieldError.of("invalid", "apiKey.expirationInstant", "The key cannot outlive the calling key."))
    return errors
