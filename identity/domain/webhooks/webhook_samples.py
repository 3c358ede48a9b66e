"""Sample events for testing a webhook, generated from the JSON schema of their type and sample_values.json."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from identity.call import Document
from identity.instants import Instant

TEST: Final = "test"
"""The type of an event without any content of its own."""

_VALUES: Final = json.loads(Path(__file__).with_name("sample_values.json").read_text("utf-8"))
_ENUM_VALUES: Final[Mapping[str, str]] = _VALUES["enums"]
"""By member, the value to use in place of the first of its schema."""
_TEXTS: Final[Mapping[str, str]] = _VALUES["texts"]
"""Values by member; samples contain these members even if they are optional."""


def sample(event_type: str, schema: Mapping[str, Any], event_id: str, now: Instant) -> Document:
    """An event of a type about objects that do not exist; `schema` is the schema of its events."""
    event: Document = _value(schema["properties"]["event"], "event", now)
    return {**event, "createInstant": now, "id": event_id, "type": event_type}


def test_event(event_id: str, now: Instant) -> Document:
    """The event `test`."""
    return {"createInstant": now, "id": event_id, "message": "Test event", "type": TEST}


def _value(schema: Mapping[str, Any], name: str, now: Instant) -> Any:
    """A valid value; an object has its required members and those of sample_values.json."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _ENUM_VALUES[name] if _ENUM_VALUES.get(name) in schema["enum"] else schema["enum"][0]
    match schema.get("type"):
        case "object":
            names = {*schema.get("required", ()), *_TEXTS}
            members = schema.get("properties", {})
            return {key: _value(child, key, now) for key, child in members.items() if key in names}
        case "array":
            items = schema["items"]
            return [_value(items, name, now)] * max(schema.get("minItems", 0), 1 if "enum" in items else 0)
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
    """An id derived from the member's name, so that references within a sample match."""
    digest = hashlib.sha256(f"{name.removesuffix('Id')} of an example".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
