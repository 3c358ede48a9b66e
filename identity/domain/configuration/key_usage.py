"""The owner of a stored key, and the instant since which it is published.

    tenantId   the tenant that the service generated the key for: no other tenant may use it
    assignedInstant   when a document last named the key, which is published since then

They are members of `private` of a key. A key that an administrator made has no `tenantId`: it belongs to every tenant
that an administrator assigned it to, and serves every purpose that its type permits. What is verified keeps signatures
of one purpose from being accepted for another: the type, issuer, audience and tenant of a token (RFC 8725 section 3).
"""

from __future__ import annotations

from identity.call import Document
from identity.instants import Instant


def owner(key: Document) -> str | None:
    """Return the tenant that the key was generated for, if any."""
    found: str | None = key.get("private", {}).get("tenantId")
    return found


def published_since(key: Document) -> Instant:
    """Return the instant since which documents that name the key keep it in the key set."""
    return Instant(max(key["insertInstant"], key.get("private", {}).get("assignedInstant", 0)))


def may_sign_tokens(key: Document, tenant_id: str) -> bool:
    """Return whether the key may sign tokens of the tenant."""
    return owner(key) in {None, tenant_id}


def may_sign_deliveries(key: Document) -> bool:
    """Return whether the key may sign, or authenticate, deliveries to webhooks and messengers."""
    return owner(key) is None
