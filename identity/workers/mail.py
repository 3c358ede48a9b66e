"""The mail worker: sends queued mails by the mail server of their tenant, or of the console."""

from __future__ import annotations

import dataclasses

import prometheus_client

from identity.call import Document
from identity.domain.webhooks.retry_schedule import RetrySchedule
from identity.operations.groups import administrator_realm
from identity.operations.objects import event_logs
from identity.outbound.mail import MailServer, SmtpClient, SmtpResult
from identity.services import Services
from identity.store.wakeups import Wakeups
from identity.store.work_queues import JobLease, Mail, WorkQueue
from identity.workers.queue_worker import QueueLimits, QueueWorker

_JITTER = 0.1


class MailWorker(QueueWorker[Mail]):
    """Sends queued mails."""

    name = "mail"
    metric = ("identity_mail_attempts", "Conversations with mail servers by outcome")

    def __init__(self, services: Services, wakeups: Wakeups, registry: prometheus_client.CollectorRegistry) -> None:
        super().__init__(services, wakeups, registry)
        self._smtp = SmtpClient(services.config.email)

    def _job_queue(self) -> WorkQueue[Mail]:
        return self._services.outbound.mails

    def _queue_limits(self) -> QueueLimits:
        settings = self._services.config.email
        schedule = RetrySchedule(settings.schedule, _JITTER)
        return QueueLimits(
            settings.timeout_seconds, settings.max_concurrency, settings.concurrency_per_tenant, schedule
        )

    async def _attempt(self, lease: JobLease[Mail]) -> Mail | None:
        mail = lease.job
        tenant = await self._services.configuration.tenants.find_cached(None, mail.tenant_id)
        if tenant is None:
            return None
        if mail.by_console_server:
            tenant = administrator_realm.of_tenant(self._services, tenant)
        configuration = tenant["emailConfiguration"]
        result = await self._smtp.send(MailServer.of(configuration), mail.sender, mail.recipients, mail.message)
        await self._log_attempt(lease, configuration, result)
        return None if result.is_complete else dataclasses.replace(mail, recipients=tuple(result.deferred))

    async def _log_attempt(self, lease: JobLease[Mail], configuration: Document, result: SmtpResult) -> None:
        """Write failures to the event log; every attempt if the tenant enables `debug`."""
        mail = lease.job
        outcome = "deferred" if result.deferred else "refused" if result.refused else "success"
        self._attempts.labels(outcome).inc()
        server = f"{configuration['host']}:{configuration['port']} ({configuration['security']})"
        prefix = f"Mail [{mail.job_id}] of the tenant [{mail.tenant_id}], attempt {lease.attempts + 1}"
        call = self._call(mail.tenant_id)
        if configuration["debug"]:
            text = f"{prefix}: from {mail.sender} to {', '.join(mail.recipients)} by {server}: {result.reply}"
            await event_logs.record(self._services, call, "Debug", text)
        for address, reply in result.refused.items():
            text = f"{prefix}: {address} was refused for good by {server}: {reply}"
            await event_logs.record(self._services, call, "Error", text)
        if result.deferred:
            text = f"{prefix}: {', '.join(result.deferred)} could not be reached by {server}: {result.reply}."
            await self._note_failure(lease, text)
