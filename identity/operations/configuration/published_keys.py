"""Selection of the keys in a published key set: those that sign, or recently signed, tokens and deliveries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from identity.call import Document
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.objects.key_assignments import referenced_key_ids
from identity.services import Services

_NAMES_KEYS: Final = {
    "$or": [
        {name: {"$exists": True}}
        for name in (
            "jwtConfiguration.accessTokenKeyId",
            "jwtConfiguration.idTokenKeyId",
            "jwtConfiguration.accessTokenVerificationKeyIds",
            "jwtConfiguration.idTokenVerificationKeyIds",
            "private.pendingKeys",
            "private.retiredKeys",
        )
    ]
}
_UNIVERSAL: Final = {**_NAMES_KEYS, "universalConfiguration.universal": True}


@dataclasses.dataclass(frozen=True, slots=True)
class KeySources:
    """The documents that determine a key set: keys, documents that configure signing keys, and webhooks.

    The lists are cached: they are the same objects as long as nothing changed.
    """

    keys: list[Document]
    signers: tuple[list[Document], ...]
    webhooks: list[Document]
    tenant_id: str | None = None

    def is_same(self, other: KeySources) -> bool:
        """Whether nothing has changed between the two."""
        mine, others = ((each.keys, *each.signers, each.webhooks) for each in (self, other))
        pairs = zip(mine, others, strict=True)
        return all(one is two or not (one or two) for one, two in pairs)


async def find_sources(services: Services, tenant: Document | None) -> KeySources:
    """Return the documents that determine the key set of the instance, or of one tenant."""
    keys = await services.configuration.keys.list_cached(None, "all", {})
    webhooks = await services.configuration.webhooks.list_cached(None, "all", {})
    types = await services.directory.entity_types.list_cached(None, "all", {})
    if tenant is None:
        tenants = await services.configuration.tenants.list_cached(None, "all", {})
        applications = await services.configuration.applications.list_cached_across_tenants("naming keys", _NAMES_KEYS)
        return KeySources(keys, (tenants, applications, types), webhooks)
    tenants = await services.configuration.tenants.list_cached(None, f"only {tenant['id']}", {"_id": tenant["id"]})
    own = await services.configuration.applications.list_cached(TenantId(tenant["id"]), "naming keys", _NAMES_KEYS)
    universal = await services.configuration.applications.list_cached_across_tenants(
        "universal naming keys", _UNIVERSAL
    )
    return KeySources(keys, (tenants, own, universal, types), webhooks, tenant["id"])


def select_published(found: KeySources, now: Instant) -> tuple[list[Document], Instant | None]:
    """Return the keys of the set, and the instant at which the first of them expires from it, if any.

    Imported public keys are excluded: publishing one would let its owner sign as this service.
    """
    signers = [signer for signers in found.signers for signer in signers]
    used = {key_id for signer in signers for key_id in referenced_key_ids(signer["jwtConfiguration"])}
    retiring = [entry for signer in signers for entry in _retiring(signer) if entry["until"] > now]
    used |= {entry["keyId"] for entry in retiring}
    used |= {key_id for webhook in _webhooks_of(found) for key_id in _signing(webhook)}
    keys = [key for key in found.keys if key["id"] in used and key.get("hasPrivateKey")]
    return keys, min((entry["until"] for entry in retiring), default=None)


def _retiring(signer: Document) -> Iterator[Document]:
    """Yield the keys that sign or verify until an instant: {"keyId", "until"}."""
    private = signer.get("private", {})
    yield from private.get("retiredKeys", ())
    yield from private.get("pendingKeys", {}).values()


def _webhooks_of(found: KeySources) -> Iterable[Document]:
    """Return the webhooks of the tenant of the set, or all of them."""
    tenant_id = found.tenant_id
    return (
        webhook
        for webhook in found.webhooks
        if tenant_id is None or webhook["global"] or tenant_id in webhook["tenantIds"]
    )


def _signing(webhook: Document) -> Iterator[str]:
    signature = webhook["signatureConfiguration"]
    return (signature[name] for name in ("signingKeyId", "previousSigningKeyId") if name in signature)
