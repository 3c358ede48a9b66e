"""Webhooks that keep failing are disabled in four reported steps."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import EventId, WebhookId, new_id
from identity.operations.webhooks.webhook_monitoring import WebhookMonitor
from identity.store.outbox_rows import DeliveryAttempt, DeliveryLease, DeliveryOutcome
from identity.store.webhook_health import WebhookHealth
from tests import internals
from tests.receiver import receiving
from tests.webhooks import event_log_messages

PERIOD = 432_000


@pytest.fixture
async def webhook(api) -> dict[str, Any]:
    wanted = {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 1000}
    return dict((await api.post("/api/webhook", json={"webhook": wanted})).json()["webhook"])


@pytest.fixture
def monitor(service) -> WebhookMonitor:
    return WebhookMonitor(service.services, list)


def outcome(service, webhook: dict[str, Any], status: int) -> DeliveryOutcome:
    now = internals.now(service)
    lease = DeliveryLease(new_id(), EventId(new_id()), WebhookId(webhook["id"]), 0, "user.create", b"{}", now, "token")
    return DeliveryOutcome(lease, DeliveryAttempt(now, now, webhook["url"], status), None)


async def status(api, webhook: dict[str, Any]) -> str:
    return str((await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"].get("status", "Active"))


@pytest.mark.requirement("webhooks-15.2-4", "webhooks-15.3-27")
async def test_days_of_failure_disable_a_webhook_with_one_event_per_step(service, api, clock, webhook, monitor):
    await monitor.record([outcome(service, webhook, 500)])
    for share, steps in [(0.49, 0), (0.02, 1), (0.01, 1), (0.2, 2), (0.2, 3)]:
        clock.advance(seconds=PERIOD * share)
        await monitor.record([outcome(service, webhook, 500)])
        assert len(await event_log_messages(service, webhook)) == steps, share
    assert [text.partition(" % ")[0][-2:] for text in await event_log_messages(service, webhook)] == ["50", "70", "90"]
    assert await status(api, webhook) == "Active"
    clock.advance(seconds=PERIOD * 0.1)
    await monitor.record([outcome(service, webhook, 500)])
    assert await status(api, webhook) == "Disabled"
    assert (await event_log_messages(service, webhook))[-1].endswith(
        f"was disabled. Every delivery failed for {PERIOD} seconds."
    )


async def test_one_success_resets_the_failures(service, api, clock, webhook, monitor):
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD * 0.6)
    await monitor.record([outcome(service, webhook, 200), outcome(service, webhook, 500)])
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD * 0.45)
    await monitor.record([outcome(service, webhook, 500)])
    assert await event_log_messages(service, webhook) == []


async def test_success_in_another_process_resets_the_failures(service, api, clock, webhook, monitor):
    other = WebhookMonitor(service.services, list)
    await other.record([outcome(service, webhook, 200)])
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD * 0.6)
    await other.record([outcome(service, webhook, 200)])
    await monitor.record([outcome(service, webhook, 500)])
    assert await event_log_messages(service, webhook) == []


@pytest.mark.requirement("webhooks-15.3-2")
async def test_approval_response_counts_as_success(service, api, tenant, tenant_api, clock, monitor):
    """A webhook that fails every notification but approves transactions stays enabled and decides about changes."""
    events = {"user.create": {"enabled": True, "transactionType": "AbsoluteMajority"}}
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=change)).status_code == 200
    async with receiving() as receiver:
        wanted = {"url": receiver.url, "connectTimeout": 5000, "readTimeout": 5000, "tenantIds": [tenant["id"]]}
        wanted["eventsEnabled"] = {"user.create": True}
        webhook = (await api.post("/api/webhook", json={"webhook": wanted})).json()["webhook"]
        await monitor.record([outcome(service, webhook, 500)])
        user = {"user": {"username": new_id(), "password": "password"}}
        assert (await tenant_api.post("/api/user", json=user)).status_code == 200
        assert len(receiver.requests) == 1
        clock.advance(seconds=PERIOD * 1.5)
        await monitor.record([outcome(service, webhook, 500)])
        assert (await status(api, webhook), await event_log_messages(service, webhook)) == ("Active", [])
        # From then on it has a whole period again, in which it has to succeed once more.
        clock.advance(seconds=1)
        await monitor.record([outcome(service, webhook, 500)])
        clock.advance(seconds=PERIOD * 0.9)
        await monitor.record([outcome(service, webhook, 500)])
        assert await status(api, webhook) == "Active"
        clock.advance(seconds=PERIOD * 0.1)
        await monitor.record([outcome(service, webhook, 500)])
        assert await status(api, webhook) == "Disabled"


async def test_change_of_the_webhook_resets_the_failures(service, api, clock, webhook, monitor):
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD * 0.99)
    await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"description": "mended"}})
    clock.advance(seconds=PERIOD * 0.1)
    await monitor.record([outcome(service, webhook, 500)])
    assert (await status(api, webhook), await event_log_messages(service, webhook)) == ("Active", [])


@pytest.mark.requirement("webhooks-15.2-4")
async def test_change_of_the_webhook_resets_the_events(service, api, clock, webhook, monitor):
    for _ in range(2):
        await monitor.record([outcome(service, webhook, 500)])
        clock.advance(seconds=PERIOD * 0.75)
        await monitor.record([outcome(service, webhook, 500)])
        await api.patch(f"/api/webhook/{webhook['id']}", json={"webhook": {"description": "mended"}})
        clock.advance(seconds=1)
    assert [text.partition(" % ")[0][-2:] for text in await event_log_messages(service, webhook)] == ["70", "70"]


@pytest.mark.requirement("webhooks-15.2-4")
async def test_interrupted_disabling_is_completed_by_another_process(service, api, clock, webhook, monitor):
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD)
    assert await WebhookHealth(internals.database(service)).claim_warning(None, WebhookId(webhook["id"]), 100)
    await monitor.record([outcome(service, webhook, 500)])
    assert await status(api, webhook) == "Disabled"


@pytest.mark.requirement("webhooks-15.3-2")
async def test_failures_further_apart_than_twice_the_period_are_forgotten(service, api, clock, webhook, monitor):
    await monitor.record([outcome(service, webhook, 500)])
    clock.advance(seconds=PERIOD * 2.1)
    await monitor.record([outcome(service, webhook, 500)])
    assert (await status(api, webhook), await event_log_messages(service, webhook)) == ("Active", [])


@pytest.mark.requirement("webhooks-15.2-4")
async def test_410_disables_immediately_with_one_event(service, api, webhook, monitor):
    await monitor.record([outcome(service, webhook, 410), outcome(service, webhook, 410)])
    await monitor.record([outcome(service, webhook, 410)])
    assert await status(api, webhook) == "Disabled"
    assert await event_log_messages(service, webhook) == [
        f"The webhook [{webhook['id']}] was disabled. The receiver answered 410 (Gone)."
    ]


async def test_results_of_a_deleted_webhook_are_ignored(service, api, webhook, monitor):
    await api.delete(f"/api/webhook/{webhook['id']}")
    await monitor.record([outcome(service, webhook, 410)])
    await monitor.record([outcome(service, webhook, 500)])
    assert await event_log_messages(service, webhook) == []


@pytest.mark.requirement("webhooks-15.3-27")
async def test_one_of_several_processes_sends_the_event(service):
    health, webhook_id = WebhookHealth(internals.database(service)), WebhookId(new_id())
    now = internals.now(service)
    await health.record_failure(None, webhook_id, now, 1, now, now)
    assert await health.claim_warning(None, webhook_id, 50)
    assert not await health.claim_warning(None, webhook_id, 50)
    assert await health.claim_warning(None, webhook_id, 70)
    assert not await health.claim_warning(None, webhook_id, 50)
    assert not await health.claim_warning(None, WebhookId(new_id()), 50)


async def test_webhook_is_loaded_with_its_secrets(api, monitor):
    """The monitor has a memory without any."""
    wanted = {
        "url": "https://example.com/hook",
        "connectTimeout": 1000,
        "readTimeout": 1000,
        "headers": {"X-Key": "sesame"},
        "httpAuthenticationUsername": "anna",
        "httpAuthenticationPassword": "a password",
    }
    made = (await api.post("/api/webhook", json={"webhook": wanted})).json()["webhook"]
    found = await monitor.find_webhook(WebhookId(made["id"]))
    assert found is not None
    assert {name: found[name] for name in wanted} == wanted
    await api.delete(f"/api/webhook/{made['id']}")
    assert await monitor.find_webhook(WebhookId(made["id"])) is None
