"""The work queue of erasures, and what they change: events, deliveries and keys."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.domain.users.personal_data import Person, Traces
from identity.ids import EventId, TenantId, WebhookId, new_id
from identity.instants import Instant, later
from identity.store import event_bodies
from identity.store.activity import RecentEntries
from identity.store.authorization_codes import AuthorizationCodes
from identity.store.erasures import Erasures
from identity.store.event_erasure import EventErasure
from identity.store.mongo import Database
from identity.store.one_time_tokens import OneTimeTokens
from identity.store.outbox import Outbox
from identity.store.outbox_rows import DeliveryAttempt, EventRow, NewDelivery
from identity.store.personal_keys import PersonalKeys
from identity.store.vault import Vault
from tests.store.conftest import database_of_its_own

NOW = Instant(1_900_000_000_000)
LATER = later(NOW, seconds=1)


@pytest.fixture
async def database(stores: Any) -> AsyncIterator[Database]:
    async with database_of_its_own(stores) as found:
        yield found


@pytest.fixture
async def erasures(database: Database, vault: Vault) -> Erasures:
    made = Erasures(database, vault)
    await made.ensure_indexes()
    return made


@pytest.fixture
async def outbox(database: Database, vault: Vault) -> Outbox:
    made = Outbox(database, vault, schedule_seconds=86_400)
    await made.ensure_indexes()
    return made


def make_person(tenant_id: str | None = None) -> Person:
    return Person(tenant_id or new_id(), new_id(), (f"{new_id()}@example.com",), ("203.0.113.7",))


# The queue


@pytest.mark.requirement("personal-1")
async def test_person_is_sealed_and_found_until_the_erasure_is_finished(erasures, database) -> None:
    person = make_person()
    await erasures.add_user(person, NOW)
    assert "example.com" not in str(await database.motor["erasures"].find_one({}))
    assert await erasures.find_users_across_tenants(NOW, 10) == [], "not before its time"
    (found,) = await erasures.find_users_across_tenants(LATER, 10)
    assert (found.person, found.pending) == (person, ())
    await erasures.finish(TenantId(person.tenant_id), person.user_id)
    assert await erasures.find_users_across_tenants(LATER, 10) == []


@pytest.mark.requirement("personal-1")
async def test_kept_erasure_has_the_pending_events_and_no_addresses(erasures) -> None:
    person = make_person()
    await erasures.add_user(person, NOW)
    await erasures.keep(TenantId(person.tenant_id), person.user_id, [EventId("an-event")])
    (found,) = await erasures.find_users_across_tenants(LATER, 10)
    assert (found.person.addresses, found.person.ip_addresses, found.pending) == ((), (), ("an-event",))


@pytest.mark.requirement("personal-1")
async def test_second_tenant_neither_keeps_nor_finishes_an_erasure(erasures) -> None:
    person, other = make_person(), TenantId(new_id())
    await erasures.add_user(person, NOW)
    await erasures.keep(other, person.user_id, [EventId("an-event")])
    await erasures.finish(other, person.user_id)
    (found,) = await erasures.find_users_across_tenants(LATER, 10)
    assert found.person == person
    assert (await erasures.count(other), await erasures.count(TenantId(person.tenant_id))) == (0, 1)


@pytest.mark.requirement("personal-1")
async def test_users_are_found_in_batches_and_tenants_separately(erasures) -> None:
    tenant_id = TenantId(new_id())
    persons = sorted((make_person() for _ in range(3)), key=lambda person: person.user_id)
    for person in persons:
        await erasures.add_user(person, NOW)
    await erasures.add_tenant(tenant_id, NOW)
    first = await erasures.find_users_across_tenants(LATER, 2)
    rest = await erasures.find_users_across_tenants(LATER, 2, first[-1].person.user_id)
    assert [found.person for found in (*first, *rest)] == persons
    assert await erasures.find_tenants_across_tenants(LATER) == [tenant_id]
    await erasures.finish(tenant_id, tenant_id)
    assert await erasures.find_tenants_across_tenants(LATER) == []


@pytest.mark.requirement("personal-1")
async def test_addresses_are_resealed_under_a_new_master_key(database) -> None:
    old, fresh = b"o" * 32, b"n" * 32
    person = make_person()
    await Erasures(database, Vault({"old": old}, b"f" * 32)).add_user(person, NOW)
    renewed = Erasures(database, Vault({"new": fresh, "old": old}, b"f" * 32))
    assert (await renewed.reseal(), await renewed.reseal()) == (1, 0)
    (found,) = await Erasures(database, Vault({"new": fresh}, b"f" * 32)).find_users_across_tenants(LATER, 1)
    assert found.person == person


@pytest.mark.requirement("personal-1")
async def test_row_under_a_missing_master_key_remains_and_blocks_no_other(database) -> None:
    key, persons = b"o" * 32, sorted((make_person() for _ in range(3)), key=lambda person: person.user_id)
    for number, person in enumerate(persons):
        vault = Vault({f"key {number % 2}": key}, b"f" * 32)
        await Erasures(database, vault).add_user(person, NOW)
    without = Erasures(database, Vault({"key 1": key}, b"f" * 32))
    assert [found.person for found in await without.find_users_across_tenants(LATER, 1)] == [persons[1]]
    assert await without.find_users_across_tenants(LATER, 1, persons[1].user_id) == []
    assert [await without.count(TenantId(person.tenant_id)) for person in persons] == [1, 1, 1]


# Events


async def record(
    outbox: Outbox, event_type: str, person: Person, *, due: Instant | None = None, secret: bool = False, **members: Any
) -> EventId:
    """Store an event about a person, with a delivery that was attempted once."""
    event_id, about = EventId(new_id()), {"id": person.user_id, "email": person.addresses[0]}
    event = {"id": event_id, "createInstant": NOW, "type": event_type, "tenantId": person.tenant_id, "user": about}
    body = json.dumps({"event": {**event, **members}}).encode()
    tenant_id = TenantId(person.tenant_id)
    row = EventRow(event_id, event_type, tenant_id, person.user_id, body, NOW, holds_secrets=secret)
    attempt = DeliveryAttempt(NOW, NOW, "https://example.com", 503, response_body="echo", response_headers={"a": "b"})
    deliveries = [NewDelivery(WebhookId("a webhook"), due, attempt), NewDelivery(WebhookId("untried"), due)]
    await outbox.record(None, [(row, deliveries)], await outbox.reserve_sequence(1))
    return event_id


async def event_of(outbox: Outbox, event_id: EventId) -> dict[str, Any]:
    return dict(json.loads(await outbox.body(event_id))["event"])


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.requirement("personal-1")
async def test_event_about_a_user_keeps_ids_only(database, vault, outbox, secret) -> None:
    person, stranger = make_person(), make_person()
    event_id = await record(outbox, "user.update", person, secret=secret, info={"ipAddress": "203.0.113.7"})
    other = await record(outbox, "user.update", stranger)
    found = await EventErasure(database, vault).erase_of_users(TenantId(person.tenant_id), [person.user_id], NOW)
    assert found == []
    assert await event_of(outbox, event_id) == {
        "createInstant": NOW, "id": event_id, "tenantId": person.tenant_id, "type": "user.update",
        "user": {"id": person.user_id},
    }  # fmt: skip
    rows = [row async for row in database.motor["deliveries"].find({"eventId": event_id, "webhookId": "a webhook"})]
    assert [set(row["attempts"][0]) & {"responseBody", "responseHeaders", "statusCode"} for row in rows] == [
        {"statusCode"}
    ]
    assert (await event_of(outbox, other))["user"]["email"] == stranger.addresses[0]


@pytest.mark.requirement("personal-1")
async def test_second_tenant_erases_no_event(database, vault, outbox) -> None:
    person, other = make_person(), TenantId(new_id())
    event_id = await record(outbox, "user.update", person)
    erasure = EventErasure(database, vault)
    await erasure.erase_of_users(other, [person.user_id], NOW)
    await erasure.erase_of_tenant(other, NOW)
    await erasure.settle(other, [event_id], NOW)
    await erasure.erase_addresses(other, [person.user_id], Traces([person]), NOW)
    assert (await event_of(outbox, event_id))["user"]["email"] == person.addresses[0]


@pytest.mark.requirement("personal-1")
async def test_announced_deletion_keeps_its_body_while_it_is_due(database, vault, outbox) -> None:
    person, erasure = make_person(), EventErasure(database, vault)
    tenant_id = TenantId(person.tenant_id)
    update = await record(outbox, "user.update", person, due=NOW)
    deletion = await record(outbox, "user.delete", person, due=NOW)
    pending = await erasure.erase_of_users(tenant_id, [person.user_id], NOW)
    assert set(pending) == {update, deletion}
    assert "email" not in (await event_of(outbox, update))["user"]
    assert (await event_of(outbox, deletion))["user"]["email"] == person.addresses[0]
    assert set(await erasure.settle(tenant_id, pending, NOW)) == set(pending)
    await database.motor["deliveries"].update_many({}, {"$set": {"state": "given up"}})
    assert await erasure.settle(tenant_id, pending, NOW) == []
    assert "email" not in (await event_of(outbox, deletion))["user"]
    assert await database.motor["deliveries"].count_documents({"attempts.responseBody": {"$exists": True}}) == 0


@pytest.mark.requirement("personal-1")
async def test_large_event_loses_one_user_and_keeps_the_others(database, vault, outbox, monkeypatch) -> None:
    monkeypatch.setattr(event_bodies, "PART_BYTES", 300)
    person, stays = make_person(), make_person()
    users = [{"id": found.user_id, "email": found.addresses[0]} for found in (person, stays)]
    users += [{"id": new_id(), "email": "filler@example.com"} for _ in range(9)]
    event_id = EventId(new_id())
    body = json.dumps({"event": {"type": "user.bulk.create", "id": event_id, "createInstant": NOW, "users": users}})
    row = EventRow(event_id, "user.bulk.create", TenantId(person.tenant_id), None, body.encode(), NOW)
    await outbox.record(None, [(row, [])], await outbox.reserve_sequence(1))
    before = {part["_id"] async for part in database.motor["event_parts"].find({})}
    assert await EventErasure(database, vault).redact_across_tenants(Traces([person]), NOW) == []
    assert (await event_of(outbox, event_id))["users"] == [{"id": person.user_id}, *users[1:]]
    old = [part async for part in database.motor["event_parts"].find({"_id": {"$in": list(before)}})]
    assert all(part["expiresAt"].timestamp() * 1000 < NOW + 600_000 for part in old), "the old parts expire"
    new = {part["_id"] async for part in database.motor["event_parts"].find({})} - before
    assert new, "readers of the old parts never see new ones"


@pytest.mark.requirement("personal-1")
async def test_address_of_a_parent_is_erased_from_events_about_children(database, vault, outbox) -> None:
    parent = make_person()
    child = make_person(parent.tenant_id)
    event_id = await record(outbox, "user.create", child, more={"parentEmail": parent.addresses[0], "name": "Ada"})
    erasure = EventErasure(database, vault)
    await erasure.erase_addresses(TenantId(parent.tenant_id), [child.user_id], Traces([parent]), NOW)
    event = await event_of(outbox, event_id)
    assert (event["more"], event["user"]["email"]) == ({"parentEmail": "[erased]", "name": "Ada"}, child.addresses[0])


@pytest.mark.requirement("personal-1")
async def test_unreadable_event_is_reduced_to_what_its_row_states(database, vault, outbox) -> None:
    person = make_person()
    event_id = await record(outbox, "jwt.refresh", person, secret=True)
    without_key = Vault({"other": b"x" * 32}, b"f" * 32)
    await EventErasure(database, without_key).erase_of_users(TenantId(person.tenant_id), [person.user_id], NOW)
    event = await event_of(outbox, event_id)
    assert event == {"createInstant": NOW, "id": event_id, "linkedObjectId": person.user_id,
                     "tenantId": person.tenant_id, "type": "jwt.refresh"}  # fmt: skip


@pytest.mark.requirement("personal-1")
async def test_events_of_a_tenant_keep_ids_only(database, vault, outbox) -> None:
    person = make_person()
    event_id = await record(outbox, "user.login.success", person)
    assert await EventErasure(database, vault).erase_of_tenant(TenantId(person.tenant_id), NOW) == []
    assert (await event_of(outbox, event_id))["user"] == {"id": person.user_id}


# Redis


@pytest.mark.requirement("personal-1")
async def test_keys_of_a_deleted_user_are_deleted_and_those_of_others_remain(redis) -> None:
    person, tokens, codes = make_person(), OneTimeTokens(redis), AuthorizationCodes(redis)
    tenant_id, other = TenantId(person.tenant_id), TenantId(new_id())
    (address,) = person.addresses
    secret = await tokens.issue(tenant_id, "a kind", person.user_id, {"x": 1}, 60)
    named = await tokens.issue(tenant_id, "a kind", "a registration", {"email": address}, 60)
    foreign = await tokens.issue(other, "a kind", "a user", {"email": address}, 60)
    await codes.issue(tenant_id, "a code", {"userId": person.user_id}, 60)
    await codes.issue(tenant_id, "another code", {"userId": new_id()}, 60)
    refused = RecentEntries(redis, "refused-requests", maximum=5, ttl_seconds=60)
    for ip_address in ("203.0.113.7", "203.0.113.8"):
        await refused.add(tenant_id, "a client", {"ipAddress": ip_address})
    await PersonalKeys(redis).delete_of_users_across_tenants(Traces([person]))
    assert await tokens.find(tenant_id, "a kind", secret) is None
    assert await tokens.find(tenant_id, "a kind", named) is None
    assert await tokens.find(other, "a kind", foreign) is not None, "the same address in another tenant"
    assert (await codes.consume(tenant_id, "a code")).outcome == "unknown"
    assert (await codes.consume(tenant_id, "another code")).outcome == "fresh"
    assert await refused.find(tenant_id, "a client") == [{"ipAddress": "203.0.113.8"}]


@pytest.mark.requirement("personal-1")
async def test_keys_of_a_deleted_tenant_are_deleted_and_those_of_others_remain(redis) -> None:
    tokens, tenant_id, other = OneTimeTokens(redis), TenantId(new_id()), TenantId(new_id())
    secret = await tokens.issue(tenant_id, "a kind", "a user", {}, 60)
    foreign = await tokens.issue(other, "a kind", "a user", {}, 60)
    await PersonalKeys(redis).delete_of_tenant(tenant_id)
    assert await tokens.find(tenant_id, "a kind", secret) is None
    assert await tokens.find(other, "a kind", foreign) is not None
