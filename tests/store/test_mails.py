"""The mail queue: exclusive leases, durability, sealing, and separation of tenants."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools

import pytest

from identity.ids import MailId, TenantId, new_id
from identity.instants import Instant
from identity.store.mails import Mail, Mails
from identity.store.vault import Vault
from tests.store.conftest import database_of_its_own

NOW = Instant(1_763_690_000_000)
KEYS = {"new": b"n" * 32, "old": b"o" * 32}
UNKNOWN_ID: dict[TenantId, int] = {}


@pytest.fixture
async def database(stores):
    async with database_of_its_own(stores) as found:
        yield found


@pytest.fixture
async def mails(database) -> Mails:
    made = Mails(database, Vault(KEYS))
    await made.ensure_indexes()
    return made


def mail(tenant_id: TenantId, *recipients: str) -> Mail:
    return Mail(
        MailId(new_id()), tenant_id, "from@example.com", recipients or ("to@example.com",), b"Secret: 1\r\n\r\nx"
    )


def tenant() -> TenantId:
    return TenantId(new_id())


@pytest.mark.requirement("core-18-templates-18")
async def test_mail_is_unchanged_after_the_queue_and_sealed_in_it(mails, database) -> None:
    one, woken = mail(tenant(), "a@example.com", "b@example.com"), []
    mails.on_enqueue(lambda: woken.append(1))
    await mails.add([one], NOW)
    assert woken == [1]
    stored = await database.collection("mails").find_one({})
    assert "example.com" not in str(stored)
    assert "Secret" not in str(stored)
    (lease,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    assert (lease.job, lease.attempts) == (one, 0)
    assert "Secret" not in repr(lease)


@pytest.mark.requirement("core-18-templates-17")
async def test_each_mail_is_leased_by_one_of_64(mails) -> None:
    own = tenant()
    for _ in range(20):
        await mails.add([mail(own)], NOW)
    leases = await asyncio.gather(*(mails.lease(NOW, 30, UNKNOWN_ID, 3, 3) for _ in range(64)))
    taken = [lease.job.mail_id for lease in itertools.chain(*leases)]
    assert len(taken) == len(set(taken)) == 20


@pytest.mark.requirement("core-18-templates-17")
async def test_outcome_after_an_expired_lease_changes_nothing(mails) -> None:
    await mails.add([mail(tenant())], NOW)
    (late,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    assert await mails.lease(Instant(NOW + 29_000), 30, UNKNOWN_ID, 5, 10) == []
    (lease,) = await mails.lease(Instant(NOW + 30_000), 30, UNKNOWN_ID, 5, 10)
    assert lease.job == late.job
    await mails.retry(late, dataclasses.replace(late.job, recipients=("unknown@example.com",)), NOW)
    await mails.release(late, NOW)
    assert await mails.lease(Instant(NOW + 31_000), 30, UNKNOWN_ID, 5, 10) == []
    (again,) = await mails.lease(Instant(NOW + 60_000), 30, UNKNOWN_ID, 5, 10)
    assert (again.job.recipients, again.attempts) == (("to@example.com",), 0)


async def test_retry_is_scheduled_counted_and_limited_to_the_remaining_recipients(mails) -> None:
    await mails.add([mail(tenant(), "a@example.com", "b@example.com")], NOW)
    (lease,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    await mails.retry(lease, dataclasses.replace(lease.job, recipients=("b@example.com",)), Instant(NOW + 5_000))
    assert await mails.lease(Instant(NOW + 4_999), 30, UNKNOWN_ID, 5, 10) == []
    (again,) = await mails.lease(Instant(NOW + 5_000), 30, UNKNOWN_ID, 5, 10)
    assert (again.job.recipients, again.attempts) == (("b@example.com",), 1)


async def test_released_job_counts_no_attempt(mails) -> None:
    await mails.add([mail(tenant())], NOW)
    (lease,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    await mails.release(lease, NOW)
    (again,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    assert again.attempts == 0


async def test_completed_mail_is_deleted(mails) -> None:
    own = tenant()
    await mails.add([mail(own)], NOW)
    (lease,) = await mails.lease(NOW, 30, UNKNOWN_ID, 5, 10)
    await mails.complete(lease)
    assert await mails.count(own) == 0


@pytest.mark.requirement("core-18-templates-18")
async def test_tenant_leases_are_bounded(mails) -> None:
    greedy, modest = tenant(), tenant()
    for _ in range(6):
        await mails.add([mail(greedy)], NOW)
    await mails.add([mail(modest)], NOW)
    leases = await mails.lease(NOW, 30, {greedy: 2}, 4, 10)
    assert sorted(lease.job.tenant_id for lease in leases) == sorted([greedy, greedy, modest])
    assert len(await mails.lease(NOW, 30, {}, 4, 1)) == 1
    assert await mails.lease(NOW, 30, {greedy: 4}, 4, 10) == []


async def test_deleting_a_tenant_s_mails_leaves_those_of_others(mails) -> None:
    own, other = tenant(), tenant()
    await mails.add([mail(own)], NOW)
    await mails.add([mail(other)], NOW)
    await mails.delete_all(own)
    assert (await mails.count(own), await mails.count(other)) == (0, 1)


@pytest.mark.requirement("core-18-templates-18")
async def test_a_rotated_master_key_reads_and_reseals(database) -> None:
    old, new = Mails(database, Vault({"old": KEYS["old"]})), Mails(database, Vault(KEYS))
    one = mail(tenant())
    await old.add([one], NOW)
    assert await new.reseal() == 1
    assert await new.reseal() == 0
    (lease,) = await Mails(database, Vault({"new": KEYS["new"]})).lease(NOW, 30, UNKNOWN_ID, 5, 10)
    assert lease.job == one
