"""Text messages by template: rendered, stored in the queue before the caller is answered, and sent by a messenger.

A generic messenger receives a POST of `{"phoneNumber": …, "textMessage": …}`, as published. `Idempotency-Key` is the
same in all attempts of a message (an extension).
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

import orjson

from identity.call import Call, Document
from identity.domain.messaging import message_templates, messenger_types
from identity.domain.messaging.template_budget import ParseError, RenderError
from identity.domain.webhooks import delivery_loop_detection, webhook_headers
from identity.errors import ServiceError
from identity.ids import Secret, TenantId, new_id
from identity.operations.groups import administrators
from identity.operations.messaging import mail
from identity.operations.messaging.webhook_keys import WebhookKeys
from identity.operations.objects import event_logs
from identity.outbound.http import OutboundError, Request
from identity.outbound.tls import is_trust_anchor
from identity.services import Services
from identity.store.work_queues import TextMessage

_MAX_RESPONSE_BYTES: Final = 1000
_TWILIO_TIMEOUT_MS: Final = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class MessengerFailure:
    """A failed request to a messenger; `reason` is for the event log and contains nothing of the message."""

    url: str
    reason: str


async def send_sms(  # noqa: PLR0913 (messenger, template, recipient and values)
    services: Services,
    call: Call,
    tenant_id: TenantId,
    messenger_id: str,
    message_template_id: str,
    to: Document | str,
    data: Document,
    *,
    application: Document | None = None,
    phone_number: str | None = None,
) -> bool:
    """Queue a text message to a user (a stored document) or a phone number; return whether it could be queued.

    `phone_number` replaces the user's `mobilePhone`, such as for a two-factor method. The template can use `user`,
    `tenant` and `application` in the form of the API, and the members of `data`. A worker sends and retries the
    message. Errors are written to the event log. Administrators receive none: a tenant's messenger would carry them.
    """
    if isinstance(to, dict) and await administrators.is_administrator(services, to):
        return await _log_error(services, call, message_template_id, messenger_id, "The user is an administrator.")
    template = await services.outbound.message_templates.find_cached(None, message_template_id)
    messenger = await services.outbound.messengers.find_cached(None, messenger_id)
    if template is None or messenger is None:
        missing = "message template" if template is None else "messenger"
        return await _log_error(services, call, message_template_id, messenger_id, f"There is no such {missing}.")
    number = phone_number or (to if isinstance(to, str) else to.get("mobilePhone") or to.get("phoneNumber"))
    if not number:
        return await _log_error(services, call, message_template_id, messenger_id, "The user has no phone number.")
    tenant = await services.configuration.tenants.get(None, tenant_id)
    values = {**await mail.values(services, tenant, application, to), **data}
    languages = to.get("preferredLanguages", []) if isinstance(to, dict) else []
    try:
        text = await asyncio.to_thread(message_templates.render, template, values, languages)
    except (ParseError, RenderError) as error:
        return await _log_error(services, call, message_template_id, messenger_id, error.message)
    return await _queue(services, call, tenant_id, messenger_id, number, text)


async def send_text(
    services: Services, call: Call, tenant_id: TenantId, messenger_id: str, phone_number: str, text: str
) -> bool:
    """Queue a text that needs no template; return whether the messenger exists. Errors go to the event log."""
    if await services.outbound.messengers.find_cached(None, messenger_id) is None:
        return await _log_error(services, call, "built-in", messenger_id, "There is no such messenger.")
    return await _queue(services, call, tenant_id, messenger_id, phone_number, text)


async def _queue(
    services: Services, call: Call, tenant_id: TenantId, messenger_id: str, phone_number: str, text: str
) -> bool:
    message = TextMessage(new_id(), tenant_id, messenger_id, phone_number, text, call.origin.trace, call.via)
    await services.outbound.text_messages.add([message], call.now)
    return True


async def deliver(services: Services, message: TextMessage) -> MessengerFailure | None:
    """Send a message to its messenger; return None after success, or if the messenger was deleted."""
    messenger = await services.outbound.messengers.find_cached(None, message.messenger_id)
    if messenger is None:
        return None
    try:
        response = await services.outbound.http.request(await _request(services, messenger, message))
    except (ServiceError, LookupError, ValueError) as error:
        return MessengerFailure(messenger["url"], f"its certificate cannot be used ({type(error).__name__})")
    except OutboundError as error:
        return MessengerFailure(messenger["url"], f"{error.kind}: {error.message}")
    if 200 <= response.status < 300:
        return None
    return MessengerFailure(messenger["url"], f"status {response.status}{_twilio_code(messenger, response.body)}")


async def _request(services: Services, messenger: Document, message: TextMessage) -> Request:
    if messenger["type"] == messenger_types.TWILIO:
        return _twilio_request(messenger, message)
    username = messenger.get("httpAuthenticationUsername")
    key_id = messenger.get("sslCertificateId")
    certificate = None if key_id is None else await WebhookKeys.certificate_of(services.configuration.keys, key_id)
    trust_anchor = certificate[0] if certificate is not None and is_trust_anchor(certificate[0]) else None
    headers = {"Accept": "application/json", **webhook_headers.sendable(messenger["headers"])}
    return Request(
        method="POST",
        url=messenger["url"],
        headers={
            **headers,
            "Content-Type": "application/json",
            "Idempotency-Key": message.job_id,
            **delivery_loop_detection.forwarded_headers(message.trace, message.via, services.outbound.service_id),
        },
        body=orjson.dumps({"phoneNumber": message.phone_number, "textMessage": message.text}),
        connect_timeout_ms=messenger["connectTimeout"],
        read_timeout_ms=messenger["readTimeout"],
        basic=(username, Secret(messenger.get("httpAuthenticationPassword") or "")) if username else None,
        client_certificate=certificate,
        trust_pem=messenger.get("sslCertificate"),
        added_trust_pem=trust_anchor,
        max_response_bytes=_MAX_RESPONSE_BYTES,
    )


def _twilio_code(messenger: Document, body: bytes) -> str:
    """Return the error code of a Twilio response for the event log; its message can contain the number."""
    if messenger["type"] != messenger_types.TWILIO:
        return ""
    try:
        code = orjson.loads(body)["code"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return f", Twilio error {code}" if isinstance(code, int) else ""


def _twilio_request(messenger: Document, message: TextMessage) -> Request:
    """Create a message resource (https://www.twilio.com/docs/messaging/api/message-resource)."""
    return Request(
        method="POST",
        url=messenger_types.twilio_url(messenger),
        headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
        body=messenger_types.twilio_form(messenger, message.phone_number, message.text),
        connect_timeout_ms=_TWILIO_TIMEOUT_MS,
        read_timeout_ms=_TWILIO_TIMEOUT_MS,
        basic=(messenger["accountSID"], Secret(messenger.get("authToken") or "")),
        max_response_bytes=_MAX_RESPONSE_BYTES,
    )


async def _log_error(services: Services, call: Call, template_id: str, messenger_id: str, reason: str) -> bool:
    text = f"A message by the message template [{template_id}] for the messenger [{messenger_id}] could not be sent: "
    await event_logs.record(services, call, "Error", text + reason)
    return False
