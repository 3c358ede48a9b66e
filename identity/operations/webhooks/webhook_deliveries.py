"""Administration of deliveries: send a test event, redeliver, pause or disable a webhook, and rotate its secret."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from identity.call import Call, Document
from identity.domain.webhooks import standard_webhooks, webhook_samples
from identity.domain.webhooks.webhook_health import ACTIVE, DISABLED
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
"""The age of the oldest events whose failed deliveries can be recovered."""

_TOO_MANY_SECRETS = (
    f"{standard_webhooks.MAX_PREVIOUS_SECRETS} previous secrets are still valid. Wait until one of them has"
    " expired, or replace the current one without an overlap."
)


async def test(services: Services, call: Call, webhook_id: str, body: Document) -> Document:
    """Send an event once, whatever the webhook subscribes to, and return the attempt; nothing is logged.

    Raises NotFound, and Invalid for an unknown type.
    """
    webhook = await services.configuration.webhooks.get(None, webhook_id)
    event = body.get("event") or sample(body["eventType"], call.now)
    octets = orjson.dumps({"event": event}, option=orjson.OPT_SORT_KEYS)
    event_type = str(event.get("type"))
    event_type = event_type if event_type in EVENTS else webhook_samples.TEST
    context = DeliveryContext(event_type, 1, call.origin.trace, call.via)
    result = await services.outbound.deliverer.attempt(webhook, EventId(event.get("id") or new_id()), octets, context)
    return webhook_event_logs.attempt_response(webhook_id, result.attempt.to_document(), 1)


def sample(event_type: str, now: Instant) -> Document:
    """A sample event. Raises Invalid for an unknown type."""
    if event_type == webhook_samples.TEST:
        return webhook_samples.test_event(new_id(), now)
    definition = EVENTS.get(ALIASES.get(event_type, event_type))
    if definition is None:
        raise Invalid.field("invalid", "eventType", f"There is no event of the type [{event_type}].")
    # The schema is only read: compiling it would block the event loop, and nothing is validated.
    event = webhook_samples.sample(definition.name, load(f"events/{definition.name}.json"), new_id(), now)
    linked_object_id = definition.linked_object_id(event)
    return event if linked_object_id is None else {**event, "linkedObjectId": linked_object_id}


async def resend(services: Services, call: Call, event_id: str, webhook_id: str | None) -> int:
    """Redeliver an event to one webhook, or to all that were subscribed to it; return the number of deliveries.

    Safe to repeat: the event keeps its id, and a delivery in progress is not affected. Raises NotFound, and Invalid for
    a webhook that is disabled or does not cover the event's tenant: a mistyped id must not send the events of one
    tenant to the receiver of another.
    """
    typed_id = EventId(event_id)
    webhook = None if webhook_id is None else await services.configuration.webhooks.get(None, webhook_id)
    event = await services.logs.webhook_event_log.origin(None, typed_id)
    if event is None:
        raise NotFound(log_detail=f"event {event_id}")
    tenant_id = event.get("tenantId")
    if webhook is None:
        subscribed = await services.logs.webhook_event_log.webhooks_of(None, typed_id)
        webhook_ids = [each for each in subscribed if await _may_receive(services, each, tenant_id)]
    else:
        _require_enabled(webhook)
        if not _covers(webhook, tenant_id):
            raise Invalid.field("invalid", "webhookId", "The webhook does not receive events of the event's tenant.")
        webhook_ids = [WebhookId(webhook["id"])]
    results = [
        await services.logs.webhook_event_log.redeliver(None, typed_id, webhook_id, call.now)
        for webhook_id in webhook_ids
    ]
    if "unknown" in results:
        raise NotFound(log_detail=f"event {event_id}")
    services.outbound.deliverer.metrics.redeliveries.labels("resend").inc(len(results))
    services.outbound.wake_workers()
    return len(results)


async def recover(services: Services, call: Call, webhook_id: str, start: Instant, end: Instant | None) -> int:
    """Retry all given-up deliveries of events since `start`; return the number of deliveries.

    Events of tenants that the webhook no longer covers are excluded: it may belong to another party by now.
    Raises NotFound, and Invalid for a start more than 14 days ago, an end before it or a webhook that is disabled.
    """
    webhook = await services.configuration.webhooks.get(None, webhook_id)
    _require_enabled(webhook)
    _require_period(call.now, start, end)
    until = end if end is not None else later(call.now, seconds=1)
    tenant_ids = None if webhook.get("global") else webhook.get("tenantIds", [])
    log = services.logs.webhook_event_log
    count = await log.recover(None, WebhookId(webhook_id), start, until, call.now, tenant_ids)
    services.outbound.deliverer.metrics.redeliveries.labels("recover").inc(count)
    services.outbound.wake_workers()
    return count


async def set_status(services: Services, call: Call, webhook_id: str, status: str) -> Document:
    """Pause, disable or enable a webhook; without a change of status nothing is written. Raises NotFound."""
    reason = "An administrator disabled it." if status == DISABLED else None
    webhook, _ = await _change(services, call, webhook_id, _with_status, status, call.now, reason)
    return webhook


async def disable(services: Services, call: Call, webhook_id: WebhookId, reason: str) -> None:
    """Disable a failing webhook and log it; of several concurrent callers, one logs."""
    try:
        _, is_changed = await _change(services, call, webhook_id, _with_status, DISABLED, call.now, reason)
    except NotFound:
        return
    if is_changed:
        await event_logs.record(services, call, "Error", f"The webhook [{webhook_id}] was disabled. {reason}")


async def new_secret(services: Services, call: Call, webhook_id: str, overlap_seconds: int) -> str:
    """Generate a Standard Webhooks secret and return it, once; the previous one also signs during the overlap.

    Raises NotFound, and Invalid if the webhook has the maximum of previous secrets, none of which ends early.
    """
    secret = standard_webhooks.serialize_secret(os.urandom(standard_webhooks.SECRET_BYTES))
    await _change(services, call, webhook_id, _with_secret, secret, call.now, overlap_seconds)
    return secret


async def remove_secret(services: Services, call: Call, webhook_id: str) -> None:
    """Remove the shared secrets of a webhook. Raises NotFound."""
    await _change(services, call, webhook_id, _without_secret)


async def _change(
    services: Services, call: Call, webhook_id: str, change: Callable[..., Document], *arguments: Any
) -> tuple[Document, bool]:
    """Apply `change(webhook, *arguments)`; return the webhook, and whether this caller changed it."""
    webhook, is_changed = await _try_change(services, call, webhook_id, change, arguments)
    if is_changed:
        await services.logs.webhook_health.record_success(None, WebhookId(webhook_id))
    return webhook, is_changed


@crud.retry_on_conflict
async def _try_change(
    services: Services, call: Call, webhook_id: str, change: Callable[..., Document], arguments: Sequence[Any]
) -> tuple[Document, bool]:
    stored = await services.configuration.webhooks.get(None, webhook_id)
    changed = change(stored, *arguments)
    if changed == stored:
        return stored, False
    webhook = {**changed, **crud.update_instants(stored, call.now)}
    await services.configuration.webhooks.replace(None, webhook, stored["lastUpdateInstant"])
    return webhook, True


def _with_status(webhook: Document, status: str, now: Instant, reason: str | None) -> Document:
    """The webhook with a status; one that has it already keeps instant and reason."""
    if webhook.get("status", ACTIVE) == status:
        return webhook
    members = {name: value for name, value in webhook.items() if name not in {"disabledInstant", "disabledReason"}}
    if status == DISABLED:
        members |= {"disabledInstant": now, "disabledReason": reason}
    return {**members, "status": status}


def _with_secret(webhook: Document, secret: str, now: Instant, overlap_seconds: int) -> Document:
    private = standard_webhooks.replace_secret(webhook.get("private", {}), secret, now, overlap_seconds)
    if len(private["previousSecrets"]) > standard_webhooks.MAX_PREVIOUS_SECRETS:
        raise Invalid.field("tooMany", "overlapInSeconds", _TOO_MANY_SECRETS)
    return {**webhook, "private": private}


def _without_secret(webhook: Document) -> Document:
    private = webhook.get("private", {})
    return {**webhook, "private": standard_webhooks.remove_secret(private)} if "secret" in private else webhook


async def _may_receive(services: Services, webhook_id: WebhookId, tenant_id: str | None) -> bool:
    webhook = await services.configuration.webhooks.find_cached(None, webhook_id)
    return webhook is not None and webhook.get("status") != DISABLED and _covers(webhook, tenant_id)


def _covers(webhook: Document, tenant_id: str | None) -> bool:
    """Whether the webhook may receive events of this tenant, or of the instance."""
    return tenant_id is None or bool(webhook.get("global")) or tenant_id in webhook.get("tenantIds", ())


def _require_period(now: Instant, start: Instant, end: Instant | None) -> None:
    problems = []
    if start < later(now, seconds=-RECOVERY_DAYS * 86_400):
        problems.append(FieldError.invalid("startInstant", f"must be within the last {RECOVERY_DAYS} days"))
    if end is not None and end < start:
        problems.append(FieldError.invalid("endInstant", "must not be before [startInstant]"))
    if problems:
        raise Invalid(problems)


def _require_enabled(webhook: Document) -> None:
    if webhook.get("status") == DISABLED:
        raise Invalid.field("disabled", "webhookId", "The webhook is disabled. Enable it first.")
