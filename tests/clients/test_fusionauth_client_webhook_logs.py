"""The official Python client, unmodified, webhooks and the logs of their deliveries."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.clients.test_fusionauth_client_objects import successful, with_client
from tests.receiver import DEADLINE_SECONDS, Receiver, answers, receiving


def make(client: FusionAuthClient, receiver: Receiver) -> tuple[str, dict[str, Any]]:
    """A tenant with events of new users, and its webhook."""
    enabled = {"events": {"user.create.complete": {"enabled": True, "transactionType": "None"}}}
    wanted = {"name": new_id(), "issuer": "https://id.example.com", "eventConfiguration": enabled}
    tenant_id = successful(client.create_tenant({"tenant": wanted}))["tenant"]["id"]
    hook = {"url": receiver.url, "connectTimeout": 2000, "readTimeout": 2000, "tenantIds": [tenant_id]}
    made = successful(client.create_webhook({"webhook": {**hook, "eventsEnabled": {"user.create.complete": True}}}))
    client.set_tenant_id(tenant_id)
    return tenant_id, made["webhook"]


def logs_of(client: FusionAuthClient, user_id: str) -> list[dict[str, Any]]:
    """Return the log about a user after the first attempt."""
    criteria = {"search": {"event": user_id, "numberOfResults": 5, "orderBy": "insertInstant DESC", "startRow": 0}}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = successful(client.search_webhook_event_logs(criteria))
        logs = found["webhookEventLogs"]
        if logs and logs[0]["attempts"] and logs[0]["eventResult"] != "Running":
            assert found["total"] == len(logs)
            return list(logs)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.requirement("webhooks-10-16")
async def test_the_client_finds_an_event_and_its_attempts(service: app.Service) -> None:
    async with receiving(answers(418, b"short and stout")) as receiver:

        def work(client: FusionAuthClient) -> None:
            _, webhook = make(client, receiver)
            user = successful(client.create_user({"user": {"username": new_id(), "password": "password"}}))["user"]
            (log,) = logs_of(client, user["id"])
            assert log["event"]["event"]["user"]["id"] == log["linkedObjectId"] == user["id"]
            assert (log["eventType"], log["successfulAttempts"], log["failedAttempts"]) == (
                "user.create.complete", 0, 1,
            )  # fmt: skip
            assert successful(client.retrieve_webhook_event_log(log["id"]))["webhookEventLog"] == log
            (attempt,) = log["attempts"]
            alone = successful(client.retrieve_webhook_attempt_log(attempt["id"]))["webhookAttemptLog"]
            assert alone == {**attempt, "webhookEventLogId": log["id"]}
            assert (attempt["attemptResult"], attempt["webhookId"]) == ("Failure", webhook["id"])
            assert attempt["webhookCallResponse"] == {"statusCode": 418, "url": receiver.url}
            successful(client.delete_webhook(webhook["id"]))

        await with_client(service, work)


@pytest.mark.requirement("webhooks-10-16")
async def test_client_receives_errors_of_unreadable_logs(service: app.Service) -> None:
    def work(client: FusionAuthClient) -> None:
        assert client.retrieve_webhook_event_log(new_id()).status == 404
        assert client.retrieve_webhook_attempt_log(new_id()).status == 404
        refused = client.search_webhook_event_logs({"search": {"orderBy": "url", "start": "yesterday"}})
        assert refused.status == 400
        assert set(refused.error_response["fieldErrors"]) == {"search.orderBy", "search.start"}
        assert FusionAuthClient("no key", service.base_url).search_webhook_event_logs({"search": {}}).status == 401

    await with_client(service, work)
