"""The webhook event log: events, their deliveries and attempts (read only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from identity.call import Call, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import SearchRules
from identity.errors import FieldError, Invalid, NotFound
from identity.events.catalogue import SECRET_MEMBERS
from identity.ids import WebhookId
from identity.instants import Instant, later
from identity.services import Services
from identity.store.webhook_event_log import EventLogQuery

RESULTS = frozenset({"Running", "Succeeded", "Failed"})

_RULES = SearchRules(
    {"event": "text", "eventResult": "exact", "eventType": "exact"},
    {
        "eventResult": "result",
        "eventType": "type",
        "id": "_id",
        "insertInstant": "insertInstant",
        "lastAttemptInstant": "lastAttemptInstant",
        "linkedObjectId": "linkedObjectId",
        "sequence": "sequence",
    },
    default="insertInstant DESC, sequence DESC",
)
_STORED_NAMES = {"eventResult": "result", "eventType": "type"}
_MINUTE = 60_000
_NO_STATUS = -1
_REDACTED = "***"


async def retrieve(services: Services, event_id: str) -> Document:
    """An event with all attempts to deliver it. Raises NotFound."""
    found = await services.logs.webhook_event_log.find(None, event_id)
    if found is None:
        raise NotFound(log_detail=f"event {event_id}")
    return _to_response(found)


async def retrieve_attempt(services: Services, attempt_id: str) -> Document:
    """An attempt. Raises NotFound."""
    delivery = await services.logs.webhook_event_log.find_by_attempt(None, attempt_id)
    if delivery is None:
        raise NotFound(log_detail=f"attempt {attempt_id}")
    attempts = {attempt["id"]: attempt for attempt in _attempts(delivery)}
    return {**attempts[attempt_id], "webhookEventLogId": delivery["eventId"]}


async def search(services: Services, call: Call, request: Mapping[str, Any], prefix: str) -> tuple[int, list[Document]]:
    """The number of matching events, and one page of them. Raises Invalid."""
    errors: list[FieldError] = []
    start = _instant(request, "start", later(call.now, seconds=-3600) // _MINUTE * _MINUTE, prefix, errors)
    end = _instant(request, "end", -(-call.now // _MINUTE) * _MINUTE, prefix, errors)
    try:
        query = searches.read(_RULES, request, prefix)
    except Invalid as invalid:
        raise Invalid([*invalid.fields, *errors]) from None
    exact = {_STORED_NAMES[c.field]: str(c.value) for c in query.criteria if c.field in _STORED_NAMES}
    if exact.get("result", "Failed") not in RESULTS:
        errors.append(FieldError.of("invalid", f"{prefix}eventResult", "There is no such event result."))
    if errors:
        raise Invalid(errors)
    event = next((str(c.value) for c in query.criteria if c.field == "event"), None)
    log_query = EventLogQuery(start, end, event, exact, query.order, query.start_row, query.number_of_results)
    total, found = await services.logs.webhook_event_log.search(None, log_query)
    return total, [_to_response(row) for row in found]


async def dead_letters(
    services: Services, webhook_id: str, start_row: int, number_of_results: int
) -> tuple[int, list[Document]]:
    """The number of given-up deliveries to a webhook, and a page of them, newest first. Raises NotFound."""
    await services.configuration.webhooks.get(None, webhook_id)
    log = services.logs.webhook_event_log
    total, found = await log.dead_letters(None, WebhookId(webhook_id), start_row, number_of_results)
    return total, [_dead_letter(delivery) for delivery in found]


def attempt_response(webhook_id: str, attempt: Document, number: int) -> Document:
    """An attempt in the form of the API; `data` holds what the published object has no member for."""
    status = attempt.get("statusCode")
    succeeded = status is not None and 200 <= status < 300 and "exception" not in attempt
    response = {"statusCode": _NO_STATUS if status is None else status, "url": attempt["url"]}
    if "exception" in attempt:
        response["exception"] = attempt["exception"]
    names = ("responseBody", "responseHeaders", "nextAttemptInstant", "isManual")
    return {
        "attemptResult": "Success" if succeeded else "Failure",
        "data": {"attemptNumber": number, **{name: attempt[name] for name in names if name in attempt}},
        "endInstant": attempt["endInstant"],
        "id": attempt["id"],
        "startInstant": attempt["startInstant"],
        "webhookCallResponse": response,
        "webhookId": webhook_id,
    }


def _to_response(found: Document) -> Document:
    attempts = [attempt for delivery in found["deliveries"] for attempt in _attempts(delivery)]
    attempts.sort(key=lambda attempt: (attempt["startInstant"], attempt["id"]))
    results = [attempt["attemptResult"] for attempt in attempts]
    last = max((attempt["startInstant"] for attempt in attempts), default=None)
    response = {
        "attempts": attempts,
        "data": {"leftOut": found["leftOut"]} if "leftOut" in found else {},
        "event": _body(found),
        "eventResult": found["result"],
        "eventType": found["type"],
        "failedAttempts": results.count("Failure"),
        "id": found["_id"],
        "insertInstant": found["insertInstant"],
        "lastAttemptInstant": last,
        "lastUpdateInstant": max(found["insertInstant"], *(attempt["endInstant"] for attempt in attempts), 0),
        "linkedObjectId": found.get("linkedObjectId"),
        "sequence": found["sequence"],
        "successfulAttempts": results.count("Success"),
    }
    return {name: value for name, value in response.items() if value is not None}


def _dead_letter(delivery: Document) -> Document:
    attempts = _attempts(delivery)
    letter = {
        "attempts": attempts,
        "eventId": delivery["eventId"],
        "insertInstant": delivery["insertInstant"],
        "linkedObjectId": delivery.get("linkedObjectId"),
        "sequence": delivery["sequence"],
        "webhookId": delivery["webhookId"],
    }
    return {name: value for name, value in letter.items() if value is not None}


def _attempts(delivery: Document) -> list[Document]:
    """The stored attempts; their numbers do not change when earlier attempts are discarded."""
    first = delivery.get("forgotten", 0) + 1
    return [
        attempt_response(delivery["webhookId"], attempt, number)
        for number, attempt in enumerate(delivery["attempts"], start=first)
    ]


def _body(found: Document) -> Document:
    """The body as it was sent, with tokens redacted; only type and ids if the body is not stored."""
    if found["body"] is None:
        members = {"createInstant": "insertInstant", "id": "_id", "linkedObjectId": "linkedObjectId",
                   "tenantId": "tenantId", "type": "type"}  # fmt: skip
        return {"event": {name: found[stored] for name, stored in members.items() if stored in found}}
    body: Document = orjson.loads(found["body"])
    if not found.get("isSealed"):
        return body
    event = {name: _REDACTED if name in SECRET_MEMBERS and isinstance(value, str) else value
             for name, value in body["event"].items()}  # fmt: skip
    return {"event": event}


def _instant(request: Mapping[str, Any], name: str, default: int, prefix: str, errors: list[FieldError]) -> Instant:
    value = request.get(name)
    number = default if value is None or value == "" else searches.whole_number(value)
    if number is None or not 0 <= number < 2**53:
        path = f"{prefix}{name}"
        errors.append(FieldError.of("couldNotConvert", path, f"The [{path}] must be an instant in milliseconds."))
        return Instant(default)
    return Instant(number)
