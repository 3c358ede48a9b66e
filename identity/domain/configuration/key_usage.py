"""The permitted usage of a stored key, and its tenant.

    usage      whether the key signs tokens or deliveries to receivers, or belongs to identity providers
    tenantId   the tenant that the service generated the key for: no other tenant may use it
    assignedInstant   when a document last named the key, which is published since then

They are members of `private` of a key. A key that an administrator made has no `tenantId`: it belongs to every tenant
that an administrator assigned it to. One purpose for each key prevents a signature made for one purpose from being
presented for another (RFC 8725 section 2.8, NIST SP 800-57 section 5.2).
"""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.instants import Instant

TOKENS: Final = "tokens"
DELIVERIES: Final = "deliveries"
IDENTITY_PROVIDERS: Final = "identityProviders"
MIXED: Final = "mixed"
"""The usage of a key that served several purposes before usages were introduced; it accepts no further one."""

USAGES: Final = {
    "tenants": TOKENS,
    "applications": TOKENS,
    "entity_types": TOKENS,
    "webhooks": DELIVERIES,
    "messengers": DELIVERIES,
    "connectors": DELIVERIES,
    "identity_providers": IDENTITY_PROVIDERS,
}
"""The usage of a key by the collection of the documents that refer to it."""

_PROVIDER_VERIFICATION: Final = frozenset({"defaultKeyId", "verificationKeyIds"})


def owner(key: Document) -> str | None:
    """Return the tenant that the key was generated for, if any."""
    found: str | None = key.get("private", {}).get("tenantId")
    return found


def usage(key: Document) -> str | None:
    """Return the purpose of the key, or None while nothing refers to it."""
    found: str | None = key.get("private", {}).get("usage")
    return found


def published_since(key: Document) -> Instant:
    """Return the instant since which documents that name the key keep it in the key set."""
    return Instant(max(key["insertInstant"], key.get("private", {}).get("assignedInstant", 0)))


def may_sign_tokens(key: Document, tenant_id: str) -> bool:
    """Whether the key may sign tokens of the tenant."""
    return owner(key) in {None, tenant_id} and usage(key) in {None, TOKENS, MIXED}


def may_sign_deliveries(key: Document) -> bool:
    """Whether the key may sign, or authenticate, deliveries to webhooks and messengers."""
    return owner(key) is None and usage(key) in {None, DELIVERIES, MIXED}


def only_verifies(collection: str, member: str, key: Document) -> bool:
    """Whether a reference uses only the public key, which does not assign the key to identity providers."""
    return collection == "identity_providers" and member in _PROVIDER_VERIFICATION and key["type"] != "HMAC"
