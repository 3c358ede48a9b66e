"""The official Python client, unmodified, on connectors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity.ids import new_id
from tests import connectors
from tests.conftest import SUPER_KEY


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.mark.requirement("connectors-1", "demo-5")
async def test_connectors_are_created_changed_and_deleted(service) -> None:
    def work() -> None:
        client, connector_id = FusionAuthClient(SUPER_KEY, service.base_url), new_id()
        wanted = connectors.generic("https://users.example.com/login")
        created = successful(client.create_connector({"connector": wanted}, connector_id))["connector"]
        assert created["id"] == connector_id
        assert successful(client.retrieve_connector(connector_id))["connector"] == created
        assert created in successful(client.retrieve_connectors())["connectors"]
        patched = successful(client.patch_connector(connector_id, {"connector": {"debug": True}}))["connector"]
        assert patched["debug"]
        assert not successful(client.update_connector(connector_id, {"connector": wanted}))["connector"]["debug"]
        successful(client.delete_connector(connector_id))
        assert client.retrieve_connector(connector_id).status == 404

    await asyncio.to_thread(work)
