"""The mail loop: what is due is handed to the tenant's mail server."""

from __future__ import annotations

import dataclasses

import prometheus_client

from identity.call import Document
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.objects import event_logs
from identity.outbound.mail import MailServer, SmtpClient, SmtpResult
from identity.services import Services
from identity.store.mails import Mail
from identity.store.wakeups import Wakeups
from identity.store.work_queue import JobLease, WorkQueue
from identity.workers.queue_worker import Pace, QueueWorker

_JITTER = 0.1


class MailWorker(QueueWorker[Mail]):
    """Takes mails and sends them."""

    name = "mail"
    metric = ("identity_mail_attempts", "Conversations with mail servers by outcome")

    def __init__(
        self,
        services: Services,
        wakeups: Wakeups,
        registry: prometheus_client.CollectorRegistry,
        *,
        stop_seconds: float = 10.0,
    ) -> None:
        """`stop_seconds` is how long conversations under way may go on at the end."""
        super().__init__(services, wakeups, registry, stop_seconds=stop_seconds)
        settings = services.config.email
        self._smtp = SmtpClient(
            timeout_seconds=settings.timeout_seconds,
            authorities_file=settings.authorities_file,
            allowed_networks=settings.allowed_networks,
            plaintext_auth_hosts=settings.plaintext_auth_hosts,
        )

    def _jobs(self) -> WorkQueue[Mail]:
        """The mails."""
        return self._services.mails

    def _own_pace(self) -> Pace:
        """As the operator has it."""
        settings = self._services.config.email
        schedule = RetrySchedule(settings.schedule, _JITTER)
        return Pace(settings.timeout_seconds, settings.max_concurrency, settings.concurrency_per_tenant, schedule)

    async def _attempt(self, lease: JobLease[Mail]) -> Mail | None:
        mail = lease.job
        tenant = await self._services.tenants.find_cached(None, mail.tenant_id)
        if tenant is None:
            return None
        configuration = tenant["emailConfiguration"]
        result = await self._smtp.send(MailServer.of(configuration), mail.sender, mail.recipients, mail.message)
        await self._note(lease, configuration, result)
        return None if result.is_complete else dataclasses.replace(mail, recipients=tuple(result.deferred))

    async def _note(self, lease: JobLease[Mail], configuration: Document, result: SmtpResult) -> None:
        """Tell the event log of what went wrong and, where the tenant wants it, of everything."""
        mail = lease.job
        outcome = "deferred" if result.deferred else "refused" if result.refused else "success"
        self._attempts.labels(outcome).inc()
        server = f"{configuration['host']}:{configuration['port']} ({configuration['security']})"
        what = f"Mail [{mail.mail_id}] of the tenant [{mail.tenant_id}], attempt {lease.attempts + 1}"
        call = self._call(mail.tenant_id)
        if configuration["debug"]:
            text = f"{what}: from {mail.sender} to {', '.join(mail.recipients)} by {server}: {result.reply}"
            await event_logs.record(self._services, call, "Debug", text)
        for address, said in result.refused.items():
            text = f"{what}: {address} was refused for good by {server}: {said}"
            await event_logs.record(self._services, call, "Error", text)
        if result.deferred:
            text = f"{what}: {', '.join(result.deferred)} could not be reached by {server}: {result.reply}."
            await self._note_failure(lease, text)
