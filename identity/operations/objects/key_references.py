"""Key references of tenants, applications and entity types: their validation, and the rotation of signing keys.

A request that changes signing keys returns when the change is in force: every process publishes the new key before it
signs (docs/decisions/0021).
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import uuid
from collections.abc import Callable, Iterable, Sequence

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.configuration import applications, key_rotation, key_usage
from identity.domain.configuration.token_settings import (
    ID_MEMBER,
    KEY_MEMBERS,
    TokenSettings,
    effective_keys,
    effective_ttl_seconds,
)
from identity.errors import FieldError
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.objects import key_assignments
from identity.services import Services
from identity.store.mongo import Session, Write
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS, TYPES

DEFAULT_KEY_NAME = "Default signing key"


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """A change of signing keys: `private` to store, by the instant of the write, and the events to approve before."""

    private_at: Callable[[Instant], Document]
    before_commit: tuple[Event, ...] = ()


def default_signing_key_id(instance_id: str) -> str:
    """Return the id of the default signing key, the same in every process of an instance."""
    return str(uuid.uuid5(uuid.UUID(instance_id), DEFAULT_KEY_NAME))


async def problems(
    services: Services, call: Call, document: Document, stored: Document | None, path: str
) -> list[FieldError]:
    """Return a field error for each key that is missing, cannot sign, or may not be referenced.

    `path` is that of the jwtConfiguration. A tenant-scoped caller may reference the keys that are assigned to its
    tenant, and those of `stored`.
    """
    settings = TokenSettings.of(document)
    before = set() if stored is None else TokenSettings.of(stored).key_ids
    foreign = await key_assignments.not_assigned(services, call, settings.key_ids, before)
    if foreign:
        return [
            FieldError.invalid(f"{path}.{name}", "must name a key that is assigned to the tenant")
            for name, key_id in settings.references.items()
            if key_id in foreign
        ]
    errors = [
        FieldError.invalid(f"{path}.{name}", "must name a key that can sign")
        for name, key_id in settings.signing_keys.items()
        if not await _may_sign(services, name, key_id)
    ]
    errors += [
        FieldError.invalid(f"{path}.{name}", "must name an existing key")
        for name, key_id in settings.verification_references.items()
        if await services.configuration.keys.find_cached(None, key_id) is None
    ]
    return errors


async def strict_problems(services: Services, application: Document) -> list[FieldError]:
    """Return an error for an application with the profile strict whose ID token key has an unfit algorithm."""
    tenant = await services.configuration.tenants.find_cached(None, application["tenantId"])
    if tenant is None or not security_profiles.is_strict(application):
        return []
    algorithm = await _algorithm(services, effective_keys(tenant, application).get(ID_MEMBER))
    return [applications.contradiction_error(found) for found in security_profiles.id_token_contradictions(algorithm)]


async def strict_tenant_problems(services: Services, document: Document, stored: Document | None) -> list[FieldError]:
    """Return an error for a tenant whose new ID token key is unfit for its applications with the profile strict."""
    key_id = TokenSettings.of(document).signing_keys.get(ID_MEMBER)
    if stored is None or key_id == TokenSettings.of(stored).signing_keys.get(ID_MEMBER):
        return []
    if not list(security_profiles.id_token_contradictions(await _algorithm(services, key_id))):
        return []
    for application in await services.configuration.applications.find_all(TenantId(document["id"])):
        if security_profiles.is_strict(application) and not TokenSettings.of(application).has_own(ID_MEMBER):
            field = "tenant.jwtConfiguration.idTokenKeyId"
            message = f"The [{field}] must name an ES256, PS256 or EdDSA key: the application [{application['name']}]"
            return [FieldError.of("invalid", field, f"{message} has the profile strict and no such key of its own.")]
    return []


async def can_sign(services: Services, key_id: str) -> bool:
    """Return whether the key exists and has a secret or a private key."""
    key = await services.configuration.keys.find_cached(None, key_id)
    return key is not None and key["algorithm"] in TYPES and ("secret" in key or "privateKey" in key)


async def can_verify(services: Services, key_id: str) -> bool:
    """Return whether the key exists and has a secret or a public key."""
    key = await services.configuration.keys.find_cached(None, key_id)
    return key is not None and ("secret" in key or "publicKey" in key)


async def of_tenant(services: Services, document: Document, stored: Document) -> Rotation:
    """Return the rotation of a changed tenant, with the event for the applications that sign with its keys."""
    before, after = TokenSettings.of(stored), TokenSettings.of(document)
    changed = {member for member in KEY_MEMBERS if before.signing_keys.get(member) != after.signing_keys.get(member)}
    if not changed and after.ttl_seconds >= before.ttl_seconds:
        return Rotation(lambda _now: dict(stored.get("private", {})))
    applications = [
        application
        for application in await services.configuration.applications.find_all(TenantId(document["id"]))
        if not _has_own_keys(application, KEY_MEMBERS)
    ]
    longest = max(effective_ttl_seconds(stored, application) for application in (None, *applications))
    public = {
        member
        for member in changed
        if await _any_public(services, before.signing_keys.get(member), after.signing_keys.get(member))
    }
    affected = [one["id"] for one in applications if not _has_own_keys(one, public)]
    return Rotation(
        functools.partial(key_rotation.rotate_tenant, stored, document, longest),
        (_change_event(affected),) if public else (),
    )


async def of_application(services: Services, tenant: Document, document: Document, stored: Document) -> Rotation:
    """Return the rotation of a changed application."""
    before_commit: tuple[Event, ...] = ()
    for member in KEY_MEMBERS:
        before, after = (effective_keys(tenant, each).get(member) for each in (stored, document))
        if before != after and await _any_public(services, before, after):
            before_commit = (_change_event([document["id"]]),)
    return Rotation(functools.partial(key_rotation.rotate_application, tenant, stored, document), before_commit)


async def of_entity_type(services: Services, document: Document, stored: Document) -> Rotation:
    """Return the rotation of a changed entity type. It has no event, because the event type is for applications."""
    lifetime = "jwtConfiguration.timeToLiveInSeconds"
    tenants = await services.configuration.tenants.distinct_cached(None, "token lifetimes", {}, (lifetime,))
    longest = max(effective_ttl_seconds(tenant) for tenant in tenants)
    return Rotation(functools.partial(key_rotation.rotate_entity_type, stored, document, longest))


async def commit(
    services: Services,
    call: Call,
    document: Document,
    rotation: Rotation,
    writes: Sequence[Write],
) -> None:
    """Commit a changed object with its rotation, and return when the rotation is in force.

    The last of the writes stores the object.
    """
    *checks, replace = writes
    rotate = functools.partial(_rotate, services, document, rotation, replace)
    await services.bus.commit(call, Change([*checks, rotate], before_commit=rotation.before_commit))
    await in_force(services, document["private"])


async def _rotate(
    services: Services,
    document: Document,
    rotation: Rotation,
    replace: Write,
    session: Session | None,
) -> None:
    """Store an object whose rotation begins with this write."""
    document["private"] = rotation.private_at(services.clock.now())
    await replace(session)


async def in_force(services: Services, private: Document) -> None:
    """Wait until a rotation is in force; return at once if no key changed."""
    until = max((entry["until"] for entry in private.get("pendingKeys", {}).values()), default=0)
    await _wait_until(services, until)


async def published(services: Services, tenant: Document, application: Document | None = None) -> None:
    """Wait until every process publishes the signing keys of a new tenant or application."""
    await published_keys(services, *effective_keys(tenant, application).values())


async def published_keys(services: Services, *wanted: str) -> None:
    """Wait until every process publishes those of the keys that exist."""
    # The default signing key is published before any process serves requests.
    key_ids = set(wanted) - {default_signing_key_id(services.runtime.instance_id)}
    keys = [await services.configuration.keys.find_cached(None, key_id) for key_id in key_ids]
    made = max((key_usage.published_since(key) for key in keys if key is not None and key["type"] != "HMAC"), default=0)
    await _wait_until(services, made + key_rotation.LAG_MS)


async def _wait_until(services: Services, instant: int) -> None:
    milliseconds = min(instant - services.clock.now(), key_rotation.LAG_MS)
    if milliseconds > 0:
        await asyncio.sleep(milliseconds / 1000)


async def _algorithm(services: Services, key_id: str | None) -> str | None:
    key = None if key_id is None else await services.configuration.keys.find_cached(None, key_id)
    return None if key is None else str(key["algorithm"])


async def _may_sign(services: Services, member: str, key_id: str) -> bool:
    """Return whether a key may sign for a member: a client secret signs ID tokens only."""
    if key_id in CLIENT_SECRET_KEYS:
        return member == ID_MEMBER
    return await can_sign(services, key_id)


async def _any_public(services: Services, *key_ids: str | None) -> bool:
    """Return whether one of the keys has a public key."""
    keys = [await services.configuration.keys.find_cached(None, key_id) for key_id in key_ids if key_id is not None]
    return any(key is not None and key["type"] != "HMAC" for key in keys)


def _has_own_keys(application: Document, members: Iterable[str]) -> bool:
    settings = TokenSettings.of(application)
    return all(settings.has_own(member) for member in members)


def _change_event(application_ids: list[str]) -> Event:
    """Return `jwt.public-key.update`: these applications sign with other keys from now on."""
    return Event("jwt.public-key.update", {"applicationIds": sorted(application_ids)})


async def has_certificate(services: Services, key_id: str) -> bool:
    """Whether a key has a certificate and its private key, which a TLS client needs."""
    key = await services.configuration.keys.find_cached(None, key_id)
    return key is not None and "certificate" in key and "privateKey" in key
