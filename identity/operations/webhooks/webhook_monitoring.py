"""Looking after webhooks while events are delivered: rate limits, and switching off what fails for days."""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Callable, Sequence

import structlog

from identity.call import AnonymousCaller, Call, Document, Origin
from identity.domain.webhooks import webhook_health as rules
from identity.ids import TenantId, WebhookId
from identity.instants import Instant, later
from identity.operations.objects import event_logs
from identity.operations.webhooks import webhook_deliveries
from identity.services import Services
from identity.store.outages import OUTAGES
from identity.store.outbox_rows import DeliveryOutcome
from identity.store.rate_limits import Limit

_log = structlog.get_logger(__name__)

_OF_INSTANCE = TenantId("instance")
_NOTE_MILLISECONDS = 1_000
_CLEAR_MILLISECONDS = 60_000


class WebhookWatch:
    """What the delivery worker asks and tells about webhooks."""

    def __init__(self, services: Services, webhooks: Callable[[], Awaitable[Sequence[Document]]]) -> None:
        self._services = services
        self._webhooks = webhooks
        self._noted_at: dict[WebhookId, Instant] = {}
        self._cleared_at: dict[WebhookId, Instant] = {}

    async def webhooks(self) -> Sequence[Document]:
        """Every webhook, from memory."""
        return await self._webhooks()

    async def webhook_now(self, webhook_id: WebhookId) -> Document | None:
        """A webhook as MongoDB has it now."""
        return await self._services.webhooks.find(None, webhook_id)

    async def wait_seconds(self, webhook: Document) -> float:
        """How long a delivery has to wait for its turn under the webhook's rate limit; 0 when it may go.

        The limit holds over all processes. While Redis is away there is none: a delivery late is worse.
        """
        wanted = webhook.get("rateLimit")
        if wanted is None:
            return 0
        limit = Limit("webhook", webhook["id"], wanted["limit"], wanted["periodInSeconds"])
        try:
            return await self._services.rate_limits.consume(_OF_INSTANCE, [limit]) or 0
        except OUTAGES:
            return 0

    async def look(self, outcomes: Sequence[DeliveryOutcome]) -> None:
        """Note which webhooks succeed and which fail, and disable one that has failed for too long, or says 410."""
        succeeded = {each.lease.webhook_id for each in outcomes if each.attempt is not None and each.attempt.succeeded}
        failed = collections.Counter(
            each.lease.webhook_id for each in outcomes if each.attempt is not None and not each.attempt.succeeded
        )
        gone = {each.lease.webhook_id for each in outcomes if each.attempt and each.attempt.status == rules.GONE}
        try:
            for webhook_id in succeeded:
                await self._clear(webhook_id)
            for webhook_id in gone:
                await self._disable(webhook_id, "The receiver answered 410 (Gone).")
            for webhook_id, failures in failed.items():
                if webhook_id not in succeeded | gone:
                    await self._note(webhook_id, failures)
        except OUTAGES as error:
            _log.warning("the health of webhooks could not be noted", error=type(error).__name__)

    async def _clear(self, webhook_id: WebhookId) -> None:
        """A success ends a failure that any process may have noted; asked for now and then, not for each delivery."""
        now = self._services.clock.now()
        if now - self._cleared_at.get(webhook_id, 0) >= _CLEAR_MILLISECONDS or webhook_id in self._noted_at:
            await self._services.webhook_health.record_success(None, webhook_id)
            self._cleared_at[webhook_id] = now
            self._noted_at.pop(webhook_id, None)

    async def _note(self, webhook_id: WebhookId, failures: int) -> None:
        now = self._services.clock.now()
        if now - self._noted_at.get(webhook_id, 0) < _NOTE_MILLISECONDS:
            return
        self._noted_at[webhook_id] = now
        period = self._services.config.webhooks.disable_after_seconds
        forget = later(now, seconds=-2 * period)
        webhook = await self._services.webhooks.find_cached(None, webhook_id)
        # Whoever changed the webhook gave it another chance, and is told of each step anew.
        changed_at = Instant(0 if webhook is None else webhook["lastUpdateInstant"])
        failing = await self._services.webhook_health.record_failure(
            None, webhook_id, now, failures, forget, changed_at
        )
        if webhook is not None:
            await self._warn(webhook_id, Instant(max(failing.since, changed_at)), now)

    async def _warn(self, webhook_id: WebhookId, since: Instant, now: Instant) -> None:
        period = self._services.config.webhooks.disable_after_seconds
        percent = rules.percent((now - since) / 1000, period)
        is_over = percent >= rules.WARNINGS[-1]
        # Disabling needs no claim: it happens once by itself, and who has one may die before it is made use of.
        if not percent or not (is_over or await self._services.webhook_health.claim_warning(None, webhook_id, percent)):
            return
        if await self._services.webhook_event_log.has_succeeded(None, webhook_id, since):
            # It answers questions, of which nobody tells here: who may veto is not switched off while it does.
            await self._services.webhook_health.record_success(None, webhook_id)
        elif is_over:
            await self._disable(webhook_id, f"Every delivery failed for {period} seconds.")
        else:
            text = f"The webhook [{webhook_id}] has failed for {percent} % of the time after which it is disabled."
            await event_logs.record(self._services, self._call(), "Error", text)

    async def _disable(self, webhook_id: WebhookId, reason: str) -> None:
        await webhook_deliveries.disable(self._services, self._call(), webhook_id, reason)

    def _call(self) -> Call:
        return Call(None, AnonymousCaller(), self._services.clock.now(), Origin("127.0.0.1", "", "", ""))
