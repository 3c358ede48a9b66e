"""Selection of the keys in a published key set: those that sign, or recently signed, tokens and deliveries."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Iterable, Iterator
from typing import Final

from identity.call import Document
from identity.domain.configuration import token_settings
from identity.domain.configuration.token_settings import TokenSettings
from identity.ids import TenantId
from identity.instants import Instant
from identity.services import Services
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS

_SIGNING_MEMBERS: Final = (
    *(f"jwtConfiguration.{name}" for name in token_settings.REFERENCES),
    "private.pendingKeys",
    "private.retiredKeys",
)
"""The members of a tenant, an application or an entity type that name keys."""
_NAMES_KEYS: Final = {"$or": [{name: {"$exists": True}} for name in _SIGNING_MEMBERS]}


@dataclasses.dataclass(frozen=True, slots=True)
class KeySettings:
    """The settings that name keys: members of tenants, applications and entity types, and webhooks.

    The lists are cached: they are the same objects as long as nothing changed.
    """

    signers: tuple[list[Document], ...]
    webhooks: list[Document]
    tenant_id: str | None = None

    def is_same(self, other: KeySettings) -> bool:
        """Whether nothing has changed between the two."""
        pairs = zip((*self.signers, self.webhooks), (*other.signers, other.webhooks), strict=True)
        return all(one is two or not (one or two) for one, two in pairs)


@dataclasses.dataclass(frozen=True, slots=True)
class KeySources:
    """What a key set is built from: the settings, the ids of the keys that they name, and the public half of those."""

    settings: KeySettings
    key_ids: list[str]
    keys: list[Document]

    def is_same(self, other: KeySources) -> bool:
        """Whether nothing has changed between the two."""
        keys = len(self.keys) == len(other.keys) and all(map(operator.is_, self.keys, other.keys))
        return keys and self.settings.is_same(other.settings)


async def find_sources(services: Services, tenant: Document | None, known: KeySources | None = None) -> KeySources:
    """Return what determines the key set of the instance, or of one tenant; `known` is an earlier result.

    Only the keys of the set are read: an instance may have any number of keys.
    """
    settings = await _find_settings(services, tenant)
    is_known = known is not None and known.settings.is_same(settings)
    key_ids = known.key_ids if known is not None and is_known else sorted(_named_keys(settings))
    return KeySources(settings, key_ids, await services.configuration.keys.public_halves(None, key_ids))


async def _find_settings(services: Services, tenant: Document | None) -> KeySettings:
    tenants, applications = services.configuration.tenants, services.configuration.applications
    members = _SIGNING_MEMBERS
    webhooks = await services.configuration.webhooks.list_cached(None, "all", {})
    types = await services.directory.entity_types.distinct_cached(None, "signers", {}, members)
    if tenant is None:
        every = await tenants.distinct_cached(None, "signers", {}, members)
        naming = await applications.distinct_cached_across_tenants("signers", _NAMES_KEYS, members)
        return KeySettings((every, naming, types), webhooks)
    tenant_id = tenant["id"]
    only = await tenants.distinct_cached(None, f"signer {tenant_id}", {"_id": tenant_id}, members)
    own = await applications.distinct_cached(TenantId(tenant_id), "signers", _NAMES_KEYS, members)
    return KeySettings((only, own, types), webhooks, tenant_id)


def select_published(found: KeySources, now: Instant) -> tuple[list[Document], Instant | None]:
    """Return the keys of the set, newest first, and the instant at which the first of them expires from it, if any.

    Imported public keys are excluded: publishing one would let its owner sign as this service.
    """
    retiring = [entry for signer in _signers(found.settings) for entry in _retiring(signer) if entry["until"] > now]
    used = _current_keys(found.settings) | {entry["keyId"] for entry in retiring}
    keys = [key for key in found.keys if key["id"] in used and key.get("hasPrivateKey")]
    keys.sort(key=lambda key: (key["insertInstant"], key["id"]), reverse=True)
    return keys, min((entry["until"] for entry in retiring), default=None)


def _named_keys(settings: KeySettings) -> set[str]:
    """Return the ids of all keys that are in use, or were recently."""
    retiring = (entry["keyId"] for signer in _signers(settings) for entry in _retiring(signer))
    return _current_keys(settings).union(retiring) - CLIENT_SECRET_KEYS.keys()


def _current_keys(settings: KeySettings) -> set[str]:
    used = {key_id for one in _signers(settings) for key_id in TokenSettings.of(one).key_ids}
    return used | {key_id for webhook in _webhooks_of(settings) for key_id in _signing(webhook)}


def _signers(settings: KeySettings) -> Iterator[Document]:
    return itertools.chain.from_iterable(settings.signers)


def _retiring(signer: Document) -> Iterator[Document]:
    """Yield the keys that sign or verify until an instant: {"keyId", "until"}."""
    private = signer.get("private", {})
    yield from private.get("retiredKeys", ())
    yield from private.get("pendingKeys", {}).values()


def _webhooks_of(settings: KeySettings) -> Iterable[Document]:
    """Return the webhooks of the tenant of the set, or all of them."""
    tenant_id = settings.tenant_id
    return (
        webhook
        for webhook in settings.webhooks
        if tenant_id is None or webhook["global"] or tenant_id in webhook["tenantIds"]
    )


def _signing(webhook: Document) -> Iterator[str]:
    signature = webhook["signatureConfiguration"]
    return (signature[name] for name in ("signingKeyId", "previousSigningKeyId") if name in signature)
