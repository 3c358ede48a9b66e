"""Prometheus metrics of webhooks: every documented metric exists and changes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import internals, plain_http
from tests.receiver import answers, in_turn, receiving
from tests.webhooks import enable_events, make_webhook

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "webhooks" / "metrics.md"


class Metrics:
    """The page of the running service, against what it was at the beginning."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self._api = api
        self._before: dict[str, float] = {}

    async def begin(self) -> None:
        self._before = await self._read()

    async def moved(self, name: str) -> float:
        """The increase of a sample."""
        return (await self._read()).get(name, 0) - self._before.get(name, 0)

    async def wait_for(self, *names: str) -> None:
        """Wait until each of these has increased; the page has more series with every test before, and is read once."""
        async with asyncio.timeout(20):
            while True:
                page = await self._read()
                if all(page.get(name, 0) - self._before.get(name, 0) >= 1 for name in names):
                    return
                await asyncio.sleep(0.05)

    async def families(self) -> set[str]:
        page = await self._api.get("/api/prometheus/metrics")
        found = {line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE identity_webhook")}
        return {name for name in found if not name.endswith("_created")}

    async def _read(self) -> dict[str, float]:
        page = await self._api.get("/api/prometheus/metrics")
        assert page.status_code == 200
        lines = [line.rpartition(" ") for line in page.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}


@pytest.fixture
async def metrics(api: httpx.AsyncClient) -> Metrics:
    found = Metrics(api)
    await found.begin()
    return found


@pytest.fixture
async def events(tenant_api: httpx.AsyncClient, tenant: dict[str, Any]) -> None:
    await enable_events(tenant_api, tenant["id"], ["user.create.complete", "user.create"], "Any")


async def subscribe(api: httpx.AsyncClient, tenant: dict[str, Any], url: str, **members: Any) -> str:
    made = await make_webhook(api, tenant, url, connectTimeout=5000, readTimeout=5000, **members)
    return str(made["id"])


async def make_user(tenant_api: httpx.AsyncClient, status: int = 200) -> None:
    answer = await tenant_api.post("/api/user", json={"user": {"username": new_id(), "password": "password"}})
    assert answer.status_code == status, answer.text


@pytest.mark.requirement("webhooks-15.2-23")
async def test_documentation_lists_every_metric(metrics):
    listed = set(re.findall(r"^\| `(identity_webhook\w+)", PAGE.read_text(), re.MULTILINE))
    assert listed == await metrics.families()


async def test_delivery_is_measured(api, tenant_api, tenant, events, metrics):
    async with receiving() as receiver:
        await subscribe(api, tenant, receiver.url)
        await make_user(tenant_api)
        await metrics.wait_for(
            'identity_webhook_events_total{outcome="recorded"}',
            'identity_webhook_attempts_total{outcome="success"}',
            "identity_webhook_attempt_seconds_count",
            "identity_webhook_first_attempt_delay_seconds_count",
        )
    assert await metrics.moved("identity_webhook_synchronous_attempt_seconds_count") == 0


@pytest.mark.requirement("webhooks-15.2-23")
async def test_failures_retries_and_resends_are_measured(api, tenant_api, tenant, events, metrics):
    async with receiving(in_turn(answers(503), answers(410))) as receiver:
        webhook_id = await subscribe(api, tenant, receiver.url)
        await make_user(tenant_api)
        await metrics.wait_for(
            'identity_webhook_attempts_total{outcome="failure"}',
            'identity_webhook_failed_attempts_total{reason="5xx"}',
            "identity_webhook_retries_total",
        )
        assert await metrics.moved("identity_webhook_given_up_total") == 0
        event_id = receiver.requests[0].event["id"]
        answer = await api.post(f"/api/webhook/{webhook_id}/resend", json={"eventId": event_id})
        assert answer.status_code == 202
        await metrics.wait_for(
            'identity_webhook_asked_again_total{how="resend"}',
            'identity_webhook_failed_attempts_total{reason="4xx"}',
            "identity_webhook_given_up_total",
            'identity_webhooks{status="Disabled"}',
        )
        assert (await api.put(f"/api/webhook/{webhook_id}/status", json={"status": "Active"})).status_code == 200
        since = {"startInstant": receiver.requests[0].event["createInstant"]}
        answer = await api.post(f"/api/webhook/{webhook_id}/recover", json=since)
        assert answer.json() == {"deliveries": 1}
        await metrics.wait_for('identity_webhook_asked_again_total{how="recover"}')


@pytest.mark.requirement("webhooks-15.2-23")
async def test_transactional_calls_are_measured(api, tenant_api, tenant, events, metrics):
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        await subscribe(api, tenant, receiver.url, eventsEnabled={"user.create": True})
        await make_user(tenant_api, 504)
        assert await metrics.moved('identity_webhook_synchronous_attempts_total{outcome="failure"}') == 1
        assert await metrics.moved('identity_webhook_events_total{outcome="vetoed"}') == 1
        await make_user(tenant_api)
    assert await metrics.moved('identity_webhook_synchronous_attempts_total{outcome="success"}') == 1
    assert await metrics.moved("identity_webhook_synchronous_attempt_seconds_count") == 2
    assert await metrics.moved('identity_webhook_events_total{outcome="vetoed"}') == 1


async def test_paused_and_rate_limited_webhooks_are_measured(api, tenant_api, tenant, events, metrics):
    async with receiving() as receiver:
        limit = {"limit": 1, "periodInSeconds": 3600}
        webhook_id = await subscribe(api, tenant, receiver.url, rateLimit=limit)
        await make_user(tenant_api)
        await make_user(tenant_api)
        await metrics.wait_for('identity_webhook_put_off_total{reason="rate limit"}')
        assert (await api.put(f"/api/webhook/{webhook_id}/status", json={"status": "Paused"})).status_code == 200
        await make_user(tenant_api)
        await metrics.wait_for('identity_webhooks{status="Paused"}')


async def test_unreachable_receiver_is_measured_with_reason(api, tenant, metrics):
    async with receiving() as receiver:
        webhook_id = await subscribe(api, tenant, receiver.url)
    answer = await api.post(f"/api/webhook/{webhook_id}/test", json={})
    assert answer.json()["webhookAttemptLog"]["attemptResult"] == "Failure"
    assert await metrics.moved('identity_webhook_failed_attempts_total{reason="refused"}') == 1


async def test_refused_loop_is_measured(service, metrics):
    async with plain_http.client(service.base_url) as plain:
        answer = await plain.post("/api/user", json={}, headers={"webhook-via": internals.service_id(service)})
    assert answer.status_code == 508
    assert await metrics.moved("identity_webhook_loops_total") == 1
