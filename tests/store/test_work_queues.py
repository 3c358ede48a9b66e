"""The queues of mails and logout notices: exclusive leases, durability, sealing, and separation of tenants."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import itertools

import pytest
from pymongo.errors import AutoReconnect

from identity import trace_context
from identity.domain.users.personal_data import Person, Traces
from identity.ids import ApplicationId, TenantId, UserId, new_id
from identity.instants import Instant
from identity.store.vault import Vault
from identity.store.work_queues import LogoutNotice, LogoutNotices, Mail, Mails, TextMessage, TextMessages
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
    return Mail(new_id(), tenant_id, "from@example.com", recipients or ("to@example.com",), b"Secret: 1\r\n\r\nx")


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
    taken = [lease.job.job_id for lease in itertools.chain(*leases)]
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


@pytest.fixture
async def notices(database) -> LogoutNotices:
    made = LogoutNotices(database, Vault({"key": b"k" * 32}))
    await made.ensure_indexes()
    return made


def notice(tenant_id: str | None = None, application_id: str | None = None) -> LogoutNotice:
    tenant, application = TenantId(tenant_id or new_id()), ApplicationId(application_id or new_id())
    return LogoutNotice(tenant, application, UserId(new_id()), new_id())


async def test_notice_is_unchanged_after_the_queue_and_sealed_in_it(notices, database) -> None:
    one = notice()
    await notices.add([one], NOW)
    stored = await database.collection("logout_notices").find_one({})
    assert one.session_id not in str(stored)
    assert one.user_id not in str(stored)
    (lease,) = await notices.lease(NOW, 30, {}, 5, 10)
    assert (lease.job, lease.attempts) == (one, 0)


async def test_notice_stores_the_trace_of_its_request(notices) -> None:
    trace = trace_context.read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
    one = dataclasses.replace(notice(), trace=trace, via=("0123456789abcdef",))
    await notices.add([one], NOW)
    (lease,) = await notices.lease(NOW, 30, {}, 5, 10)
    assert (lease.job.trace, lease.job.via) == (trace, ("0123456789abcdef",))


async def test_one_notice_per_session_and_application(notices) -> None:
    one = notice()
    other = dataclasses.replace(one, session_id=new_id())
    await asyncio.gather(*(notices.add([one, other], NOW) for _ in range(64)))
    leases = await notices.lease(NOW, 30, {}, 5, 10)
    assert {lease.job for lease in leases} == {one, other}
    assert len(leases) == 2


async def test_application_leases_are_bounded(notices) -> None:
    greedy = notice()
    await notices.add([dataclasses.replace(greedy, session_id=new_id()) for _ in range(6)], NOW)
    modest = notice(greedy.tenant_id)
    await notices.add([modest], NOW)
    leases = await notices.lease(NOW, 30, {}, 2, 10)
    assert sorted(lease.job.lane for lease in leases) == sorted([greedy.lane] * 2 + [modest.lane])


async def test_aborted_transaction_queues_no_notice(notices, database) -> None:
    one = notice()

    async def write(session) -> None:
        await notices.add([one], NOW, session)
        raise LookupError

    with pytest.raises(LookupError):
        await database.in_transaction(write)
    assert await notices.count(one.tenant_id) == 0


async def test_unreadable_notice_blocks_no_other_and_is_leased_once_readable(notices, database) -> None:
    sealed, plain = notice(), notice()
    await notices.add([sealed], NOW)
    other = LogoutNotices(database, Vault({"other": b"o" * 32}))
    await other.add([plain], NOW)
    (lease,) = await other.lease(NOW, 30, {}, 5, 10)
    assert lease.job == plain
    assert await notices.lease(NOW, 30, {}, 5, 10) == []
    (lease,) = await notices.lease(Instant(NOW + 30_000), 30, {}, 5, 10)
    assert (lease.job, lease.attempts) == (sealed, 0)


async def test_expired_lease_does_not_affect_the_next_one(notices, database) -> None:
    await notices.add([notice()], NOW)
    (late,) = await notices.lease(NOW, 30, {}, 5, 10)
    (current,) = await notices.lease(Instant(NOW + 30_000), 30, {}, 5, 10)
    await notices.retry(late, late.job, NOW)
    await notices.release(late, NOW)
    row = await database.collection("logout_notices").find_one({})
    assert (row["lease"], row["attempts"], row["nextAttempt"]) == (current.token, 0, NOW + 60_000)


async def test_leases_before_an_outage_are_returned(notices, monkeypatch) -> None:
    await notices.add([notice(), notice()], NOW)
    update, taken = notices._collection.find_one_and_update, []

    async def once(*arguments, **options):
        if taken:
            raise AutoReconnect("away")
        taken.append(await update(*arguments, **options))
        return taken[0]

    monkeypatch.setattr(notices._collection, "find_one_and_update", once)
    (lease,) = await notices.lease(NOW, 30, {}, 5, 10)
    assert lease.job.job_id == taken[0]["_id"]
    with pytest.raises(AutoReconnect):
        await notices.lease(NOW, 30, {}, 5, 10)


async def test_notices_of_tenants_are_separate(notices) -> None:
    one, other = notice(), notice()
    await notices.add([one, other], NOW)
    assert (await notices.count(one.tenant_id), await notices.count(TenantId(new_id()))) == (1, 0)
    await notices.delete_all(one.tenant_id)
    assert (await notices.count(one.tenant_id), await notices.count(other.tenant_id)) == (0, 1)


@pytest.mark.requirement("personal-1")
async def test_mails_that_name_a_deleted_user_are_deleted(mails) -> None:
    first, other = tenant(), tenant()
    traces = Traces([Person(first, new_id(), ("ada@example.com",))])
    encoded = b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(
        b"of ada@example.com"
    )
    about = dataclasses.replace(mail(first, "support@example.com"), message=encoded)
    await mails.add([mail(first, "ada@example.com"), mail(first, "grace@example.com"), about], NOW)
    await mails.add([mail(other, "ada@example.com")], NOW)
    assert await mails.delete_of_persons(first, traces) == 2
    assert (await mails.count(first), await mails.count(other)) == (1, 1)


@pytest.mark.requirement("personal-1")
async def test_text_messages_to_a_deleted_user_are_deleted(database) -> None:
    queue, first, other = TextMessages(database, Vault(KEYS)), tenant(), tenant()
    for tenant_id in (first, other):
        for number in ("+15551", "+15552"):
            await queue.add([TextMessage(new_id(), tenant_id, "messenger", number, "code")], NOW)
    assert await queue.delete_of_persons(first, Traces([Person(first, new_id(), ("+15551",))])) == 1
    assert (await queue.count(first), await queue.count(other)) == (1, 2)
