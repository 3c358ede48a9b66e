"""Example events, for trying a webhook out before anything happens: made up from the schema of their type."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from identity.call import Document
from identity.instants import Instant

TEST = "test"
"""The type of an event that tells of nothing but itself."""

_CHOICES = {
    "authenticationType": "PASSWORD",
    "identityProviderType": "OpenIDConnect",
}
"""Of several values that an event may have, the one that says most to a reader."""

_TEXTS = {
    "displayString": "Denver, Colorado, US",
    "email": "test@example.com",
    "fullName": "Test User",
    "ipAddress": "192.0.2.1",
    "userAgent": "test",
    "username": "test",
}


def sample(event_type: str, schema: Mapping[str, Any], event_id: str, now: Instant) -> Document:
    """An event of this type, about objects that do not exist; `schema` is the one that its events fit."""
    event: Document = _example(schema["properties"]["event"], "event", now)
    return {**event, "createInstant": now, "id": event_id, "type": event_type}


def of_nothing(event_id: str, now: Instant) -> Document:
    """The event `test`."""
    return {"createInstant": now, "id": event_id, "message": "Test event", "type": TEST}


def _example(schema: Mapping[str, Any], name: str, now: Instant) -> Any:
    """A value that fits: of an object its required members and those that say who somebody is."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _CHOICES[name] if _CHOICES.get(name) in schema["enum"] else schema["enum"][0]
    match schema.get("type"):
        case "object":
            wanted = {*schema.get("required", ()), *_TEXTS}
            members = schema.get("properties", {})
            return {key: _example(child, key, now) for key, child in members.items() if key in wanted}
        case "array":
            return [_example(schema["items"], name, now)] * schema.get("minItems", 0)
        case "integer":
            return now if name.endswith("Instant") else 1
        case "number":
            return 1.0
        case "boolean":
            return True
        case _:
            return _text(schema, name)


def _text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") == "uuid":
        return _id(name)
    return "2000-01-31" if schema.get("format") == "date" else _TEXTS.get(name, "test")


def _id(name: str) -> str:
    """The id of what the member is called: the same wherever one example names it."""
    digest = hashlib.sha256(f"{name.removesuffix('Id')} of an example".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
