"""The authority of API keys over one another, and what a key's document must keep to."""

from __future__ import annotations

import math
from typing import Final

from identity import permissions
from identity.call import Document
from identity.errors import FieldError, Invalid
from identity.instants import Instant

GUESSABLE_BITS: Final = 100
"""Below this estimate a key counts as guessable: 32 random hexadecimal digits, or a UUID, are above it."""


def is_guessable(value: str) -> bool:
    """Whether a key may be found by guessing: by its length and the number of its different characters."""
    return len(value) * math.log2(len(set(value)) or 1) < GUESSABLE_BITS


def value_problems(value: str, minimum_length: int) -> list[FieldError]:
    """What is wrong with a value that a caller chose."""
    if len(value) >= minimum_length:
        return []
    message = f"The [apiKey.key] must have at least {minimum_length} characters."
    return [FieldError.of("tooShort", "apiKey.key", message)]


def tidied_permissions(wanted: Document) -> Document:
    """The permissions without `/api/api-key`, which `keyManager` alone governs, and with methods in upper case.

    Raises Invalid where nothing is left of a list that had something in it: an empty list would grant everything.
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
    """What is wrong with the content of a key that `caller` (None: the service itself) wants to write."""
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
    """Whether the caller's authority is equal or greater than the target's on every axis: endpoints, address, life.

    Who may read a key can use it, so a key bound to an address list or an end never reaches one that is less bound.
    Tenancy is not judged here: a key of another tenant is simply not there.
    """
    return permissions.covers(caller["permissions"]["endpoints"], target["permissions"]["endpoints"]) and not any(
        _bond_problems(target, caller)
    )


def is_visible(caller: Document, target: Document) -> bool:
    """Whether the target exists as far as the caller is concerned: a tenant-scoped key sees its own tenant's keys."""
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
    """A key never hands on more than it has itself: its address list and its end bind what it makes."""
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
