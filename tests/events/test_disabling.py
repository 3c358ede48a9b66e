"""Webhooks that fail until they are disabled, and those that do not fail long enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, ShiftedClock, checking_client
from tests.receiver import Receiver, answers, in_turn, receiving, until
from tests.webhooks import enable_events, event_log_messages, find, logs_of, make_user, make_webhook, put_status
from tests.webhooks import until as until_logged

PERIOD = 1000
CREATED, DELETED = "user.create.complete", "user.delete.complete"


class Instance:
    """A service without retries, which disables webhooks that have failed for `PERIOD` seconds."""

    def __init__(self, service: app.Service, api: httpx.AsyncClient, clock: ShiftedClock) -> None:
        self.service, self.api, self.clock = service, api, clock

    async def hook(self, receiver: Receiver, event_type: str = CREATED) -> dict[str, Any]:
        return await make_webhook(self.api, {"id": DEFAULT_TENANT}, receiver.url, eventsEnabled={event_type: True})

    async def raise_event_after(self, share: float) -> str:
        """Raise an event after this fraction of the period; returns its user."""
        self.clock.advance(seconds=PERIOD * share)
        return await make_user(self.api)

    async def failures(self, webhook: dict[str, Any]) -> int:
        """The number of failures since the last success."""
        row = await internals.database(self.service).collection("webhook_health").find_one({"_id": webhook["id"]})
        return 0 if row is None else int(row["failures"])

    async def has_failed(self, webhook: dict[str, Any], times: int) -> bool:
        return await self.failures(webhook) == times

    async def status(self, webhook: dict[str, Any]) -> str:
        return str((await find(self.api, webhook)).get("status", "Active"))

    async def steps(self, webhook: dict[str, Any]) -> list[str]:
        """The percentages that the event log contains."""
        rows = await event_log_messages(self.service, webhook)
        return [row.partition(" % ")[0].rpartition(" ")[2] for row in rows if " % of the time" in row]

    async def has_steps(self, webhook: dict[str, Any], *steps: str) -> bool:
        return await self.steps(webhook) == list(steps)

    async def is_disabled(self, webhook: dict[str, Any]) -> bool:
        return await self.status(webhook) == "Disabled"


@pytest.fixture(scope="module")
async def instance(build: Any) -> AsyncIterator[Instance]:
    clock = ShiftedClock()
    settings = {"webhooks__schedule": "[]", "webhooks__disable_after_seconds": PERIOD}
    async with (
        build(clock=clock, **settings) as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        enabled = {name: {"enabled": True} for name in (CREATED, DELETED)}
        change = {"tenant": {"eventConfiguration": {"events": enabled}}}
        assert (await api.patch(f"/api/tenant/{DEFAULT_TENANT}", json=change)).status_code == 200
        yield Instance(service, api, clock)


@pytest.mark.requirement("webhooks-15.3-19", "webhooks-15.3-2")
async def test_repeated_failures_disable_a_webhook_unless_it_succeeds_in_between(
    instance: Instance,
) -> None:
    failing, working = answers(500), answers(200)
    async with (
        receiving(failing) as dead_receiver,
        receiving(in_turn(failing, failing, working, failing)) as moody_receiver,
        receiving(failing) as rare_receiver,
    ):
        dead, moody = await instance.hook(dead_receiver), await instance.hook(moody_receiver)
        rare = await instance.hook(rare_receiver, DELETED)
        first = await instance.raise_event_after(0)
        await instance.api.delete(f"/api/user/{first}?hardDelete=true")
        for webhook in (dead, moody, rare):
            await until(lambda webhook=webhook: instance.has_failed(webhook, 1))

        second = await instance.raise_event_after(0.55)
        for webhook in (dead, moody):
            await until(lambda webhook=webhook: instance.has_steps(webhook, "50"))
        await instance.raise_event_after(0.2)
        await until(lambda: instance.has_steps(dead, "50", "70"))
        await until(lambda: instance.has_failed(moody, 0))
        await instance.raise_event_after(0.2)
        await until(lambda: instance.has_steps(dead, "50", "70", "90"))
        await until(lambda: instance.has_failed(moody, 1))
        await instance.raise_event_after(0.1)
        await until(lambda: instance.is_disabled(dead))
        await until(lambda: instance.has_failed(moody, 2))
        assert (await instance.status(moody), await instance.steps(moody)) == ("Active", ["50"])
        reason = f"Every delivery failed for {PERIOD} seconds."
        assert (await find(instance.api, dead))["disabledReason"] == reason
        expected = f"The webhook [{dead['id']}] was disabled. {reason}"

        async def is_logged() -> bool:
            return bool((await event_log_messages(instance.service, dead))[-1] == expected)

        await until(is_logged)

        # More than twice the period since its first failure, without a word from it in between.
        instance.clock.advance(seconds=PERIOD)
        await instance.api.delete(f"/api/user/{second}?hardDelete=true")
        await rare_receiver.wait_for(2)
        await until(lambda: instance.has_failed(rare, 1))
        assert (await instance.status(rare), await instance.steps(rare)) == ("Active", [])

        await _disabled_hears_nothing_until_it_is_enabled(instance, dead, dead_receiver, moody_receiver)


async def _disabled_hears_nothing_until_it_is_enabled(
    instance: Instance, webhook: dict[str, Any], receiver: Receiver, witness: Receiver
) -> None:
    before, received = len(receiver.requests), len(witness.requests)
    user_id = await instance.raise_event_after(0)
    await witness.wait_for(received + 1)
    (log,) = await logs_of(instance.api, user_id)
    assert webhook["id"] not in {attempt["webhookId"] for attempt in log["attempts"]}
    refused = await instance.api.post(f"/api/webhook/{webhook['id']}/resend", json={"eventId": log["id"]})
    assert refused.json()["fieldErrors"]["webhookId"][0]["code"] == "[disabled]webhookId"
    assert len(receiver.requests) == before
    await put_status(instance.api, webhook, "Active")
    user_id = await instance.raise_event_after(0)
    requests = await receiver.wait_for(before + 1)
    assert requests[-1].event["user"]["id"] == user_id
    # It failed once more, and has a whole period again.
    await until(lambda: instance.has_failed(webhook, 1))
    assert await instance.status(webhook) == "Active"


@pytest.mark.requirement("webhooks-15.3-7")
async def test_recovery_sends_as_many_as_failed_and_none_that_is_older_than_two_weeks(instance: Instance) -> None:
    async with receiving(in_turn(answers(500), answers(200), answers(500), answers(500), answers(200))) as receiver:
        webhook = await instance.hook(receiver)
        users = []
        for count in range(1, 6):
            users.append(await instance.raise_event_after(0.01))
            await receiver.wait_for(count)
        deliveries = internals.database(instance.service).collection("deliveries")
        given_up = {"webhookId": webhook["id"], "state": "given up"}
        await until(lambda: _counts(deliveries, given_up, 3))
        path = f"/api/webhook/{webhook['id']}/recover"
        # The third of them all, and everything after it.
        (log,) = await logs_of(instance.api, users[2])
        answer = await instance.api.post(path, json={"startInstant": log["insertInstant"]})
        assert answer.json() == {"deliveries": 2}
        requests = await receiver.wait_for(7)
        assert {request.event["user"]["id"] for request in requests[5:]} == {users[2], users[3]}
        now = internals.now(instance.service)
        two_weeks = 14 * 86_400_000
        refused = await instance.api.post(path, json={"startInstant": now - two_weeks - 1000})
        assert refused.json()["fieldErrors"]["startInstant"][0]["code"] == "[invalid]startInstant"
        assert (await instance.api.post(path, json={"startInstant": now - two_weeks + 60_000})).json() == {
            "deliveries": 1
        }
        requests = await receiver.wait_for(8)
        assert requests[-1].event["user"]["id"] == users[0]
        await until(lambda: _counts(deliveries, given_up, 0))
        assert (await instance.api.post(path, json={"startInstant": now - 60_000})).json() == {"deliveries": 0}


async def _counts(collection: Any, where: dict[str, Any], expected: int) -> bool:
    return bool(await collection.count_documents(where) == expected)


async def test_queued_deliveries_of_a_webhook_are_dropped_when_it_is_disabled(
    api: httpx.AsyncClient, tenant: dict[str, Any], tenant_api: httpx.AsyncClient, receiver: Receiver
) -> None:
    await enable_events(api, tenant["id"], [CREATED])
    webhook = await make_webhook(api, tenant, receiver.url, eventsEnabled={CREATED: True})
    await put_status(api, webhook, "Paused")
    queued = await make_user(tenant_api)
    await until_logged(api, queued, bool)
    await put_status(api, webhook, "Disabled")
    await until_logged(api, queued, lambda found: found[0]["eventResult"] != "Running")
    await put_status(api, webhook, "Active")
    delivered = await make_user(tenant_api)
    await receiver.wait_for(1)
    assert [request.event["user"]["id"] for request in receiver.requests] == [delivered]
