"""Example events, for trying a webhook out before anything happens."""

from __future__ import annotations

from identity.call import Document
from identity.instants import Instant

_SOMEBODY = "00000000-0000-4000-8000-000000000001"
_SOMEWHERE = "00000000-0000-4000-8000-000000000002"


def sample(event_type: str, event_id: str, now: Instant) -> Document:
    """An event of this type about a user who does not exist."""
    event: Document = {
        "createInstant": now,
        "id": event_id,
        "info": {"ipAddress": "192.0.2.1", "userAgent": "test"},
        "tenantId": _SOMEWHERE,
        "type": event_type,
    }
    if event_type.startswith("user."):
        user = {"active": True, "email": "test@example.com", "id": _SOMEBODY, "tenantId": _SOMEWHERE}
        event |= {"linkedObjectId": _SOMEBODY, "user": user}
    return event
