"""What an administrator can do about deliveries: try a webhook out, ask again, pause, and share a secret."""

from __future__ import annotations

import os
from collections.abc import Callable

import orjson

from identity.call import Call, Document
from identity.domain.webhooks import standard_webhooks
from identity.domain.webhooks import webhook_health as health
from identity.domain.webhooks import webhook_samples as samples
from identity.errors import FieldError, Invalid, NotFound
from identity.events.catalogue import ALIASES, EVENTS
from identity.events.delivery import DeliveryContext
from identity.ids import EventId, WebhookId, new_id
from identity.instants import Instant, later
from identity.operations.objects import crud, event_logs
from identity.operations.webhooks import webhook_event_logs
from identity.schemas import load
from identity.services import Services

RECOVERY_DAYS = 14
"""How far back deliveries that were given up can be asked for again."""

_TOO_MANY_SECRETS = (
    f"{standard_webhooks.MAX_PREVIOUS_SECRETS} earlier secrets sign along already. Wait until one of them has"
    " ended, or replace the current one without an overlap."
)


async def test(services: Services, call: Call, webhook_id: str, body: Document) -> Document:
    """Send an event now, past all gates, once, without a log; answers the attempt. Raises NotFound and Invalid."""
    webhook = await services.webhooks.get(None, webhook_id)
    event = body.get("event") or _example(body["eventType"], call.now)
    octets = orjson.dumps({"event": event}, option=orjson.OPT_SORT_KEYS)
    kind = str(event.get("type"))
    delivery_context = DeliveryContext(kind if kind in EVENTS else "test", 1, call.origin.trace, call.via)
    result = await services.deliverer.attempt(webhook, EventId(event.get("id") or new_id()), octets, delivery_context)
    return webhook_event_logs.shown_attempt(webhook_id, result.attempt.to_document(), 1)


def _example(event_type: str, now: Instant) -> Document:
    """An event of this type about nobody. Raises Invalid for a type that does not exist."""
    if event_type == samples.TEST:
        return samples.test_event(new_id(), now)
    kind = EVENTS.get(ALIASES.get(event_type, event_type))
    if kind is None:
        raise Invalid.field("invalid", "eventType", f"There is no event of the type [{event_type}].")
    # Read, not compiled: nothing is judged by it, and compiling would hold up everybody.
    event = samples.sample(kind.name, load(f"events/{kind.name}.json"), new_id(), now)
    linked_object_id = kind.linked_object_id(event)
    return event if linked_object_id is None else {**event, "linkedObjectId": linked_object_id}


async def resend(services: Services, call: Call, event_id: str, webhook_id: str | None) -> int:
    """Deliver an event once more, to one webhook or to all that were to hear of it; answers how many.

    Safe to repeat: the event keeps its id, and a delivery under way is left alone. Raises NotFound, and Invalid for a
    webhook that is disabled, or that does not hear of the event's tenant: what one tenant's users do is not sent to the
    receiver of another by a wrong id.
    """
    known = EventId(event_id)
    webhook = None if webhook_id is None else await services.webhooks.get(None, webhook_id)
    event = await services.webhook_event_log.origin(None, known)
    if event is None:
        raise NotFound(log_detail=f"event {event_id}")
    tenant_id = event.get("tenantId")
    if webhook is None:
        told = await services.webhook_event_log.webhooks_of(None, known)
        asked = [each for each in told if await _may(services, each, tenant_id)]
    else:
        _require_enabled(webhook)
        if not _hears_of(webhook, tenant_id):
            raise Invalid.field("invalid", "webhookId", "The webhook does not hear of the tenant of this event.")
        asked = [WebhookId(webhook["id"])]
    answers = [await services.webhook_event_log.redeliver(None, known, each, call.now) for each in asked]
    if "unknown" in answers:
        raise NotFound(log_detail=f"event {event_id}")
    services.deliverer.metrics.redeliveries.labels("resend").inc(len(answers))
    services.wake_workers()
    return len(answers)


async def recover(services: Services, call: Call, webhook_id: str, start: Instant, end: Instant | None) -> int:
    """Deliver everything again that was given up of the events since `start`; answers how many deliveries.

    But for the events of tenants that the webhook heard of once and does not any more: it may be another's by now.
    Raises NotFound, and Invalid for a start more than 14 days ago, an end before it or a webhook that is disabled.
    """
    webhook = await services.webhooks.get(None, webhook_id)
    _require_enabled(webhook)
    _require_period(call.now, start, end)
    until = end if end is not None else later(call.now, seconds=1)
    tenant_ids = None if webhook.get("global") else webhook.get("tenantIds", [])
    log = services.webhook_event_log
    count = await log.recover(None, WebhookId(webhook_id), start, until, call.now, tenant_ids)
    services.deliverer.metrics.redeliveries.labels("recover").inc(count)
    services.wake_workers()
    return count


async def set_status(services: Services, call: Call, webhook_id: str, status: str) -> Document:
    """Pause, disable or enable a webhook; one that is so already stays as it is. Raises NotFound."""
    reason = "An administrator disabled it." if status == health.DISABLED else None
    webhook, _ = await _change(services, call, webhook_id, lambda found: _with_status(found, status, call.now, reason))
    return webhook


async def disable(services: Services, call: Call, webhook_id: WebhookId, reason: str) -> None:
    """Disable a webhook that is not any more able to hear, and say so in the event log; of several callers one does."""

    def change(webhook: Document) -> Document:
        return _with_status(webhook, health.DISABLED, call.now, reason)

    try:
        _, is_changed = await _change(services, call, webhook_id, change)
    except NotFound:
        return
    if is_changed:
        await event_logs.record(services, call, "Error", f"The webhook [{webhook_id}] was disabled. {reason}")


async def new_secret(services: Services, call: Call, webhook_id: str, overlap_seconds: int) -> str:
    """A new Standard Webhooks secret, told this once; the old one signs along for a while.

    Raises NotFound, and Invalid where as many old ones sign along as a webhook may have: none ends before its time.
    """
    secret = standard_webhooks.serialize_secret(os.urandom(standard_webhooks.SECRET_BYTES))

    def change(webhook: Document) -> Document:
        private = standard_webhooks.replace_secret(webhook.get("private", {}), secret, call.now, overlap_seconds)
        if len(private["previousSecrets"]) > standard_webhooks.MAX_PREVIOUS_SECRETS:
            raise Invalid.field("tooMany", "overlapInSeconds", _TOO_MANY_SECRETS)
        return {**webhook, "private": private}

    await _change(services, call, webhook_id, change)
    return secret


async def remove_secret(services: Services, call: Call, webhook_id: str) -> None:
    """Sign with no shared secret any more. Raises NotFound."""

    def change(webhook: Document) -> Document:
        private = webhook.get("private", {})
        return {**webhook, "private": standard_webhooks.remove_secret(private)} if "secret" in private else webhook

    await _change(services, call, webhook_id, change)


async def _change(
    services: Services, call: Call, webhook_id: str, change: Callable[[Document], Document]
) -> tuple[Document, bool]:
    """The webhook after a change, and whether it made a difference: of several who want the same, one has made it."""

    async def attempt() -> tuple[Document, bool]:
        stored = await services.webhooks.get(None, webhook_id)
        wanted = change(stored)
        if wanted == stored:
            return stored, False
        fresh = {**wanted, **crud.update_instants(stored, call.now)}
        await services.webhooks.replace(None, fresh, stored["lastUpdateInstant"])
        return fresh, True

    fresh, is_changed = await crud.retry_on_conflict(attempt)
    if is_changed:
        await services.webhook_health.record_success(None, WebhookId(webhook_id))
    return fresh, is_changed


def _with_status(webhook: Document, status: str, now: Instant, reason: str | None) -> Document:
    """The webhook with a status; one that has it already keeps when and why."""
    if webhook.get("status", health.ACTIVE) == status:
        return webhook
    told = {name: value for name, value in webhook.items() if name not in {"disabledInstant", "disabledReason"}}
    if status == health.DISABLED:
        told |= {"disabledInstant": now, "disabledReason": reason}
    return {**told, "status": status}


async def _may(services: Services, webhook_id: WebhookId, tenant_id: str | None) -> bool:
    webhook = await services.webhooks.find_cached(None, webhook_id)
    return webhook is not None and webhook.get("status") != health.DISABLED and _hears_of(webhook, tenant_id)


def _hears_of(webhook: Document, tenant_id: str | None) -> bool:
    """Whether events of this tenant, or of the instance, may be sent to the webhook now."""
    return tenant_id is None or bool(webhook.get("global")) or tenant_id in webhook.get("tenantIds", ())


def _require_period(now: Instant, start: Instant, end: Instant | None) -> None:
    problems = []
    if start < later(now, seconds=-RECOVERY_DAYS * 86_400):
        message = f"The [startInstant] must be within the last {RECOVERY_DAYS} days."
        problems.append(FieldError.of("invalid", "startInstant", message))
    if end is not None and end < start:
        problems.append(FieldError.of("invalid", "endInstant", "The [endInstant] must not be before [startInstant]."))
    if problems:
        raise Invalid(problems)


def _require_enabled(webhook: Document) -> None:
    if webhook.get("status") == health.DISABLED:
        raise Invalid.field("disabled", "webhookId", "The webhook is disabled. Enable it first.")
