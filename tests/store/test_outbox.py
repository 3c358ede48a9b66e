"""The outbox: exclusive leases, outcomes, retention, and recovery from processes that die."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import IndexModel

from identity.domain.objects.system_configuration import SentEvents
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant, later
from identity.store import delivery_selection, event_bodies
from identity.store import outbox as outbox_module
from identity.store.mongo import Database
from identity.store.outbox import MAX_LEASED_BODY_BYTES, MAX_STORED_ATTEMPTS, Outbox
from identity.store.outbox_rows import (
    DeliveryAttempt,
    DeliveryLease,
    DeliveryOutcome,
    EventRow,
    NewDelivery,
    delivery_id,
)
from identity.store.vault import Vault
from identity.store.webhook_event_log import WebhookEventLog
from tests.store.conftest import database_of_its_own

NOW = Instant(1_900_000_000_000)
LEASE_SECONDS = 60


@pytest.fixture(scope="session")
async def database(stores: Any) -> AsyncIterator[Database]:
    async with database_of_its_own(stores) as found:
        yield found


@pytest.fixture
async def outbox(database: Database, vault: Vault) -> AsyncIterator[Outbox]:
    found = Outbox(database, vault, schedule_seconds=86_400)
    await found.ensure_indexes()
    yield found
    for name in ("events", "deliveries", "counters"):
        await database.collection(name).delete_many({})


def make_event(body: bytes = b'{"event":{}}', tenant_id: str | None = None) -> EventRow:
    tenant = None if tenant_id is None else TenantId(tenant_id)
    return EventRow(EventId(new_id()), "user.create", tenant, None, body, NOW)


async def record(outbox: Outbox, events: int, webhooks: list[str], due: Instant = NOW) -> list[EventRow]:
    rows = [make_event() for _ in range(events)]
    deliveries = [NewDelivery(WebhookId(webhook), due) for webhook in webhooks]
    first = await outbox.reserve_sequence(events)
    await outbox.record(None, [(row, deliveries) for row in rows], first)
    return rows


async def lease_due(
    outbox: Outbox, now: Instant = NOW, limit: int = 1000, per_webhook: int = 1000, **held: int
) -> list[DeliveryLease]:
    return await outbox.lease(now, LEASE_SECONDS, lambda webhook: per_webhook - held.get(webhook, 0), limit)


@pytest.fixture
def log(outbox: Outbox, database: Database, vault: Vault) -> WebhookEventLog:
    """Reads the content of the outbox."""
    return WebhookEventLog(database, vault)


def has_attempts(status: int | None = 200) -> DeliveryAttempt:
    return DeliveryAttempt(
        NOW, later(NOW, seconds=1), "http://example.com/", status, None if status else "timeout: too slow"
    )


async def test_body_comes_back_byte_for_byte(outbox: Outbox) -> None:
    body = '{"event":{"name":"Zoë \\u0000","n":1}}'.encode()
    row = make_event(body)
    await outbox.record(None, [(row, [NewDelivery(WebhookId("w"), NOW)])], 1)
    (lease,) = await lease_due(outbox)
    assert (lease.body, lease.event_id, lease.attempts, lease.insert_instant) == (body, row.event_id, 0, NOW)


async def test_leased_delivery_is_exclusive_until_the_lease_expires(outbox: Outbox) -> None:
    await record(outbox, 1, ["w"])
    (first,) = await lease_due(outbox)
    assert await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS - 1)) == []
    (second,) = await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    assert first.delivery_id == second.delivery_id
    assert first.token != second.token


@pytest.mark.requirement("service-19", "webhooks-15.3-8")
async def test_sixty_four_racing_lessees_never_get_the_same_row(outbox: Outbox) -> None:
    await record(outbox, 100, ["a", "b", "c"])
    leased_events: list[DeliveryLease] = []

    async def race() -> None:
        while leases := await lease_due(outbox, limit=7):
            leased_events.extend(leases)

    await asyncio.gather(*(race() for _ in range(64)))
    while leases := await lease_due(outbox):
        leased_events.extend(leases)
    counts = collections.Counter(lease.delivery_id for lease in leased_events)
    assert len(counts) == 300
    assert set(counts.values()) == {1}


@pytest.mark.requirement("webhooks-15.3-9")
async def test_delivery_that_is_not_due_is_not_leased(outbox: Outbox) -> None:
    await record(outbox, 1, ["w"], later(NOW, seconds=1))
    assert await lease_due(outbox) == []
    assert len(await lease_due(outbox, later(NOW, seconds=1))) == 1


async def test_webhook_leases_are_limited_by_its_capacity(outbox: Outbox) -> None:
    await record(outbox, 20, ["busy", "idle"])
    leases = await lease_due(outbox, per_webhook=5, busy=3)
    assert collections.Counter(lease.webhook_id for lease in leases) == {"busy": 2, "idle": 5}
    assert await lease_due(outbox, per_webhook=5, busy=5, idle=5) == []


@pytest.mark.requirement("attack-64", "design-state-14", "webhooks-15.2-6")
async def test_attack_64_long_backlog_of_one_webhook_leaves_room_for_the_others(outbox: Outbox) -> None:
    await record(outbox, 500, ["backlog"], later(NOW, seconds=-1000))
    await record(outbox, 1, ["fresh"])
    leases = await lease_due(outbox, limit=10)
    assert "fresh" in {lease.webhook_id for lease in leases}
    assert len(leases) <= 10


@pytest.mark.requirement("webhooks-15.2-6")
async def test_long_backlog_of_one_tenant_does_not_block_others_of_the_webhook(outbox: Outbox) -> None:
    for tenant_id, events, due in (("busy", 300, later(NOW, seconds=-1000)), ("quiet", 2, NOW)):
        rows = [make_event(tenant_id=tenant_id) for _ in range(events)]
        first = await outbox.reserve_sequence(events)
        await outbox.record(None, [(row, [NewDelivery(WebhookId("global"), due)]) for row in rows], first)
    quiet = {row.event_id for row in rows}
    leases = await lease_due(outbox, limit=6)
    assert {lease.event_id for lease in leases} >= quiet
    assert len(leases) <= 6


@pytest.mark.requirement("design-state-16")
async def test_backlog_and_live_deliveries_are_leased_separately(outbox: Outbox) -> None:
    late = await record(outbox, 3, ["w"], later(NOW, seconds=-10))
    fresh = await record(outbox, 2, ["w"], later(NOW, seconds=-9))
    bound = later(NOW, seconds=-9)

    async def leased_events(limit: int = 1000, **bounds: Instant) -> set[str]:
        return {one.event_id for one in await outbox.lease(NOW, LEASE_SECONDS, lambda _webhook: 1000, limit, **bounds)}

    first = await leased_events(limit=2, before=bound)
    assert len(first) == 2
    assert first <= {row.event_id for row in late}
    assert await leased_events(since=bound) == {row.event_id for row in fresh}
    assert first | await leased_events(before=bound) == {row.event_id for row in late}


async def test_delivery_without_lane_from_an_older_process_is_leased(outbox: Outbox, database: Database) -> None:
    old, new = await record(outbox, 2, ["w"])
    await database.collection("deliveries").update_one({"eventId": old.event_id}, {"$unset": {"lane": ""}})
    leases = [*await lease_due(outbox), *await lease_due(outbox)]
    assert {lease.event_id for lease in leases} == {old.event_id, new.event_id}


async def test_deliveries_of_an_older_version_get_a_lane(outbox: Outbox, database: Database) -> None:
    (row,) = await record(outbox, 1, ["w"])
    deliveries = database.collection("deliveries")
    await deliveries.update_many({}, {"$unset": {"lane": ""}})
    await deliveries.create_indexes([IndexModel([("state", 1), ("webhookId", 1), ("nextAttempt", 1)], name="due")])
    await outbox.ensure_indexes()
    assert "due" not in await deliveries.index_information()
    (lease,) = await lease_due(outbox)
    assert lease.event_id == row.event_id


async def test_oldest_deliveries_of_a_webhook_come_first(outbox: Outbox) -> None:
    await record(outbox, 5, ["w"])
    (old,) = await record(outbox, 1, ["w"], later(NOW, seconds=-5))
    (lease,) = await lease_due(outbox, limit=1)
    assert lease.event_id == old.event_id


async def test_limit_zero_leases_nothing(outbox: Outbox) -> None:
    await record(outbox, 1, ["w"])
    assert await lease_due(outbox, limit=0) == []


async def stored(outbox: Outbox, row: EventRow) -> dict[str, Any]:
    delivery = await outbox._deliveries.find_one({"eventId": row.event_id})
    return dict(delivery)


async def test_success_ends_a_delivery(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(204), None)])
    delivery = await stored(outbox, row)
    assert (delivery["state"], [attempt["statusCode"] for attempt in delivery["attempts"]]) == ("succeeded", [204])
    assert "lease" not in delivery
    assert await lease_due(outbox, later(NOW, seconds=10**6)) == []


async def test_failure_is_due_again_at_its_time_and_counts(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(None), later(NOW, seconds=300))])
    assert await lease_due(outbox, later(NOW, seconds=299)) == []
    (again,) = await lease_due(outbox, later(NOW, seconds=300))
    assert again.attempts == 1
    assert (await stored(outbox, row))["attempts"][0]["exception"] == "timeout: too slow"


async def test_last_failure_gives_up(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(500), None)])
    assert (await stored(outbox, row))["state"] == "given up"
    assert await lease_due(outbox, later(NOW, seconds=10**6)) == []


async def test_late_failure_does_not_touch_the_lease_of_the_next_one(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (late,) = await lease_due(outbox)
    (current,) = await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    await outbox.record_outcomes([DeliveryOutcome(late, has_attempts(500), later(NOW, seconds=1))])
    delivery = await stored(outbox, row)
    assert (delivery["lease"], delivery["attempts"]) == (current.token, [])


async def test_success_after_the_lease_expired_counts(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (late,) = await lease_due(outbox)
    (current,) = await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    await outbox.record_outcomes([DeliveryOutcome(late, has_attempts(200), None)])
    await outbox.record_outcomes([DeliveryOutcome(current, has_attempts(500), later(NOW, seconds=1))])
    assert (await stored(outbox, row))["state"] == "succeeded"


@pytest.mark.requirement("webhooks-15.2-14")
async def test_late_success_does_not_count_for_a_later_request(outbox: Outbox, log: WebhookEventLog) -> None:
    """A resend to a receiver that lost the event sends it, although it was delivered before."""
    (row,) = await record(outbox, 1, ["w"])
    (late,) = await lease_due(outbox)
    (current,) = await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    await outbox.record_outcomes([DeliveryOutcome(current, has_attempts(200), None)])
    for asked in (later(NOW, seconds=100), later(NOW, seconds=200)):
        assert await log.redeliver(None, row.event_id, WebhookId("w"), asked) == "queued"
        await outbox.record_outcomes([DeliveryOutcome(late, has_attempts(200), None)])
        (late,) = await lease_due(outbox, asked)
        await outbox.record_outcomes([DeliveryOutcome(late, has_attempts(200), None)])
        assert (await stored(outbox, row))["state"] == "succeeded"


@pytest.mark.requirement("webhooks-15.2-14")
async def test_redelivery_does_not_change_a_leased_delivery(outbox: Outbox, log: WebhookEventLog) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    assert await log.redeliver(None, row.event_id, WebhookId("w"), NOW) == "running"
    assert await lease_due(outbox) == []
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(500), later(NOW, seconds=300))])
    assert await log.redeliver(None, row.event_id, WebhookId("w"), NOW) == "queued"
    assert len(await lease_due(outbox)) == 1


async def test_recording_an_outcome_twice_changes_nothing(outbox: Outbox) -> None:
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    outcome = DeliveryOutcome(lease, has_attempts(500), later(NOW, seconds=5))
    await outbox.record_outcomes([outcome])
    await outbox.record_outcomes([outcome])
    assert len((await stored(outbox, row))["attempts"]) == 1


async def test_renewed_lease_lasts_longer(outbox: Outbox) -> None:
    await record(outbox, 3, ["w"])
    leases = await lease_due(outbox)
    await outbox.renew(leases[:2], later(NOW, seconds=500))
    assert len(await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))) == 1


@pytest.mark.requirement("project-11")
async def test_handed_back_deliveries_are_due_at_once(outbox: Outbox) -> None:
    await record(outbox, 3, ["w"])
    leases = await lease_due(outbox)
    await outbox.release(leases, NOW)
    assert {lease.delivery_id for lease in await lease_due(outbox)} == {lease.delivery_id for lease in leases}


async def test_handing_back_a_lost_lease_does_not_take_it_from_its_new_owner(outbox: Outbox) -> None:
    await record(outbox, 1, ["w"])
    lost = await lease_due(outbox)
    await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    await outbox.release(lost, NOW)
    assert await lease_due(outbox) == []


@pytest.mark.requirement("webhooks-15.2-3")
async def test_first_attempt_before_the_commit_is_the_first_attempt(outbox: Outbox, log: WebhookEventLog) -> None:
    row = make_event()
    deliveries = [
        NewDelivery(WebhookId("ok"), None, has_attempts(200)),
        NewDelivery(WebhookId("failed"), later(NOW, seconds=5), has_attempts(500)),
        NewDelivery(WebhookId("only try"), None, has_attempts(500)),
    ]
    await outbox.record(None, [(row, deliveries)], 1)
    (event,) = await log.find_all(None, {"_id": row.event_id})
    states = {found["webhookId"]: found["state"] for found in event["deliveries"]}
    assert states == {"ok": "succeeded", "failed": "due", "only try": "given up"}
    (lease,) = await lease_due(outbox, later(NOW, seconds=5))
    assert (lease.webhook_id, lease.attempts) == ("failed", 1)


@pytest.mark.requirement("webhooks-15.3-26")
async def test_aborted_transaction_leaves_no_row(outbox: Outbox, database: Database) -> None:
    row = make_event()

    async def write(session: Any) -> None:
        await outbox.record(session, [(row, [NewDelivery(WebhookId("w"), NOW)])], 1)
        raise LookupError

    with pytest.raises(LookupError):
        await database.in_transaction(write)
    for name in ("events", "deliveries"):
        assert await database.collection(name).count_documents({}) == 0


async def test_has_succeeded_filters_by_webhook_and_instant(outbox: Outbox, log: WebhookEventLog) -> None:
    await record(outbox, 1, ["good", "bad"])
    for lease in await lease_due(outbox):
        status = 200 if lease.webhook_id == "good" else 500
        await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(status), None)])
    found = [
        await log.has_succeeded(None, WebhookId(webhook), since)
        for webhook in ("good", "bad", "unknown")
        for since in (NOW, later(NOW, seconds=1))
    ]
    assert found == [True, False, False, False, False, False]


@pytest.mark.requirement("webhooks-15.3-24")
async def test_delivery_requested_repeatedly_retains_its_last_attempts(outbox: Outbox, log: WebhookEventLog) -> None:
    """Otherwise the document would exceed the size limit and block all other outcomes."""
    (row,) = await record(outbox, 1, ["w"])
    for number in range(MAX_STORED_ATTEMPTS + 3):
        (lease,) = await lease_due(outbox)
        assert lease.attempts == 0
        await outbox.record_outcomes(
            [DeliveryOutcome(lease, dataclasses.replace(has_attempts(500), attempt_id=str(number)), None)]
        )
        assert await log.redeliver(None, row.event_id, WebhookId("w"), NOW) == "queued"
    (found,) = await log.find_all(None, {"_id": row.event_id})
    kept = [attempt["id"] for attempt in found["deliveries"][0]["attempts"]]
    assert kept == [str(number) for number in range(3, MAX_STORED_ATTEMPTS + 3)]


async def test_sequence_numbers_are_unique(outbox: Outbox) -> None:
    firsts = await asyncio.gather(*(outbox.reserve_sequence(3) for _ in range(50)))
    assert sorted(firsts) == list(range(1, 151, 3))


async def test_events_keep_their_order_and_their_tenant(outbox: Outbox, log: WebhookEventLog) -> None:
    tenant_id = new_id()
    rows = [make_event(tenant_id=tenant_id) for _ in range(3)]
    await outbox.record(None, [(row, []) for row in rows], await outbox.reserve_sequence(3))
    found = await log.find_all(None, {"tenantId": tenant_id})
    assert [event["_id"] for event in found] == [row.event_id for row in rows]
    assert await log.find_all(None, {"tenantId": new_id()}) == []


@pytest.mark.requirement("design-state-3", "webhooks-10-18", "webhooks-15.3-14")
async def test_rows_expire_after_their_retention(outbox: Outbox, log: WebhookEventLog, database: Database) -> None:
    (row,) = await record(outbox, 1, ["w"])
    delivery = await stored(outbox, row)
    (event,) = await log.find_all(None, {"_id": row.event_id})
    assert delivery["expiresAt"] == event["expiresAt"]
    assert event["expiresAt"].timestamp() * 1000 == later(NOW, seconds=86_400 + 30 * 86_400)
    for name in ("events", "deliveries"):
        indexes = await database.collection(name).index_information()
        assert indexes["expiry"]["expireAfterSeconds"] == 0


async def test_backlog_counts_what_is_due(outbox: Outbox) -> None:
    assert (await outbox.backlog(NOW)).due == 0
    await record(outbox, 2, ["a", "b"])
    await record(outbox, 1, ["a"], later(NOW, seconds=3600))
    backlog = await outbox.backlog(later(NOW, seconds=30))
    assert (backlog.due, backlog.oldest_seconds) == (4, 30.0)


@pytest.mark.requirement("design-state-17")
async def test_backlog_count_is_limited_and_the_age_of_the_oldest_is_exact(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "_MAX_COUNTED", 5)
    await record(outbox, 4, ["a"])
    await record(outbox, 4, ["b"], later(NOW, seconds=-60))
    await record(outbox, 1, ["c"], later(NOW, seconds=60))
    backlog = await outbox.backlog(NOW)
    assert (backlog.due, backlog.oldest_seconds) == (5, 60.0)


async def test_leased_deliveries_do_not_count_as_backlog(outbox: Outbox) -> None:
    await record(outbox, 3, ["a"])
    await lease_due(outbox)
    backlog = await outbox.backlog(NOW)
    assert (backlog.due, backlog.oldest_seconds) == (0, 0.0)


async def test_lease_query_reads_only_the_index(outbox: Outbox, database: Database) -> None:
    await record(outbox, 300, ["a", "b"])
    leases = await lease_due(outbox)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(200), None) for lease in leases])
    await record(outbox, 2, ["a"])
    lanes = delivery_selection.lanes_pipeline({"state": "due", "nextAttempt": {"$lte": NOW}}, "a")
    asked = {"aggregate": "deliveries", "pipeline": lanes, "cursor": {}, "hint": "lanes"}
    explained = await database.motor.command({"explain": asked, "verbosity": "executionStats"})
    figures = explained["stages"][0]["$cursor"]["executionStats"]
    assert figures["totalDocsExamined"] == 0
    assert figures["totalKeysExamined"] < 10


@pytest.mark.requirement("webhooks-15.2-12")
async def test_very_many_lanes_are_read_in_pages(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of all lanes may exceed the 16 MB limit of a MongoDB reply."""
    monkeypatch.setattr(delivery_selection, "_LANES_PER_PAGE", 3)
    expected: set[str] = set()
    for tenant_id in ("one", "two", None):
        for webhook in "abcd":
            row = make_event(tenant_id=tenant_id)
            await outbox.record(None, [(row, [NewDelivery(WebhookId(webhook), NOW)])], 1)
            expected.add(row.event_id)
    parts = [[lease.event_id for lease in await lease_due(outbox)] for _ in range(5)]
    assert [len(part) for part in parts] == [3, 3, 3, 3, 0]
    assert {one for part in parts for one in part} == expected


@pytest.mark.requirement("webhooks-15.2-12")
async def test_very_many_lanes_of_a_webhook_at_capacity_hide_no_other(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_selection, "_LANES_PER_PAGE", 3)
    for number in range(40):
        await outbox.record(None, [(make_event(tenant_id=f"{number}"), [NewDelivery(WebhookId("busy"), NOW)])], 1)
    (other,) = await record(outbox, 1, ["later"])
    (lease,) = await lease_due(outbox, per_webhook=1, busy=1)
    assert lease.event_id == other.event_id
    assert await lease_due(outbox, per_webhook=1, busy=1) == []
    assert len(await lease_due(outbox)) == 3
    (earlier,) = await record(outbox, 1, ["at first"])
    (lease,) = await lease_due(outbox, per_webhook=1, busy=1)
    assert lease.event_id == earlier.event_id, "behind the last one it begins anew"


async def test_body_with_a_token_is_sealed_at_rest_and_sent_unchanged(
    outbox: Outbox, log: WebhookEventLog, database: Database
) -> None:
    row = dataclasses.replace(make_event(b'{"event":{"token":"the-token"}}'), holds_secrets=True)
    await outbox.record(None, [(row, [NewDelivery(WebhookId("one"), NOW)])], await outbox.reserve_sequence(1))
    stored = await database.collection("events").find_one({"_id": row.event_id})
    assert "the-token" not in repr(stored)
    (lease,) = await lease_due(outbox)
    assert lease.body == row.body
    (event,) = await log.find_all(None, {})
    assert event["body"] == row.body.decode()


async def test_a_sealed_body_moves_to_the_new_master_key(outbox: Outbox, database: Database) -> None:
    old, new = secrets.token_bytes(32), secrets.token_bytes(32)
    before, after = (
        Outbox(database, Vault(keys), schedule_seconds=86_400) for keys in ({"old": old}, {"new": new, "old": old})
    )
    row = dataclasses.replace(make_event(b'{"event":{"token":"the-token"}}'), holds_secrets=True)
    await before.record(None, [(row, []), (make_event(), [])], await before.reserve_sequence(2))
    assert await after.reseal() == 1
    assert await after.reseal() == 0
    (event,) = await WebhookEventLog(database, Vault({"new": new})).find_all(None, {"_id": row.event_id})
    assert event["body"] == row.body.decode()


@pytest.mark.requirement("webhooks-10-15", "webhooks-10-18")
@pytest.mark.parametrize(
    ("kept", "schedule_days", "days"),
    [
        (SentEvents(days=1), 5, 6),
        (SentEvents(days=None), 5, None),
        (SentEvents(False), 5, 5),
        (SentEvents(False), 0, 3),
    ],
)
async def test_events_are_retained_as_configured(database, vault, kept, schedule_days, days) -> None:
    """At least as long as they may still be delivered, and hidden from the log if logging is disabled."""

    async def sent_events() -> SentEvents:
        return kept

    outbox = Outbox(database, vault, schedule_seconds=schedule_days * 86_400, sent_events=sent_events)
    (row,) = await record(outbox, 1, ["w"])
    (lease,) = await lease_due(outbox)
    assert lease.event_id == row.event_id
    for name in ("events", "deliveries"):
        found = await database.collection(name).find_one({})
        expiry = None if days is None else later(NOW, seconds=days * 86_400)
        assert (found.get("expiresAt") and found["expiresAt"].timestamp() * 1000) == expiry
    log = WebhookEventLog(database, vault)
    assert (await log.find(None, row.event_id) is None) is not kept.are_logged
    for name in ("events", "deliveries", "counters"):
        await database.collection(name).delete_many({})


async def test_veto_is_not_stored_when_logging_is_disabled(database, vault) -> None:
    async def sent_events() -> SentEvents:
        return SentEvents(are_logged=False)

    outbox = Outbox(database, vault, schedule_seconds=86_400, sent_events=sent_events)
    await outbox.record(None, [(make_event(), [NewDelivery(WebhookId("w"), None, has_attempts(500))])], 1, vetoed=True)
    assert await database.collection("events").count_documents({}) == 0


@pytest.mark.requirement("webhooks-15.2-10")
async def test_unstorable_response_blocks_neither_its_own_outcome_nor_others(
    outbox: Outbox, log: WebhookEventLog
) -> None:
    await record(outbox, 3, ["w"])
    odd, long, plain = await lease_due(outbox)
    attempts = [
        dataclasses.replace(has_attempts(None), exception="tls: \udcff"),
        dataclasses.replace(has_attempts(500), response_body="a" * 17_000_000),
        has_attempts(200),
    ]
    nexts = [later(NOW, seconds=5), later(NOW, seconds=5), None]
    await outbox.record_outcomes(
        [DeliveryOutcome(*each) for each in zip((odd, long, plain), attempts, nexts, strict=True)]
    )
    found = {row["_id"]: row["deliveries"][0] for row in await log.find_all(None, {})}
    assert found[odd.event_id]["attempts"][0]["exception"].startswith("unreadable: ")
    assert found[long.event_id]["attempts"][0]["statusCode"] == 500
    assert [found[one.event_id]["state"] for one in (odd, long, plain)] == ["due", "due", "succeeded"]
    assert found[plain.event_id]["attempts"][0]["statusCode"] == 200


@pytest.mark.requirement("webhooks-15.2-10")
async def test_unreadable_event_blocks_no_other_and_is_delivered_once_readable(
    outbox: Outbox, database: Database
) -> None:
    sealed = dataclasses.replace(make_event(), holds_secrets=True)
    other = Outbox(database, Vault({"new": secrets.token_bytes(32)}), schedule_seconds=86_400)
    await outbox.record(None, [(sealed, [NewDelivery(WebhookId("w"), NOW)])], 1)
    await record(outbox, 2, ["w"])
    assert sealed.event_id not in {lease.event_id for lease in await lease_due(other)}
    assert await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS - 1)) == []
    leases = {lease.event_id: lease for lease in await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))}
    assert (len(leases), leases[sealed.event_id].body, leases[sealed.event_id].attempts) == (3, sealed.body, 0)


async def test_large_body_is_read_separately(outbox: Outbox, database: Database) -> None:
    small, large = make_event(b"x" * MAX_LEASED_BODY_BYTES), make_event(b"y" * (MAX_LEASED_BODY_BYTES + 1))
    huge = make_event(b"z" * (event_bodies.PART_BYTES + 1))
    await outbox.record(None, [(row, [NewDelivery(WebhookId("w"), NOW)]) for row in (small, large, huge)], 1)
    leases = {lease.event_id: lease for lease in await lease_due(outbox)}
    assert leases[small.event_id].body == small.body
    assert [leases[row.event_id].body for row in (large, huge)] == [None, None]
    assert [leases[row.event_id].body_bytes >= len(row.body) for row in (large, huge)] == [True, True]
    assert [await outbox.body(row.event_id) for row in (large, huge)] == [large.body, huge.body]
    await database.collection("event_parts").delete_one({"_id": f"{huge.event_id}:1"})
    assert await outbox.body(huge.event_id) == b"", "half an event is none"
    assert await outbox.body(EventId(new_id())) == b""


@pytest.mark.requirement("webhooks-15.2-10")
async def test_retention_of_due_deliveries_is_extended(outbox: Outbox, database: Database) -> None:
    parts = database.collection("event_parts")
    huge = make_event(b"z" * (event_bodies.PART_BYTES + 1))
    await outbox.record(None, [(huge, [NewDelivery(WebhookId("w"), NOW)])], 1)
    (over,) = await record(outbox, 1, ["w"])
    (lease,) = [lease for lease in await lease_due(outbox) if lease.event_id == over.event_id]
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(), None)])
    assert await outbox.extend_retention_of_due(NOW) == 0, "there is time enough"

    weeks = later(NOW, seconds=30 * 86_400)
    assert await outbox.extend_retention_of_due(weeks) == 1
    kept = later(weeks, seconds=4 * 86_400)
    rows = [
        await database.collection("events").find_one({"_id": huge.event_id}),
        await database.collection("deliveries").find_one({"eventId": huge.event_id}),
        *[await parts.find_one({"_id": f"{huge.event_id}:{number}"}) for number in range(2)],
    ]
    assert [row["expiresAt"].timestamp() * 1000 for row in rows] == [kept] * 4
    ended = await database.collection("events").find_one({"_id": over.event_id})
    assert ended["expiresAt"].timestamp() * 1000 == later(NOW, seconds=31 * 86_400)
    assert await outbox.extend_retention_of_due(weeks) == 0, "once is enough for a while"


async def test_retention_of_due_deliveries_is_extended_in_chunks(
    outbox: Outbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "CHUNK", 2)
    await record(outbox, 5, ["w"])
    steps: list[int] = []
    put_off = outbox._extend_retention

    async def noted(ids: Any, until: Any) -> None:
        steps.append(len(ids))
        await put_off(ids, until)

    monkeypatch.setattr(outbox, "_extend_retention", noted)
    weeks = later(NOW, seconds=30 * 86_400)
    assert await outbox.extend_retention_of_due(weeks) == 5
    assert steps == [2, 2, 1]
    kept = [row["expiresAt"].timestamp() * 1000 async for row in database.collection("deliveries").find({})]
    assert kept == [later(weeks, seconds=4 * 86_400)] * 5


@pytest.mark.requirement("webhooks-15.2-16")
async def test_backlog_counts_deliveries_waiting_for_their_predecessor(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record_ordered(outbox, 5)
    await record(outbox, 3, ["w"])
    assert (await outbox.backlog(NOW)).waiting == 0, "none was leased"
    leases = await lease_due(outbox)
    assert (await outbox.backlog(NOW)).waiting == 4
    monkeypatch.setattr(outbox_module, "_MAX_COUNTED", 2)
    assert (await outbox.backlog(NOW)).waiting == 2
    monkeypatch.undo()
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(), None) for lease in leases])
    await lease_due(outbox, later(NOW, seconds=1))
    assert (await outbox.backlog(NOW)).waiting == 3


async def record_ordered(outbox: Outbox, count: int) -> list[str]:
    """Record events about one object for an ordered webhook; returns the ids of their deliveries."""
    webhook = WebhookId(new_id())
    found = new_id()
    rows = [dataclasses.replace(make_event(), linked_object_id=found) for _ in range(count)]
    first = await outbox.reserve_sequence(count)
    await outbox.record(None, [(row, [NewDelivery(webhook, NOW, is_ordered=True)]) for row in rows], first)
    return [delivery_id(row.event_id, webhook) for row in rows]


async def dues(database: Database, ids: list[str]) -> list[int]:
    """The next attempts of these deliveries."""
    rows = {row["_id"]: row async for row in database.collection("deliveries").find({"_id": {"$in": ids}})}
    return [rows[one].get("nextAttempt") for one in ids]


async def test_only_the_second_ordered_delivery_is_examined_with_each_lease(outbox: Outbox, database: Database) -> None:
    ids = await record_ordered(outbox, 6)
    end = later(NOW, seconds=LEASE_SECONDS)
    (lease,) = await lease_due(outbox)
    assert lease.delivery_id == ids[0]
    far = later(NOW, seconds=3600)
    assert await dues(database, ids) == [end, end, far, far, far, far]
    ended = later(NOW, seconds=1)
    end = later(ended, seconds=LEASE_SECONDS)
    for turn, current in enumerate(ids[1:4], start=1):
        await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(), None)])
        (lease,) = await lease_due(outbox, ended)
        assert lease.delivery_id == current
        assert await dues(database, ids[turn:]) == [end, end, *[far] * (len(ids) - turn - 2)]


async def test_next_delivery_follows_after_the_lease_of_a_process_that_died(outbox: Outbox, database: Database) -> None:
    ids = await record_ordered(outbox, 3)
    now = NOW
    for turn, current in enumerate(ids):
        (lease,) = await lease_due(outbox, now)
        assert lease.delivery_id == current
        # What a process leaves that wrote its outcome and died before it said who follows.
        written = {"$set": {"state": "succeeded"}, "$unset": {"lease": "", "nextAttempt": ""}}
        await database.collection("deliveries").update_one({"_id": current}, written)
        assert await lease_due(outbox, now) == []
        now = later(now, seconds=LEASE_SECONDS + turn)


async def test_ordered_delivery_waits_for_the_retry_of_its_predecessor(outbox: Outbox, database: Database) -> None:
    ids = await record_ordered(outbox, 3)
    (lease,) = await lease_due(outbox)
    again = later(NOW, seconds=300)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(500), again)])
    after = later(NOW, seconds=LEASE_SECONDS)
    assert await lease_due(outbox, after) == []
    assert await dues(database, ids) == [again, again + 1, later(NOW, seconds=3600)]
    (lease,) = await lease_due(outbox, again)
    assert lease.delivery_id == ids[0]


async def test_leased_delivery_keeps_its_lease_when_an_earlier_one_is_requested_again(
    outbox: Outbox, database: Database
) -> None:
    ids = await record_ordered(outbox, 3)
    (lease,) = await lease_due(outbox)
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(500), None)])
    ahead = later(NOW, seconds=100)
    (on_its_way,) = await lease_due(outbox, ahead)
    assert on_its_way.delivery_id == ids[1]
    asked_for = {"$set": {"state": "due", "nextAttempt": NOW}}
    await database.collection("deliveries").update_one({"_id": ids[0]}, asked_for)
    (lease,) = await lease_due(outbox)  # by a clock that is behind
    assert lease.delivery_id == ids[0]
    await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(), None)])
    assert await lease_due(outbox, later(NOW, seconds=50)) == []
    held = await database.collection("deliveries").find_one({"_id": ids[1]})
    assert held is not None
    assert (held["lease"], held["nextAttempt"]) == (on_its_way.token, later(ahead, seconds=LEASE_SECONDS))


async def test_later_leased_deliveries_keep_their_leases_when_earlier_ones_are_requested_again(
    outbox: Outbox, database: Database
) -> None:
    ids = await record_ordered(outbox, 4)
    deliveries = database.collection("deliveries")
    for _ in range(2):
        (lease,) = await lease_due(outbox, later(NOW, seconds=1))
        await outbox.record_outcomes([DeliveryOutcome(lease, has_attempts(500), None)])
    (on_its_way,) = await lease_due(outbox, later(NOW, seconds=100))
    assert on_its_way.delivery_id == ids[2]
    asked_for = {"$set": {"state": "due", "nextAttempt": NOW}}
    await deliveries.update_many({"_id": {"$in": [ids[0], ids[1]]}}, asked_for)
    await deliveries.update_one({"_id": ids[3]}, {"$set": {"nextAttempt": NOW}})
    (lease,) = await lease_due(outbox)  # by a clock that is behind
    assert lease.delivery_id == ids[0]
    held = await deliveries.find_one({"_id": ids[2]})
    assert (held["lease"], held["nextAttempt"]) == (on_its_way.token, later(NOW, seconds=100 + LEASE_SECONDS))
    assert "waits" not in held


async def test_delivery_leased_meanwhile_is_not_postponed(
    outbox: Outbox, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await record_ordered(outbox, 2)
    find_first = outbox._order._find_first
    under_way = {"lease": "of another process", "nextAttempt": later(NOW, seconds=7)}

    async def meanwhile(*arguments: Any) -> Any:
        found = await find_first(*arguments)
        await database.collection("deliveries").update_one({"_id": ids[1]}, {"$set": under_way})
        return found

    monkeypatch.setattr(outbox._order, "_find_first", meanwhile)
    (lease,) = await lease_due(outbox)
    assert lease.delivery_id == ids[0]
    second = await database.collection("deliveries").find_one({"_id": ids[1]})
    assert {name: second.get(name) for name in under_way} == under_way
    assert "waits" not in second


async def test_leased_delivery_is_no_longer_waiting(outbox: Outbox, database: Database) -> None:
    """Otherwise its retry would be made too early when a redelivered predecessor ends."""
    ids = await record_ordered(outbox, 2)
    await lease_due(outbox)
    over = {"$set": {"state": "succeeded"}, "$unset": {"lease": "", "nextAttempt": ""}}
    await database.collection("deliveries").update_one({"_id": ids[0]}, over)
    (lease,) = await lease_due(outbox, later(NOW, seconds=LEASE_SECONDS))
    assert lease.delivery_id == ids[1]
    assert (await outbox.backlog(NOW)).waiting == 0
