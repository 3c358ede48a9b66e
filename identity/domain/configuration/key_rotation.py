"""Which keys sign for a client and which verify, while the keys change (docs/decisions/0021).

    signing key     signs now: the configured one, or, for a moment after a change, the one before
    pending key     the one before a change: it signs on until every process has heard of the change
    retired key     one that signs no more: it verifies until the last token that it signed has died

Both are kept beside the configuration that changed, in `private` of a tenant, application or entity type:

    pendingKeys  {member: {"keyId", "until"}}
    retiredKeys  [{"keyId", "member", "until"}]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from identity.call import Document
from identity.domain.configuration.tenants import KEY_MEMBERS
from identity.instants import Instant

LAG_MS = 1250
"""After this time every process knows of a change: a cached document lives a second even without a change stream."""

MARGIN_MS = 60_000
"""How much longer than its tokens a key verifies: for machines whose clocks differ, and a request under way."""

HINT_MS = 30 * 86_400_000
"""How long a retired key is remembered for ID tokens that come back as hints, which may have expired."""

_REMEMBERED = 10
"""Of how many retired keys at most, beside those whose tokens live: each is a look-up for whoever sends rubbish."""

ACCESS = "accessTokenKeyId"
"""The one key that an entity type has."""

TENANTS = ""
"""In place of a key id: that of the tenant, whichever it is. An entity type serves the entities of all tenants."""

VERIFICATION_MEMBERS = {
    "accessTokenKeyId": "accessTokenVerificationKeyIds",
    "idTokenKeyId": "idTokenVerificationKeyIds",
}


def setting(tenant: Document, application: Document, name: str) -> Any:
    """A member of the jwtConfiguration that holds: the application's own where that is enabled and has it.

    Here and below an entity type will do for an application: of its entities' tokens it says the same.
    """
    own: Document = application["jwtConfiguration"]
    return own[name] if own["enabled"] and name in own else tenant["jwtConfiguration"][name]


def signing_key(tenant: Document, application: Document, member: str, now: Instant) -> str:
    """The id of the key that signs at this instant. KeyError where there is none."""
    pending = _pending(application, member, now)
    if pending:
        return pending
    own = application["jwtConfiguration"]
    if pending is None and own["enabled"] and member in own:
        return str(own[member])
    return tenant_key(tenant, member, now)


def entity_key(tenant: Document, entity_type: Document, now: Instant) -> tuple[str, int]:
    """The id of the key that signs the token of an entity at this instant, and the seconds that the token lives."""
    is_tenants = _pending(entity_type, ACCESS, now) == TENANTS
    ttl_seconds = tenant["jwtConfiguration"]["timeToLiveInSeconds"] if is_tenants else None
    return (
        signing_key(tenant, entity_type, ACCESS, now),
        int(ttl_seconds or setting(tenant, entity_type, "timeToLiveInSeconds")),
    )


def tenant_key(tenant: Document, member: str, now: Instant) -> str:
    """The id of the key that signs at this instant for applications without one of their own."""
    return _pending(tenant, member, now) or str(tenant["jwtConfiguration"][member])


def trusted_keys(tenant: Document, application: Document, member: str, now: Instant | None) -> frozenset[str]:
    """The ids of the keys whose tokens count for a client; `now` None asks for every key that is remembered."""
    return frozenset(key_id for holder in (tenant, application) for key_id in _trusted(holder, member, now))


def changed_tenant(stored: Document, document: Document, ttl_seconds: int, now: Instant) -> Document:
    """The `private` of a tenant that changes; `ttl_seconds` is how long tokens of its applications live at most."""
    before, after = stored["jwtConfiguration"], document["jwtConfiguration"]
    private = dict(stored.get("private", {}))
    for member in KEY_MEMBERS:
        if member in before:
            signed = tenant_key(stored, member, now)
            change = _Change(member, signed, before[member], after[member])
            lives = max(ttl_seconds, after["timeToLiveInSeconds"])
            private = _after(private, change, before["timeToLiveInSeconds"], after["timeToLiveInSeconds"], lives, now)
    return private


def changed_application(tenant: Document, stored: Document, document: Document, now: Instant) -> Document:
    """The `private` of an application that changes."""
    before, after = (int(setting(tenant, each, "timeToLiveInSeconds")) for each in (stored, document))
    private = dict(stored.get("private", {}))
    for member in KEY_MEMBERS:
        if member in tenant["jwtConfiguration"]:
            signed = signing_key(tenant, stored, member, now)
            change = _Change(member, signed, setting(tenant, stored, member), setting(tenant, document, member))
            private = _after(private, change, before, after, max(before, after), now)
    return private


def changed_entity_type(stored: Document, document: Document, tenants_ttl_seconds: int, now: Instant) -> Document:
    """The `private` of an entity type that changes; in no tenant do tokens live longer than `tenants_ttl_seconds`."""

    def of(entity_type: Document) -> tuple[str, int]:
        own = entity_type["jwtConfiguration"]
        return (own[ACCESS], own["timeToLiveInSeconds"]) if own["enabled"] else (TENANTS, tenants_ttl_seconds)

    (key_before, before), (key_after, after) = of(stored), of(document)
    pending = _pending(stored, ACCESS, now)
    change = _Change(ACCESS, key_before if pending is None else pending, key_before, key_after)
    return _after(dict(document["private"]), change, before, after, max(before, after), now)


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """What happens to one member: the key that `signed` until now, and the ids configured `before` and `after`."""

    member: str
    signed: str
    before: str
    after: str


def _after(private: Document, change: _Change, ttl_before: int, ttl_after: int, lives: int, now: Instant) -> Document:
    """`private` after a change; tokens live for `lives` seconds at most."""
    pending = dict(private.get("pendingKeys", {}))
    leaving = set()
    if change.before != change.after:
        leaving = {change.signed, change.before} - {change.after}
        pending.pop(change.member, None)
        if change.signed != change.after:
            pending[change.member] = {"keyId": change.signed, "until": now + LAG_MS}
    if ttl_after < ttl_before:
        # The key stays, and its tokens live shorter from now on; those that it signed before must not be forgotten.
        leaving |= {change.signed, change.before}
    leaving.discard(TENANTS)
    if not leaving and pending == private.get("pendingKeys", {}):
        return private
    dies = now + 2 * LAG_MS + lives * 1000 + MARGIN_MS
    retired = _merged(private.get("retiredKeys", []), {(key_id, change.member): dies for key_id in leaving}, now)
    return {**private, "pendingKeys": pending, "retiredKeys": retired}


def _merged(entries: list[Document], fresh: dict[tuple[str, str], int], now: Instant) -> list[Document]:
    """The retired keys with new ones among them, each once, without those that nobody can ask for any more."""
    until = {(entry["keyId"], entry["member"]): int(entry["until"]) for entry in entries}
    for key, instant in fresh.items():
        until[key] = max(instant, until.get(key, 0))
    latest = sorted(until.items(), key=lambda item: -item[1])
    return [
        {"keyId": key_id, "member": member, "until": instant}
        for index, ((key_id, member), instant) in enumerate(latest)
        if instant > now or (index < _REMEMBERED and instant > now - HINT_MS)
    ]


def _pending(holder: Document, member: str, now: Instant) -> str | None:
    entry = holder.get("private", {}).get("pendingKeys", {}).get(member)
    return str(entry["keyId"]) if entry is not None and entry["until"] > now else None


def _trusted(holder: Document, member: str, now: Instant | None) -> Iterator[str]:
    configuration = holder["jwtConfiguration"]
    if member in configuration:
        yield configuration[member]
    yield from configuration.get(VERIFICATION_MEMBERS[member], ())
    for entry in holder.get("private", {}).get("retiredKeys", ()):
        if entry["member"] == member and (now is None or entry["until"] > now):
            yield entry["keyId"]
