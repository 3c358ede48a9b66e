"""The integrations: one document per instance that API clients store and read."""

from __future__ import annotations

import pytest

from tests.api.test_consents import MERGE_PATCH, codes
from tests.conftest import checking_client

PATH = "/api/integration"


@pytest.fixture
async def restored(api):
    yield
    await api.put(PATH, json={"integrations": {}})


@pytest.mark.requirement("forms-8")
async def test_integrations_are_stored_and_merged(api, restored) -> None:
    empty = (await api.put(PATH, json={"integrations": {}})).json()["integrations"]
    assert empty["kafka"] == {"enabled": False, "producer": {}}
    assert empty["cleanspeak"] == {"enabled": False, "usernameModeration": {"enabled": False}}
    kafka = {"enabled": True, "defaultTopic": "logins", "producer": {"bootstrap.servers": "localhost:9092"}}
    assert (await api.patch(PATH, json={"integrations": {"kafka": kafka}})).status_code == 200
    change = {"integrations": {"cleanspeak": {"apiKey": "secret", "url": "https://clean.example.com"}}}
    await api.patch(PATH, json=change, headers=MERGE_PATCH)
    found = (await api.get(PATH)).json()["integrations"]
    assert found["kafka"] == kafka
    assert (found["cleanspeak"]["apiKey"], found["cleanspeak"]["enabled"]) == ("secret", False)


async def test_secrets_are_sealed_at_rest_and_masked_for_keys_that_only_read(api, manager, service, restored) -> None:
    cleanspeak = {"apiKey": "moderate", "url": "https://x.example.com"}
    members = {"cleanspeak": cleanspeak, "kafka": {"producer": {"a.b": "hush"}}}
    assert (await api.put(PATH, json={"integrations": members})).status_code == 200
    stored = str(await service.services.runtime.database.collection("integrations").find_one({}))
    assert "moderate" not in stored
    assert "hush" not in stored
    wanted = {"permissions": {"endpoints": {PATH: ["GET"]}}}
    key = (await manager.post("/api/api-key", json={"apiKey": wanted})).json()["apiKey"]["key"]
    async with checking_client(service.base_url, headers={"Authorization": key}) as reader:
        found = (await reader.get(PATH)).json()["integrations"]
        assert (await reader.put(PATH, json={"integrations": {}})).status_code == 401
    assert "moderate" not in str(found)
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"kafka": {"enabled": True}}, {"[blank]integrations.kafka.defaultTopic"}),
        (
            {"cleanspeak": {"enabled": True}},
            {"[blank]integrations.cleanspeak.apiKey", "[blank]integrations.cleanspeak.url"},
        ),
        ({"kafka": {"producer": {"a": "x" * 4001}}}, {"[tooLong]integrations.kafka.producer.a"}),
        (
            {"cleanspeak": {"usernameModeration": {"applicationId": "x"}}},
            {"[couldNotConvert]integrations.cleanspeak.usernameModeration.applicationId"},
        ),
    ],
)
async def test_invalid_integrations_change_nothing(api, members, expected) -> None:
    before = (await api.get(PATH)).json()
    assert codes(await api.put(PATH, json={"integrations": members})) == expected
    assert (await api.get(PATH)).json() == before
