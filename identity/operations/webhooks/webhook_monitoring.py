"""Monitoring of webhooks during delivery: rate limits, and disabling webhooks that keep failing."""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Callable, Sequence

import structlog

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.domain.webhooks.webhook_health import GONE, WARNINGS, percent
from identity.ids import TenantId, WebhookId
from identity.instants import Instant, later
from identity.operations.objects import event_logs
from identity.operations.webhooks import webhook_deliveries
from identity.services import Services
from identity.store import outages
from identity.store.outages import OUTAGES
from identity.store.outbox_rows import DeliveryOutcome
from identity.store.rate_limits import Limit

_log = structlog.get_logger(__name__)

_INSTANCE = TenantId("instance")
_FAILURE_INTERVAL_MILLISECONDS = 1_000
_SUCCESS_INTERVAL_MILLISECONDS = 60_000


class WebhookMonitor:
    """The webhooks as the delivery worker of this process sees them."""

    def __init__(self, services: Services, webhooks: Callable[[], Awaitable[Sequence[Document]]]) -> None:
        self._services = services
        self._webhooks = webhooks
        self._failed_at: dict[WebhookId, Instant] = {}
        self._succeeded_at: dict[WebhookId, Instant] = {}

    async def webhooks(self) -> Sequence[Document]:
        """All webhooks, from the cache."""
        return await self._webhooks()

    async def find_webhook(self, webhook_id: WebhookId) -> Document | None:
        """A webhook, read from MongoDB."""
        return await self._services.configuration.webhooks.find(None, webhook_id)

    async def rate_limit_seconds(self, webhook: Document) -> float:
        """The time until the rate limit of a webhook, shared by all processes, permits a request; 0 for now.

        While Redis is unavailable there is no limit: late deliveries are worse.
        """
        configured = webhook.get("rateLimit")
        if configured is None:
            return 0
        limit = Limit("webhook", webhook["id"], configured["limit"], configured["periodInSeconds"])
        try:
            return await self._services.limits.rate_limits.consume(_INSTANCE, [limit]) or 0
        except OUTAGES:
            return 0

    async def record(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Record successes and failures; disable webhooks that failed for too long or answered 410."""
        attempts = [(outcome.lease.webhook_id, outcome.attempt) for outcome in outcomes if outcome.attempt is not None]
        succeeded = {webhook_id for webhook_id, attempt in attempts if attempt.succeeded}
        failed = collections.Counter(webhook_id for webhook_id, attempt in attempts if not attempt.succeeded)
        gone = {webhook_id for webhook_id, attempt in attempts if attempt.status == GONE}
        try:
            for webhook_id in succeeded:
                await self._record_success(webhook_id)
            for webhook_id in gone:
                await self._disable(webhook_id, "The receiver answered 410 (Gone).")
            for webhook_id, failures in failed.items():
                if webhook_id not in succeeded | gone:
                    await self._record_failures(webhook_id, failures)
        except OUTAGES as error:
            _log.warning("the health of webhooks could not be recorded", outage=outages.reason(error))

    async def _record_success(self, webhook_id: WebhookId) -> None:
        """Clear failures, which any process may have recorded; without known failures only once a minute."""
        now = self._services.clock.now()
        if (
            now - self._succeeded_at.get(webhook_id, 0) >= _SUCCESS_INTERVAL_MILLISECONDS
            or webhook_id in self._failed_at
        ):
            await self._services.logs.webhook_health.record_success(None, webhook_id)
            self._succeeded_at[webhook_id] = now
            self._failed_at.pop(webhook_id, None)

    async def _record_failures(self, webhook_id: WebhookId, failures: int) -> None:
        now = self._services.clock.now()
        if now - self._failed_at.get(webhook_id, 0) < _FAILURE_INTERVAL_MILLISECONDS:
            return
        self._failed_at[webhook_id] = now
        period_seconds = self._services.config.webhooks.disable_after_seconds
        forget_before = later(now, seconds=-2 * period_seconds)
        webhook = await self._services.configuration.webhooks.find_cached(None, webhook_id)
        # A change of the webhook restarts the period and its warnings.
        changed_at = Instant(0 if webhook is None else webhook["lastUpdateInstant"])
        health = await self._services.logs.webhook_health.record_failure(
            None, webhook_id, now, failures, forget_before, changed_at
        )
        if webhook is not None:
            await self._warn_or_disable(webhook_id, Instant(max(health.since, changed_at)), now)

    async def _warn_or_disable(self, webhook_id: WebhookId, since: Instant, now: Instant) -> None:
        period_seconds = self._services.config.webhooks.disable_after_seconds
        passed = percent((now - since) / 1000, period_seconds)
        is_over = passed >= WARNINGS[-1]
        # Disabling needs no claim: it is idempotent, and the process that has the claim may die before it disables.
        if not passed or not (
            is_over or await self._services.logs.webhook_health.claim_warning(None, webhook_id, passed)
        ):
            return
        if await self._services.logs.webhook_event_log.has_succeeded(None, webhook_id, since):
            # Approval requests succeed, which are not recorded here: a webhook that can veto is not disabled.
            await self._services.logs.webhook_health.record_success(None, webhook_id)
        elif is_over:
            await self._disable(webhook_id, f"Every delivery failed for {period_seconds} seconds.")
        else:
            text = f"The webhook [{webhook_id}] has failed for {passed} % of the time after which it is disabled."
            await event_logs.record(self._services, self._call(), "Error", text)

    async def _disable(self, webhook_id: WebhookId, reason: str) -> None:
        await webhook_deliveries.disable(self._services, self._call(), webhook_id, reason)

    def _call(self) -> Call:
        return Call(None, AnonymousCaller(), self._services.clock.now(), Origin("127.0.0.1", "", "", ""))
