"""The mail loop: lease what is due, hand it to the tenant's mail server, try again or give up.

A mail is forgotten only when a mail server has taken it or nobody will try again: who is killed in between sends it
once more after the lease has run out.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random

import prometheus_client
import structlog

from identity import loops
from identity.call import Call, Document, Nobody, Origin
from identity.domain.delivery_schedule import Schedule
from identity.domain.silences import Silences
from identity.ids import TenantId
from identity.operations import event_logs
from identity.outbound.mail import MailServer, Result, Smtp
from identity.services import Services
from identity.store.mails import Lease
from identity.store.mongo import STORE_ERRORS
from identity.store.wakeups import Wakeups

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 1.0
_BACK_OFF_SECONDS = 1.0
_JITTER = 0.1
_MARGIN_SECONDS = 15
"""How much longer than a conversation a lease lasts: room for writing what became of it."""
_SILENCE_SECONDS = 300
"""How long after an event log of a failed attempt none is written of another of the same tenant."""
_CHANCE = random.SystemRandom()


class MailWorker:
    """Takes mails and sends them, until it is told to stop."""

    def __init__(
        self,
        services: Services,
        wakeups: Wakeups,
        registry: prometheus_client.CollectorRegistry,
        *,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is how long conversations under way may go on at the end."""
        settings = services.config.email
        self._services = services
        self._wakeups = wakeups
        self._settings = settings
        self._schedule = Schedule(settings.schedule, _JITTER)
        self._smtp = Smtp(timeout_seconds=settings.timeout_seconds, authorities_file=settings.authorities_file)
        self._attempts = prometheus_client.Counter(
            "identity_mail_attempts", "Conversations with mail servers by outcome", ["outcome"], registry=registry
        )
        self._silences = Silences(_SILENCE_SECONDS)
        self._stop_seconds = stop_seconds
        self._held: collections.Counter[TenantId] = collections.Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin."""
        self._loops = [loops.start("mail", self._work_for_ever)]

    async def stop(self) -> None:
        """Take nothing more, and let conversations under way end; what is cut off is handed back."""
        await loops.end(self._loops)
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._stop_seconds)
        await loops.end(list(self._under_way))

    async def _work_for_ever(self) -> None:
        while True:
            self._wakeups.awake.clear()
            try:
                leases = await self._lease()
            except STORE_ERRORS as error:
                _log.warning("mails wait", error=type(error).__name__)
                await asyncio.sleep(_BACK_OFF_SECONDS)
                continue
            for lease in leases:
                self._take(lease)
            if not leases:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._wakeups.awake.wait()

    async def _lease(self) -> list[Lease]:
        room = self._settings.max_concurrency - len(self._under_way)
        if room <= 0:
            return []
        return await self._services.mails.lease(
            self._services.clock.now(),
            self._settings.timeout_seconds + _MARGIN_SECONDS,
            self._held,
            self._settings.concurrency_per_tenant,
            room,
        )

    def _take(self, lease: Lease) -> None:
        self._held[lease.mail.tenant_id] += 1
        task = asyncio.create_task(self._send(lease))
        self._under_way.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            self._held[lease.mail.tenant_id] -= 1
            self._wakeups.awake.set()  # there is room again
            if not task.cancelled() and task.exception() is not None:
                # Whatever it is, the mail is tried again when its lease has run out.
                _log.error("sending a mail failed inside", mail_id=lease.mail.mail_id, exc_info=task.exception())

        task.add_done_callback(ended)

    async def _send(self, lease: Lease) -> None:
        mail = lease.mail
        tenant = await self._services.tenants.cached(None, mail.tenant_id)
        if tenant is None:
            await self._services.mails.settle(lease)
            return
        configuration = tenant["emailConfiguration"]
        try:
            result = await self._smtp.send(MailServer.of(configuration), mail.sender, mail.recipients, mail.message)
        except asyncio.CancelledError:
            with contextlib.suppress(*STORE_ERRORS):
                await self._services.mails.hand_back(lease, self._services.clock.now())
            raise
        await self._note(lease, configuration, result)
        await self._settle(lease, result)

    async def _settle(self, lease: Lease, result: Result) -> None:
        """Write what became of it: a mail that was taken is sent twice if this cannot be written, and never lost."""
        now = self._services.clock.now()
        due = None if result.is_complete else self._schedule.next_attempt(now, lease.attempts + 1, _CHANCE.random())
        if due is None:
            await self._services.mails.settle(lease)
        else:
            await self._services.mails.retry(lease, result.deferred, due)

    async def _note(self, lease: Lease, configuration: Document, result: Result) -> None:
        """Tell the event log of what went wrong and, where the tenant wants it, of everything."""
        outcome = "deferred" if result.deferred else "refused" if result.refused else "success"
        self._attempts.labels(outcome).inc()
        server = f"{configuration['host']}:{configuration['port']} ({configuration['security']})"
        what = f"Mail [{lease.mail.mail_id}] of the tenant [{lease.mail.tenant_id}], attempt {lease.attempts + 1}"
        call = self._call(lease.mail.tenant_id)
        if configuration["debug"]:
            text = f"{what}: from {lease.mail.sender} to {', '.join(lease.mail.recipients)} by {server}: {result.said}"
            await event_logs.record(self._services, call, "Debug", text)
        for address, said in result.refused.items():
            text = f"{what}: {address} was refused for good by {server}: {said}"
            await event_logs.record(self._services, call, "Error", text)
        if result.deferred:
            text = f"{what}: {', '.join(result.deferred)} could not be reached by {server}: {result.said}."
            await self._note_failure(lease, call, text)

    async def _note_failure(self, lease: Lease, call: Call, text: str) -> None:
        """Every mail that is given up is told; of attempts that go on, only one in a while for each tenant."""
        if lease.attempts >= len(self._settings.schedule):
            await event_logs.record(self._services, call, "Error", f"{text} It is given up.")
            return
        kept_back = self._silences.kept_back(lease.mail.tenant_id, call.now)
        if kept_back is not None:
            more = f" {kept_back} earlier failures of this tenant were not written." if kept_back else ""
            await event_logs.record(self._services, call, "Error", f"{text} It will be tried again.{more}")

    def _call(self, tenant_id: TenantId) -> Call:
        return Call(tenant_id, Nobody(), self._services.clock.now(), Origin("127.0.0.1", "", "", ""))
