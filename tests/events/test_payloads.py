"""Delivered events: common members, order and schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from identity.domain.webhooks import webhook_samples
from identity.events.catalogue import EVENTS, INSTANCE_EVENTS, TRANSACTIONAL_EVENTS
from identity.events.changes import Event
from identity.instants import Instant
from identity.schemas import FOLDER, Schemas
from tests.events.samples import PAYLOADS, USER_ID, user

SCHEMAS = Schemas()


@pytest.mark.requirement("contract-events-1")
def test_catalogue_has_all_types() -> None:
    assert len(EVENTS) == 63
    assert len(TRANSACTIONAL_EVENTS) == 31
    assert {"audit-log.create", "event-log.create", "kickstart.success"} == INSTANCE_EVENTS
    assert not any(name.endswith(".complete") for name in TRANSACTIONAL_EVENTS)


def test_every_type_has_a_schema_and_a_sample() -> None:
    files = {file.name.removesuffix(".json") for file in Path(FOLDER, "events").glob("*.json")}
    assert files - {"definitions"} == set(PAYLOADS) == set(EVENTS)


@pytest.mark.requirement("contract-events-1")
def test_schemas_of_webhooks_and_tenants_list_the_types_of_the_catalogue() -> None:
    webhook = SCHEMAS["api/webhook.json"].schema["properties"]["webhook"]["properties"]["eventsEnabled"]
    assert set(EVENTS) <= set(webhook["propertyNames"]["enum"])
    tenant = SCHEMAS["api/tenant.json"].schema["properties"]["tenant"]["properties"]["eventConfiguration"]
    assert set(tenant["properties"]["events"]["propertyNames"]["enum"]) >= set(EVENTS)


async def body_of(engine: Any, name: str, payload: dict[str, Any] | None = None, **event_info: Any) -> bytes:
    """The bytes that would be delivered."""
    engine.enable(name)
    engine.add_webhook("http://127.0.0.1:9/", name)
    await engine.bus.announce(engine.call(**event_info), [Event(name, PAYLOADS[name] if payload is None else payload)])
    (event,) = await engine.log.find_all(None, {"type": name})
    return event["body"].encode()


@pytest.mark.requirement("webhooks-15.3-42")
@pytest.mark.parametrize("name", sorted(PAYLOADS))
async def test_event_fits_its_schema(engine: Any, name: str) -> None:
    body = await body_of(engine, name)
    assert list(SCHEMAS[f"events/{name}.json"].errors(orjson.loads(body))) == []


@pytest.mark.requirement("webhooks-10-20")
@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_example_of_an_event_fits_its_schema_and_is_about_one_object(name: str) -> None:
    example = webhook_samples.sample(name, SCHEMAS[f"events/{name}.json"].schema, USER_ID, Instant(1_700_000_000_000))
    assert list(SCHEMAS[f"events/{name}.json"].errors({"event": example})) == []
    assert (example["id"], example["type"]) == (USER_ID, name)
    if "original" in example and "user" in example:
        assert example["original"]["id"] == example["user"]["id"]


ENUMERATED = frozenset(
    {"algorithm", "authenticationType", "breachedPasswordStatus", "connectionType", "identityProviderType", "level"}
    | {"loginIdType", "method", "phase", "status", "threatsDetected", "type", "usernameStatus"}
)


@pytest.mark.requirement("audit-b6-test-events")
@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_example_of_an_event_has_values_that_typed_clients_can_read(name: str) -> None:
    """For enumerations of the published API, an invented value would break typed clients."""

    def texts(value: Any, member: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, child in value.items():
                yield from texts(child, key)
        elif isinstance(value, list):
            for child in value:
                yield from texts(child, member)
        elif isinstance(value, str):
            yield member, value

    example = webhook_samples.sample(name, SCHEMAS[f"events/{name}.json"].schema, USER_ID, Instant(1_700_000_000_000))
    assert [found for found in texts(example, "") if found[0] in ENUMERATED and found[1] == "test"] == []
    assert example.get("threatsDetected", ["ImpossibleTravel"]) == ["ImpossibleTravel"]
    assert example.get("authenticationType", "PASSWORD") == "PASSWORD"


async def test_event_has_the_common_members(engine: Any) -> None:
    call_before = engine.clock.now()
    event = orjson.loads(await body_of(engine, "user.create"))["event"]
    assert event["type"] == "user.create"
    assert event["tenantId"] == engine.tenant_id
    assert event["linkedObjectId"] == USER_ID
    assert call_before <= event["createInstant"] <= engine.clock.now()
    assert event["info"] == {"ipAddress": "192.0.2.7", "userAgent": "Browser/1"}


@pytest.mark.requirement("webhooks-15.3-22", "webhooks-2-6")
async def test_keys_are_sorted_and_nulls_left_out_at_every_level(engine: Any) -> None:
    body = await body_of(engine, "user.create", {"user": user(data={"b": None, "a": [{"z": 1, "y": None}]})})
    assert body == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    event = json.loads(body)["event"]
    assert event["user"]["data"] == {"a": [{"z": 1}]}
    assert "birthDate" not in event["user"]
    assert event["user"]["memberships"] == []


async def test_caller_states_the_origin_of_the_request(engine: Any) -> None:
    body = await body_of(engine, "user.login.success", None, ipAddress="198.51.100.9", deviceName="Phone")
    event = orjson.loads(body)["event"]
    assert event["info"] == {"deviceName": "Phone", "ipAddress": "198.51.100.9", "userAgent": "Browser/1"}
    assert event["ipAddress"] == "198.51.100.9"


@pytest.mark.requirement("core-13-16")
async def test_instance_event_has_neither_tenant_nor_origin(engine: Any) -> None:
    event = orjson.loads(await body_of(engine, "kickstart.success"))["event"]
    assert event.keys() == {"createInstant", "id", "instanceId", "type"}


async def test_payload_cannot_replace_the_envelope(engine: Any) -> None:
    event = orjson.loads(await body_of(engine, "user.create", {"user": user(), "id": "x", "type": "y"}))["event"]
    assert event["type"] == "user.create"
    assert event["id"] != "x"


SECRETS = {
    "clientSecret", "code", "encryptionScheme", "factor", "hash", "oneTimeCode", "oneTimePassword", "original",
    "password", "recoveryCodes", "refreshToken", "refreshTokens", "salt", "secret", "token", "twoFactorSecret",
}  # fmt: skip


def is_harmless(shape: dict[str, Any]) -> bool:
    """The original object, token claims, enumerated reasons, and empty codes."""
    return "$ref" in shape or "enum" in shape or shape.get("type") == "object" or shape.get("maxItems") == 0


def leaf_values(shape: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every member of the objects of a schema, and every object that allows additional members."""
    if isinstance(shape, list):
        for each in shape:
            yield from leaf_values(each, path)
    elif isinstance(shape, dict):
        if "properties" in shape and shape.get("additionalProperties", True) is not False:
            yield f"{path}.*", shape
        for name, value in shape.get("properties", {}).items():
            yield f"{path}.{name}", value
            yield from leaf_values(value, f"{path}.{name}")
        for keyword in ("items", "anyOf", "oneOf", "allOf", "additionalProperties"):
            yield from leaf_values(shape.get(keyword), path)


@pytest.mark.requirement("webhooks-15.3-42")
@pytest.mark.parametrize("name", sorted({*PAYLOADS, "definitions"}))
def test_event_schemas_contain_no_secrets(name: str) -> None:
    """The suite validates every event that it receives, so members missing in the schemas are in no event."""
    schema = orjson.loads(Path(FOLDER, "events", f"{name}.json").read_bytes())
    found = []
    for path, shape in leaf_values([schema, *schema.get("$defs", {}).values()]):
        member = path.rpartition(".")[2]
        if member == "*" or (member in SECRETS and not is_harmless(shape)):
            found.append(path)
    # The one event of which tokens are the point; they lie sealed, and no log shows them.
    expected = {"jwt.refresh": [".event.original", ".event.refreshToken", ".event.token"]}
    assert sorted(found) == expected.get(name, []), name


def test_unknown_type_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        _ = Event("user.crate", {}).definition
