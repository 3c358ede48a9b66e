"""The mail loop: no mail is lost or blocked, and failures are logged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from identity.call import Call
from identity.domain.messaging.mail_messages import Address
from identity.ids import TenantId, new_id
from identity.operations.messaging import mail
from identity.store.work_queues import WorkQueue
from identity.workers import queue_worker
from tests import certificates, internals
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY, checking_client
from tests.mailbox import PASSWORD, Mailbox, receiving, until

Document = dict[str, Any]


class TenantMails:
    """A tenant whose mail goes to a mailbox."""

    def __init__(self, service: Any, tenant_id: str) -> None:
        self.service = service
        self.tenant_id = TenantId(tenant_id)

    async def configure(self, mailbox: Mailbox, **members: Any) -> None:
        patch = {"tenant": {"emailConfiguration": mailbox.configuration(**members)}}
        async with checking_client(self.service.base_url, headers={"Authorization": SUPER_KEY}) as api:
            answer = await api.patch(f"/api/tenant/{self.tenant_id}", json=patch)
            assert answer.status_code == 200, answer.text

    def call(self) -> Call:
        return internals.call(self.service, self.tenant_id, "192.0.2.1")

    async def send(self, *addresses: str) -> None:
        first, *others = addresses or ("to@example.com",)
        options = mail.MailOptions(cc=others)
        errors = await internals.run(
            self.service, mail.send, self.call(), self.tenant_id, EMAIL_TEMPLATE, Address(first), {}, options=options
        )
        assert errors == {}

    async def waiting(self) -> list[Document]:
        """The unleased rows of the tenant."""
        rows = internals.database(self.service).collection("mails").find({"tenantId": self.tenant_id, "lease": None})
        return [row async for row in rows]

    async def advance(self, clock: Any, *, seconds: float) -> None:
        """Advance the clock and wake the worker, as another process does; on its own it polls once a second."""
        clock.advance(seconds=seconds)
        redis = internals.redis(self.service)
        await redis.client.publish(redis.key("wake", "mails"), "another process")

    async def was_tried(self, times: int) -> None:
        async def has_attempts() -> bool:
            return [row["attempts"] for row in await self.waiting()] == [times]

        await until(has_attempts)

    async def is_empty(self) -> None:
        async def is_sent() -> bool:
            return await internals.store(self.service, "mails").count(self.tenant_id) == 0

        await until(is_sent)

    async def logs(self, kind: str = "Error") -> list[str]:
        rows = (
            internals.database(self.service)
            .collection("event_logs")
            .find({"message": {"$regex": self.tenant_id}})
            .sort("_id")
        )
        return [row["message"] async for row in rows if row["type"] == kind]


@pytest.fixture
def mails_of_tenant(service, tenant) -> TenantMails:
    return TenantMails(service, tenant["id"])


@pytest.mark.requirement("core-18-templates-17")
async def test_mail_is_sent_when_the_server_returns(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving() as gone:
        await mails_of_tenant.configure(gone)
    await mails_of_tenant.send()
    await mails_of_tenant.was_tried(1)
    (message,) = await mails_of_tenant.logs()
    assert f"127.0.0.1:{gone.port} (NONE)" in message
    assert "to@example.com could not be reached" in message
    assert message.endswith("It will be tried again.")
    async with receiving(port=gone.port) as back:
        await mails_of_tenant.advance(clock, seconds=40)
        (received,) = await back.wait_for(1)
        assert received.recipients == ["to@example.com"]
        await mails_of_tenant.is_empty()
    assert len(await mails_of_tenant.logs()) == 1


@pytest.mark.requirement("core-18-templates-15")
async def test_repeated_failures_are_throttled_in_the_log(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"DATA": "451 later"}
        for _ in range(4):
            await mails_of_tenant.send()

        async def all_tried(times: int) -> bool:
            return [row["attempts"] for row in await mails_of_tenant.waiting()] == [times] * 4

        await until(lambda: all_tried(1))
        assert len(await mails_of_tenant.logs()) == 1
        await mails_of_tenant.advance(clock, seconds=301)
        await until(lambda: all_tried(2))
        first, second = await mails_of_tenant.logs()
        assert first.endswith("It will be tried again.")
        assert second.endswith("It will be tried again. 3 earlier failures of this tenant were not written.")


async def test_retries_carry_the_same_mail(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"DATA": "451 later"}
        await mails_of_tenant.send()
        await mails_of_tenant.was_tried(1)
        del mailbox.refusals["DATA"]
        (row,) = await mails_of_tenant.waiting()
        await mails_of_tenant.advance(clock, seconds=40)
        (received,) = await mailbox.wait_for(1)
        assert received.message["Message-ID"] == f"<{row['_id']}@example.com>"
        await mails_of_tenant.is_empty()


async def test_permanently_rejected_mail_is_logged_and_dropped(mails_of_tenant: TenantMails) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"DATA": "554 we do not like it"}
        await mails_of_tenant.send()
        await mails_of_tenant.is_empty()
    (message,) = await mails_of_tenant.logs()
    assert "to@example.com was refused for good" in message
    assert "554 we do not like it" in message


@pytest.mark.requirement("core-18-templates-17")
async def test_only_failed_recipients_are_retried(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"gone@example.com": "550 unknown", "full@example.com": "452 full"}
        await mails_of_tenant.send("to@example.com", "gone@example.com", "full@example.com")
        (first,) = await mailbox.wait_for(1)
        assert first.recipients == ["to@example.com"]
        await mails_of_tenant.was_tried(1)
        mailbox.refusals.clear()
        await mails_of_tenant.advance(clock, seconds=40)
        assert (await mailbox.wait_for(2))[1].recipients == ["full@example.com"]
        await mails_of_tenant.is_empty()
    refused, deferred = await mails_of_tenant.logs()
    assert "gone@example.com was refused for good" in refused
    assert "full@example.com could not be reached" in deferred


@pytest.mark.requirement("core-18-templates-17", "design-config-5")
async def test_mail_is_given_up_after_the_schedule(build, session_clock) -> None:
    offset = session_clock.offset
    async with build(clock=session_clock, email__schedule="[5]") as service, receiving() as mailbox:
        mails_of_tenant = TenantMails(service, internals.store(service, "default_tenant_id"))
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"to@example.com": "451 later"}
        await mails_of_tenant.send()
        await mails_of_tenant.was_tried(1)
        await mails_of_tenant.advance(session_clock, seconds=6)
        await mails_of_tenant.is_empty()
        assert [message.rpartition(". ")[2] for message in await mails_of_tenant.logs()] == [
            "It will be tried again.",
            "It is given up.",
        ]
    session_clock.offset = offset


@pytest.mark.requirement("core-18-templates-17")
async def test_mail_of_a_killed_process_is_sent_by_another(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox, port=mailbox.port)
        row: Document = {}

        async def is_leased() -> bool:
            """Whether the test acquired the lease before the worker did."""
            await mails_of_tenant.send()
            now = internals.now(mails_of_tenant.service)
            leases = await internals.store(mails_of_tenant.service, "mails").lease(now, 90, {}, 5, 5)
            row.update(
                {lease.job.job_id: lease for lease in leases if lease.job.tenant_id == mails_of_tenant.tenant_id}
            )
            return bool(row)

        await until(is_leased)
        held = set(row)
        await mails_of_tenant.advance(clock, seconds=91)

        def all_there() -> bool:
            ids = {one.message["Message-ID"].strip("<>").partition("@")[0] for one in mailbox.mails}
            return held <= ids

        await mailbox.until(all_there)
        await mails_of_tenant.is_empty()


@pytest.mark.requirement("core-18-templates-17")
async def test_queued_mail_is_sent_after_a_restart(build, configured) -> None:
    """A process without workers queues the mail; one with workers sends it."""
    database = f"test_{new_id()[:13].replace('-', '')}"
    async with receiving() as mailbox:
        async with build(role="web", database=database) as web:
            mails_of_tenant = TenantMails(web, internals.store(web, "default_tenant_id"))
            await mails_of_tenant.configure(mailbox)
            await mails_of_tenant.send()
            assert await internals.store(web, "mails").count(mails_of_tenant.tenant_id) == 1
            data_dir = internals.config(web).data_dir
            key = internals.config(web).master_key_file.read_bytes()
        assert mailbox.mails == []
        data_dir.mkdir(parents=True)
        (data_dir / "master.key").write_bytes(key)
        async with build(database=database, data_dir=data_dir, kickstart=None) as whole:
            await mailbox.wait_for(1)
            await TenantMails(whole, internals.store(whole, "default_tenant_id")).is_empty()
            await internals.database(whole).drop()


async def test_interrupted_smtp_session_returns_its_mail(build) -> None:
    async with receiving() as mailbox:
        mailbox.hangs = True
        async with build() as service:
            mails_of_tenant = TenantMails(service, internals.store(service, "default_tenant_id"))
            await mails_of_tenant.configure(mailbox)
            await mails_of_tenant.send()
            await mailbox.until(lambda: mailbox.connections == 1)
            worker = internals.worker(service, "MailWorker")
            worker._stop_seconds = 0.05
            await worker.stop()
            (row,) = await mails_of_tenant.waiting()
            assert row["attempts"] == 0
            assert row["nextAttempt"] <= internals.now(service)


@pytest.mark.requirement("core-18-templates-18", "design-config-5")
async def test_slow_server_of_one_tenant_does_not_delay_others(build) -> None:
    settings = {"email__max_concurrency": 3, "email__concurrency_per_tenant": 2}
    async with receiving() as slow, receiving() as quick, build(**settings) as service:
        slow.hangs = True
        patient = TenantMails(service, internals.store(service, "default_tenant_id"))
        async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
            made = await api.post("/api/tenant", json={"tenant": {"name": "Other", "issuer": "https://e.com"}})
        hasty = TenantMails(service, made.json()["tenant"]["id"])
        await patient.configure(slow)
        await hasty.configure(quick)
        for _ in range(5):
            await patient.send()
        await slow.until(lambda: slow.connections == 2)
        for _ in range(4):
            await hasty.send()
        await quick.wait_for(4)
        assert slow.connections == 2
        worker = internals.worker(service, "MailWorker")
        worker._stop_seconds = 0.05


@pytest.mark.requirement("core-18-templates-15")
async def test_debug_log_has_every_attempt(mails_of_tenant: TenantMails) -> None:
    async with receiving(auth=True) as mailbox:
        await mails_of_tenant.configure(mailbox, debug=True, username="we", password=PASSWORD)
        await mails_of_tenant.send()
        await mailbox.wait_for(1)
        await mails_of_tenant.is_empty()
    (message,) = await mails_of_tenant.logs("Debug")
    assert f"from service@example.com to to@example.com by 127.0.0.1:{mailbox.port} (NONE): OK" in message
    assert PASSWORD not in message
    assert await mails_of_tenant.logs() == []


@pytest.mark.requirement("core-18-templates-15")
async def test_wrong_smtp_password_is_logged_without_it(mails_of_tenant: TenantMails, clock) -> None:
    async with receiving(auth=True) as mailbox:
        await mails_of_tenant.configure(mailbox, username="we", password="not this one")
        await mails_of_tenant.send()
        await mails_of_tenant.was_tried(1)
        (message,) = await mails_of_tenant.logs()
        assert "535" in message
        assert "not this one" not in message
        assert await mails_of_tenant.logs("Debug") == []
        await mails_of_tenant.configure(mailbox, username="we", password=PASSWORD)
        await mails_of_tenant.advance(clock, seconds=40)
        (received,) = await mailbox.wait_for(1)
        assert received.username == "we"


@pytest.mark.requirement("core-18-templates-12", "design-config-5")
@pytest.mark.parametrize("security", ["SSL", "TLS"])
async def test_server_certificate_of_a_private_authority_is_accepted(build, tmp_path, security) -> None:
    file = tmp_path / "authorities.pem"
    file.write_text(certificates.authority().pem)
    context = certificates.server_context(certificates.make("mail", certificates.authority()))
    opened = receiving(tls=context) if security == "SSL" else receiving(starttls=context)
    async with opened as mailbox, build(email__authorities_file=file) as service:
        mails_of_tenant = TenantMails(service, internals.store(service, "default_tenant_id"))
        await mails_of_tenant.configure(mailbox, security=security)
        await mails_of_tenant.send()
        (received,) = await mailbox.wait_for(1)
        assert received.is_encrypted


@pytest.mark.requirement("core-18-templates-18")
async def test_mail_of_a_deleted_tenant_is_dropped(mails_of_tenant: TenantMails, clock, api) -> None:
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        mailbox.refusals = {"DATA": "451 later"}
        await mails_of_tenant.send()
        await mails_of_tenant.was_tried(1)
        (row,) = await mails_of_tenant.waiting()
        assert (await api.delete(f"/api/tenant/{mails_of_tenant.tenant_id}")).status_code == 200
        assert await internals.store(mails_of_tenant.service, "mails").count(mails_of_tenant.tenant_id) == 0
        # One that came in while the tenant went.
        await internals.database(mails_of_tenant.service).collection("mails").insert_one(row)
        await mails_of_tenant.advance(clock, seconds=40)
        await mails_of_tenant.is_empty()
        assert mailbox.mails == []


@pytest.mark.requirement("core-18-templates-15")
async def test_missing_template_is_logged(mails_of_tenant: TenantMails) -> None:
    template_id = new_id()
    errors = await internals.run(
        mails_of_tenant.service,
        mail.send,
        mails_of_tenant.call(),
        mails_of_tenant.tenant_id,
        template_id,
        Address("a@example.com"),
        {"code": "x"},
    )
    assert errors == {"parseErrors": {"template": "There is no such template."}}
    rows = (
        internals.database(mails_of_tenant.service).collection("event_logs").find({"message": {"$regex": template_id}})
    )
    assert [row["type"] async for row in rows] == ["Error"]
    assert await internals.store(mails_of_tenant.service, "mails").count(mails_of_tenant.tenant_id) == 0


@pytest.mark.requirement("core-18-templates-20")
async def test_feature_values_are_passed_next_to_the_user(mails_of_tenant: TenantMails, api, tenant_api) -> None:
    """Template values of a feature, in addition to the user."""
    template = {
        "name": new_id(),
        "defaultSubject": "${changePasswordId}",
        "defaultHtmlTemplate": "[#list state!{} as k, v]${k}=${v};[/#list]",
        "defaultTextTemplate": "{{ user.email }} {{ application.name|default('no application') }} {{ tenant.id }}",
    }
    made = (await api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"]
    user = {"email": f"{new_id()}@example.com", "password": "password"}
    user_id = (await tenant_api.post("/api/user", json={"user": user})).json()["user"]["id"]
    stored = await internals.store(mails_of_tenant.service, "users").get(mails_of_tenant.tenant_id, user_id)
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        data = {"changePasswordId": "an id", "state": {"a": "b"}}
        assert (
            await internals.run(
                mails_of_tenant.service,
                mail.send,
                mails_of_tenant.call(),
                mails_of_tenant.tenant_id,
                made["id"],
                stored,
                data,
            )
            == {}
        )
        (received,) = await mailbox.wait_for(1)
    assert received.message["Subject"] == "an id"
    assert received.part("html").strip() == "a=b;"
    assert received.part("plain").strip() == f"{user['email']} no application {mails_of_tenant.tenant_id}"


async def test_outage_of_the_store_is_only_a_delay(mails_of_tenant: TenantMails, monkeypatch) -> None:
    lease, failures = internals.store(mails_of_tenant.service, "mails").lease, []

    async def failing(*arguments: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            raise AutoReconnect("away")
        return await lease(*arguments)

    monkeypatch.setattr(internals.store(mails_of_tenant.service, "mails"), "lease", failing)
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        await mails_of_tenant.send()
        await mailbox.wait_for(1)
    assert len(failures) == 2


@pytest.mark.requirement("webhooks-15.2-13")
async def test_mail_that_went_out_while_the_store_was_away_does_not_go_twice(
    mails_of_tenant: TenantMails, monkeypatch
) -> None:
    settle, failures = internals.store(mails_of_tenant.service, "mails").complete, []

    async def failing(*arguments: Any) -> Any:
        if len(failures) < 2:
            failures.append(1)
            raise AutoReconnect("away")
        return await settle(*arguments)

    monkeypatch.setattr(queue_worker, "_BACK_OFF_SECONDS", 0.01)
    monkeypatch.setattr(internals.store(mails_of_tenant.service, "mails"), "complete", failing)
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        await mails_of_tenant.send()
        await mails_of_tenant.is_empty()
        assert len(mailbox.mails) == 1
    assert len(failures) == 2


@pytest.mark.requirement("webhooks-15.2-13")
async def test_mail_that_a_stopping_process_is_just_leasing_is_handed_back(build, monkeypatch) -> None:
    leased, go = asyncio.Event(), asyncio.Event()
    lease = WorkQueue.lease

    async def slow(self: Any, *arguments: Any) -> Any:
        found = await lease(self, *arguments)
        if found:
            leased.set()
            await go.wait()
        return found

    monkeypatch.setattr(WorkQueue, "lease", slow)
    async with build() as service, receiving() as mailbox:
        mails_of_tenant = TenantMails(service, internals.store(service, "default_tenant_id"))
        await mails_of_tenant.configure(mailbox)
        await mails_of_tenant.send()
        await leased.wait()
        worker = internals.worker(service, "MailWorker")
        stopping = asyncio.create_task(worker.stop())
        while not worker._loops[0].done():
            await asyncio.sleep(0)
        go.set()
        await stopping
        (row,) = await mails_of_tenant.waiting()
        assert (row.get("lease"), row["attempts"]) == (None, 0)
        assert row["nextAttempt"] <= internals.now(service)


async def test_failure_inside_is_no_end_of_anything(mails_of_tenant: TenantMails, monkeypatch, clock) -> None:
    settle, failures = internals.store(mails_of_tenant.service, "mails").complete, []

    async def failing(*arguments: Any) -> Any:
        if not failures:
            failures.append(1)
            raise RuntimeError("inside")
        return await settle(*arguments)

    monkeypatch.setattr(internals.store(mails_of_tenant.service, "mails"), "complete", failing)
    async with receiving() as mailbox:
        await mails_of_tenant.configure(mailbox)
        await mails_of_tenant.send()
        await mailbox.wait_for(1)
        await mails_of_tenant.advance(clock, seconds=100)
        first, second = await mailbox.wait_for(2)
        assert first.raw == second.raw
        await mails_of_tenant.is_empty()


async def test_rows_of_many_tenants_are_found_by_an_index(mails_of_tenant: TenantMails) -> None:
    rows = internals.database(mails_of_tenant.service).motor["mails"]
    plan = (
        await rows.find({"tenantId": mails_of_tenant.tenant_id, "nextAttempt": {"$lte": 1}})
        .sort("nextAttempt", 1)
        .explain()
    )
    assert "IXSCAN" in str(plan["queryPlanner"]["winningPlan"])
