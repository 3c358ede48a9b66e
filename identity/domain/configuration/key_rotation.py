"""Signing and verification keys of a client during key rotation (docs/decisions/0021).

    signing key     signs now: the configured key or, shortly after a change, the previous one
    pending key     the previous key, which signs until every process knows the change
    retired key     signs no more and verifies until the last token that it signed has expired

Pending and retired keys are stored in `private` of the tenant, application or entity type that changed:

    pendingKeys  {member: {"keyId", "until"}}
    retiredKeys  [{"keyId", "member", "until"}]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from identity.call import Document
from identity.domain.configuration.token_settings import (
    ACCESS_MEMBER,
    KEY_MEMBERS,
    TokenSettings,
    effective_keys,
    effective_ttl_seconds,
)
from identity.instants import Instant

LAG_MS = 1250
"""After this time every process uses a change: cached documents live one second even without a change stream."""

MARGIN_MS = 60_000
"""The time that a key verifies beyond its tokens, for clock differences and requests in progress."""

HINT_MS = 30 * 86_400_000
"""The storage time of a retired key, for `id_token_hint`, which may be an expired token."""

_MAXIMUM_EXPIRED = 10
"""The maximum of retired keys without live tokens; each costs a look-up per invalid token."""

TENANTS = ""
"""Stands for the signing key of each tenant: an entity type serves the entities of all tenants."""


def signing_key(tenant: Document, application: Document, member: str, now: Instant) -> str:
    """Return the id of the key that signs at this instant. Raises KeyError without a key.

    Here and below an entity type may take the place of an application.
    """
    pending = _pending(application, member, now)
    if pending:
        return pending
    own = TokenSettings.of(application)
    if pending is None and own.has_own(member):
        return own.signing_key(member)
    return tenant_key(tenant, member, now)


def entity_key(tenant: Document, entity_type: Document, now: Instant) -> tuple[str, int]:
    """Return the id of the key that signs entity tokens at this instant, and their lifetime in seconds."""
    is_tenants = _pending(entity_type, ACCESS_MEMBER, now) == TENANTS
    ttl_seconds = effective_ttl_seconds(tenant, None if is_tenants else entity_type)
    return signing_key(tenant, entity_type, ACCESS_MEMBER, now), ttl_seconds


def tenant_key(tenant: Document, member: str, now: Instant) -> str:
    """Return the id of the key that signs at this instant for applications without a key of their own."""
    return _pending(tenant, member, now) or TokenSettings.of(tenant).signing_key(member)


def trusted_keys(tenant: Document, application: Document, member: str, now: Instant | None) -> frozenset[str]:
    """Return the ids of the keys whose tokens a client accepts; with `now` None, of all stored keys."""
    return frozenset(key_id for owner in (tenant, application) for key_id in _trusted(owner, member, now))


def rotate_tenant(stored: Document, document: Document, ttl_seconds: int, now: Instant) -> Document:
    """Return `private` of an updated tenant; `ttl_seconds` is the maximum lifetime of its applications' tokens."""
    before, after = TokenSettings.of(stored), TokenSettings.of(document)
    private = dict(stored.get("private", {}))
    for member in KEY_MEMBERS:
        if member in before.signing_keys:
            signed = tenant_key(stored, member, now)
            change = _KeyChange(member, signed, before.signing_key(member), after.signing_key(member))
            lives = max(ttl_seconds, after.ttl_seconds)
            private = _after(private, change, before.ttl_seconds, after.ttl_seconds, lives, now)
    return private


def rotate_application(tenant: Document, stored: Document, document: Document, now: Instant) -> Document:
    """Return `private` of an updated application."""
    before, after = (effective_ttl_seconds(tenant, each) for each in (stored, document))
    keys_before, keys_after = (effective_keys(tenant, each) for each in (stored, document))
    private = dict(stored.get("private", {}))
    for member in KEY_MEMBERS:
        if member in TokenSettings.of(tenant).signing_keys:
            signed = signing_key(tenant, stored, member, now)
            change = _KeyChange(member, signed, keys_before[member], keys_after[member])
            private = _after(private, change, before, after, max(before, after), now)
    return private


def rotate_entity_type(stored: Document, document: Document, tenants_ttl_seconds: int, now: Instant) -> Document:
    """Return `private` of an updated entity type; `tenants_ttl_seconds` is the longest token lifetime of any tenant."""
    key_before, before = _entity_signing(stored, tenants_ttl_seconds)
    key_after, after = _entity_signing(document, tenants_ttl_seconds)
    pending = _pending(stored, ACCESS_MEMBER, now)
    change = _KeyChange(ACCESS_MEMBER, key_before if pending is None else pending, key_before, key_after)
    return _after(dict(document["private"]), change, before, after, max(before, after), now)


def _entity_signing(entity_type: Document, tenants_ttl_seconds: int) -> tuple[str, int]:
    """Return the configured key id and token lifetime of an entity type."""
    own = TokenSettings.of(entity_type)
    return (own.signing_key(ACCESS_MEMBER), own.ttl_seconds) if own.is_enabled else (TENANTS, tenants_ttl_seconds)


@dataclasses.dataclass(frozen=True, slots=True)
class _KeyChange:
    """The change of one key member: the key that `signed` until now, and the ids configured `before` and `after`."""

    member: str
    signed: str
    before: str
    after: str


def _after(
    private: Document, change: _KeyChange, ttl_before: int, ttl_after: int, lives: int, now: Instant
) -> Document:
    """Return `private` after a change; `lives` is the maximum token lifetime in seconds."""
    pending = dict(private.get("pendingKeys", {}))
    leaving = set()
    if change.before != change.after:
        leaving = {change.signed, change.before} - {change.after}
        pending.pop(change.member, None)
        if change.signed != change.after:
            pending[change.member] = {"keyId": change.signed, "until": now + LAG_MS}
    if ttl_after < ttl_before:
        # The key stays with a shorter token lifetime; tokens that it signed before the change must still verify.
        leaving |= {change.signed, change.before}
    leaving.discard(TENANTS)
    if not leaving and pending == private.get("pendingKeys", {}):
        return private
    expires = now + 2 * LAG_MS + lives * 1000 + MARGIN_MS
    retired = _merged(private.get("retiredKeys", []), {(key_id, change.member): expires for key_id in leaving}, now)
    return {**private, "pendingKeys": pending, "retiredKeys": retired}


def _merged(entries: list[Document], fresh: dict[tuple[str, str], int], now: Instant) -> list[Document]:
    """Return the retired keys merged with new ones, without those that no token or hint can need any more."""
    until = {(entry["keyId"], entry["member"]): int(entry["until"]) for entry in entries}
    for key, instant in fresh.items():
        until[key] = max(instant, until.get(key, 0))
    latest = sorted(until.items(), key=lambda item: -item[1])
    return [
        {"keyId": key_id, "member": member, "until": instant}
        for index, ((key_id, member), instant) in enumerate(latest)
        if instant > now or (index < _MAXIMUM_EXPIRED and instant > now - HINT_MS)
    ]


def _pending(owner: Document, member: str, now: Instant) -> str | None:
    entry = owner.get("private", {}).get("pendingKeys", {}).get(member)
    return str(entry["keyId"]) if entry is not None and entry["until"] > now else None


def _trusted(owner: Document, member: str, now: Instant | None) -> Iterator[str]:
    settings = TokenSettings.of(owner)
    if (key_id := settings.signing_keys.get(member)) is not None:
        yield key_id
    yield from settings.verification_keys(member)
    for entry in owner.get("private", {}).get("retiredKeys", ()):
        if entry["member"] == member and (now is None or entry["until"] > now):
            yield entry["keyId"]
