"""One attempt to deliver an event to a webhook: sign and send the request, record and assess the response."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
import structlog

from identity.call import Document
from identity.domain.objects import secret_masking
from identity.domain.objects.log_throttling import LogThrottle
from identity.domain.webhooks import delivery_loop_detection, standard_webhooks, webhook_headers
from identity.domain.webhooks.retry_schedule import minimum_wait_seconds, retry_after_seconds
from identity.errors import ServiceError
from identity.events.catalogue import EVENTS, SECRET_MEMBERS
from identity.events.delivery_failure_log import THROTTLE_SECONDS, DeliveryFailureLog
from identity.events.metrics import EventMetrics
from identity.events.quiescence import Quiescence
from identity.ids import EventId, Secret
from identity.instants import Clock, Instant, numeric_date
from identity.outbound.http import HttpClient, OutboundError, Request, Response
from identity.outbound.spans import Span, Tracer
from identity.outbound.tls import is_trust_anchor
from identity.store.outbox_rows import DeliveryAttempt
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

_MAX_RESPONSE_BYTES = 65_536
_SIGNATURE_LIFETIME_SECONDS = 300
_MAX_WARNED = 10_000
_LOGGED_BODY_BYTES = 16_384
_LOGGED_HEADERS = 50
_LOGGED_VALUE_CHARACTERS = 1_000
_LOGGED_HEADER_CHARACTERS = 8_192
"""The limit of all names and values together: a row holds many attempts, and MongoDB limits a row to 16 MB."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptResult:
    """An attempt and, if it failed, the shortest time before the next one."""

    attempt: DeliveryAttempt
    wait_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryContext:
    """The event type and the number of an attempt, counted from 1.

    `trace` is the trace of the request that raised the event; `via` are the services that the event came through.
    """

    event_type: str
    number: int = 1
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class PayloadLimits:
    """Limits of the body of an event: above `warn_bytes` it is logged, above `max_bytes` it is not delivered."""

    warn_bytes: int = 2**20
    max_bytes: int = 25 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryDependencies:
    """What all deliveries of a service share; `service_id` identifies it in the `webhook-via` header."""

    service_id: str
    tracer: Tracer = dataclasses.field(default_factory=Tracer)
    metrics: EventMetrics = dataclasses.field(default_factory=EventMetrics)
    limits: PayloadLimits = PayloadLimits()
    quiescence: Quiescence = dataclasses.field(default_factory=functools.partial(Quiescence, is_active=False))


class DeliveryKeys(Protocol):
    """The keys of the instance; each method raises ServiceError, LookupError or ValueError for an unusable key."""

    async def sign_jwt(self, key_id: str, claims: Mapping[str, Any]) -> str:
        """A compact JWS of the claims."""

    async def sign_octets(self, key_id: str, content: bytes) -> str | None:
        """A Standard Webhooks signature, or None if the key's algorithm is not one of that specification."""

    async def client_certificate(self, key_id: str) -> tuple[str, Secret]:
        """The certificate and the private key, as PEM."""


class Deliverer:
    """Makes attempts; stores nothing about them."""

    def __init__(
        self,
        http: HttpClient,
        clock: Clock,
        version: str,
        keys: DeliveryKeys,
        failures: DeliveryFailureLog,
        dependencies: DeliveryDependencies,
    ) -> None:
        self._http = http
        self._clock = clock
        self._requests = WebhookRequests(clock, version, keys, failures)
        self.failures = failures
        self.tracer, self.metrics, self.limits = dependencies.tracer, dependencies.metrics, dependencies.limits
        self.quiescence = dependencies.quiescence
        self._service_id = dependencies.service_id
        self._loop_log = LogThrottle(THROTTLE_SECONDS)

    def report_loop(self, route: str, via: Sequence[str], request_id: str) -> None:
        """Count a request that was refused because of a delivery loop; log it, throttled per route."""
        self.metrics.loops.inc()
        suppressed = self._loop_log.suppressed_count(route, self._clock.now())
        if suppressed is not None:
            fields = {"route": route, "via": via, "request_id": request_id, "kept_back": suppressed}
            _log.warning("a chain of deliveries was cut off", **fields)

    async def attempt(
        self, webhook: Document, event_id: EventId, body: bytes, context: DeliveryContext
    ) -> AttemptResult:
        """Send the body to the webhook once and assess the response. Never raises because of the receiver.

        An attempt that cannot be made as configured (no signing key, no client certificate) fails without a request:
        an event is never sent unsigned or with the wrong client certificate. Raises Unavailable in a quiesced process.
        """
        self.quiescence.require_delivery()
        span = self.tracer.begin(f"webhook {context.event_type}", "client", context.trace)
        trace = context.trace if span is None else span.context
        headers = delivery_loop_detection.forwarded_headers(trace, context.via, self._service_id)
        try:
            result = await self._attempt(webhook, event_id, body, headers, context.event_type)
        except BaseException:
            if span is not None:
                span.end({}, "interrupted")
            raise
        if not result.attempt.succeeded:
            self.metrics.failures.labels(_reason(result.attempt)).inc()
        if span is not None:
            _end(span, webhook, event_id, context, result.attempt)
        return result

    async def _attempt(
        self, webhook: Document, event_id: EventId, body: bytes, forwarded_headers: Mapping[str, str], event_type: str
    ) -> AttemptResult:
        start = self._clock.now()
        url = webhook["url"]
        try:
            request = await self._requests.build(webhook, event_id, body, forwarded_headers)
        except (ServiceError, LookupError, ValueError) as error:
            reason = f"configuration: a key of the webhook cannot be used ({type(error).__name__})"
            return AttemptResult(DeliveryAttempt(start, self._clock.now(), url, exception=reason))
        try:
            response = await self._http.request(request)
        except OutboundError as error:
            attempt = DeliveryAttempt(start, self._clock.now(), url, exception=f"{error.kind}: {error.message}")
            timed_out = error.kind == "timeout"
            return AttemptResult(attempt, minimum_wait_seconds(None, timed_out=timed_out, retry_after_seconds=None))
        secrets = _secrets(webhook, body, event_type)
        # Redact before truncating, so that a secret at the limit is still recognized.
        text = secret_masking.redact(response.body.decode("utf-8", "replace"), secrets)
        text = text.encode()[:_LOGGED_BODY_BYTES].decode("utf-8", "ignore")
        headers = {name: secret_masking.redact(value, secrets) for name, value in _logged(response.headers).items()}
        attempt = DeliveryAttempt(
            start, self._clock.now(), url, status=response.status, response_body=text, response_headers=headers
        )
        return _assessed(attempt, response)


def _assessed(attempt: DeliveryAttempt, response: Response) -> AttemptResult:
    if attempt.succeeded:
        return AttemptResult(attempt)
    requested = retry_after_seconds(response.headers.get("retry-after"), attempt.end_instant)
    wait_seconds = minimum_wait_seconds(response.status, timed_out=False, retry_after_seconds=requested)
    return AttemptResult(attempt, wait_seconds)


def _reason(attempt: DeliveryAttempt) -> str:
    """The failure as a metric label: the kind of the exception, or the class of the status."""
    if attempt.exception is not None:
        return attempt.exception.partition(":")[0]
    return f"{(attempt.status or 0) // 100}xx"


def _end(span: Span, webhook: Document, event_id: EventId, context: DeliveryContext, attempt: DeliveryAttempt) -> None:
    """End the span of an attempt. It has only the host of the URL: paths and queries of webhooks hold tokens."""
    parts = urllib.parse.urlsplit(webhook["url"])
    attributes: dict[str, str | int | bool] = {
        "http.request.method": "POST",
        "http.request.resend_count": context.number - 1,
        "identity.event.id": event_id,
        "identity.event.type": context.event_type,
        "identity.webhook.id": webhook["id"],
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
    }
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
    failure = None if attempt.succeeded else str(attempt.status) if attempt.exception is None else _reason(attempt)
    span.end(attributes, failure)


def _secrets(webhook: Document, body: bytes, event_type: str) -> Sequence[str]:
    """The secrets in a request, which are redacted from the logged response."""
    secrets = secret_masking.credentials(
        webhook.get("headers") or {},
        webhook.get("httpAuthenticationUsername"),
        webhook.get("httpAuthenticationPassword"),
    )
    if event_type in EVENTS and EVENTS[event_type].holds_secrets:
        event = orjson.loads(body)["event"]
        secrets += [event[name] for name in SECRET_MEMBERS if isinstance(event.get(name), str)]
    return secrets


def _logged(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The response headers to log: limited in size, and without the receiver's cookies."""
    logged: dict[str, str] = {}
    room = _LOGGED_HEADER_CHARACTERS
    for name, value in headers.items():
        room -= len(name) + min(len(value), _LOGGED_VALUE_CHARACTERS)
        if name != "set-cookie" and room >= 0:
            logged[name] = value[:_LOGGED_VALUE_CHARACTERS]
        if room < 0 or len(logged) == _LOGGED_HEADERS:
            break
    return logged


class WebhookRequests:
    """Builds the requests of a process: headers, signatures, and client certificates of webhooks."""

    def __init__(self, clock: Clock, version: str, keys: DeliveryKeys, failures: DeliveryFailureLog) -> None:
        self._clock = clock
        self._user_agent = f"identity/{version}"
        self._keys = keys
        self._failures = failures
        self._warned: set[tuple[str, int]] = set()

    async def build(
        self, webhook: Document, event_id: EventId, body: bytes, forwarded_headers: Mapping[str, str]
    ) -> Request:
        """The request that delivers `body` to a webhook. Raises what the methods of `DeliveryKeys` raise."""
        username = webhook.get("httpAuthenticationUsername")
        password = Secret(webhook.get("httpAuthenticationPassword") or "")
        key_id = webhook.get("sslCertificateKeyId")
        certificate = None if key_id is None else await self._keys.client_certificate(key_id)
        trust_anchor = certificate[0] if certificate is not None and is_trust_anchor(certificate[0]) else None
        return Request(
            method="POST",
            url=webhook["url"],
            headers={**await self._headers(webhook, event_id, body), **forwarded_headers},
            body=body,
            connect_timeout_ms=webhook["connectTimeout"],
            read_timeout_ms=webhook["readTimeout"],
            basic=(username, password) if username else None,
            client_certificate=certificate,
            trust_pem=webhook.get("sslCertificate"),
            added_trust_pem=trust_anchor,
            max_response_bytes=_MAX_RESPONSE_BYTES,
        )

    async def _headers(self, webhook: Document, event_id: EventId, body: bytes) -> dict[str, str]:
        configured = webhook.get("headers") or {}
        await self._warn_of_unsendable(webhook, configured)
        headers = webhook_headers.sendable(configured)
        names = {name.lower() for name in headers}
        if "accept" not in names:
            headers["Accept"] = "application/json"
        if "user-agent" not in names:
            headers["User-Agent"] = self._user_agent
        headers["Content-Type"] = "application/json"
        now = self._clock.now()
        headers["webhook-id"] = event_id
        headers["webhook-timestamp"] = str(numeric_date(now))
        return headers | await self._signatures(webhook, event_id, body, now)

    async def _signatures(self, webhook: Document, event_id: EventId, body: bytes, now: Instant) -> dict[str, str]:
        """The published JWT signature, and the Standard Webhooks signatures by all active keys and secrets."""
        configuration = webhook.get("signatureConfiguration") or {}
        key_ids = standard_webhooks.active_key_ids(configuration, now)
        content = standard_webhooks.signed_content(event_id, numeric_date(now), body)
        secrets = standard_webhooks.active_secrets(webhook.get("private", {}), now)
        signatures = [standard_webhooks.hmac_signature(secret, content) for secret in secrets]
        for key_id in key_ids:
            signature = await self._keys.sign_octets(key_id, content)
            signatures += [] if signature is None else [signature]
        headers = {"webhook-signature": " ".join(signatures)} if signatures else {}
        if key_ids:
            claims = _claims(configuration, event_id, body, numeric_date(now))
            headers[webhook_headers.SIGNATURE_HEADER] = await self._keys.sign_jwt(key_ids[0], claims)
        return headers

    async def _warn_of_unsendable(self, webhook: Document, configured: Mapping[str, str]) -> None:
        """Warn of headers with invalid names, once per version of the webhook."""
        names = webhook_headers.unsendable(configured)
        version = (webhook["id"], webhook.get("lastUpdateInstant", 0))
        if names and version not in self._warned:
            if len(self._warned) >= _MAX_WARNED:
                self._warned.clear()
            self._warned.add(version)
            _log.warning("webhook headers left out: no HTTP tokens", webhook_id=webhook["id"], names=names)
            await self._failures.headers_omitted(webhook, names)


def _claims(configuration: Document, event_id: EventId, body: bytes, now: int) -> Document:
    """The claims of the published signature: the digest of the body and, if configured, its lifetime and event id."""
    claims: Document = {"request_body_sha256": base64.b64encode(hashlib.sha256(body).digest()).decode()}
    if configuration.get("timedClaims"):
        claims |= {"iat": now, "exp": now + _SIGNATURE_LIFETIME_SECONDS, "jti": event_id}
    return claims
