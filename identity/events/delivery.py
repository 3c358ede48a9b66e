"""One delivery: the request to a webhook, sent and judged."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson
import structlog

from identity.call import Document
from identity.domain.objects import secret_redaction
from identity.domain.objects.log_throttling import LogThrottle
from identity.domain.webhooks import delivery_loop_detection, standard_webhooks, webhook_headers
from identity.domain.webhooks.retry_schedule import retry_after_seconds, wait_at_least
from identity.errors import ServiceError
from identity.events.catalogue import EVENTS, SECRET_MEMBERS
from identity.events.delivery_failure_log import SILENCE_SECONDS, DeliveryFailureLog
from identity.events.metrics import EventMetrics
from identity.ids import EventId, Secret
from identity.instants import Clock, Instant, numeric_date
from identity.outbound.http import HttpClient, OutboundError, Request, Response
from identity.outbound.spans import Span, Tracer
from identity.outbound.tls import is_trust_anchor
from identity.outbound.tracing import Untraced
from identity.store.outbox_rows import DeliveryAttempt
from identity.trace_context import TraceContext

_log = structlog.get_logger(__name__)

_MAXIMUM_ANSWER_BYTES = 65_536
_KEPT_ANSWER_BYTES = 16_384
_KEPT_HEADERS = 50
_KEPT_VALUE_CHARACTERS = 1_000
_KEPT_HEADER_CHARACTERS = 8_192
"""Of all names and values together: a row holds many attempts, and MongoDB no row of more than 16 MB."""

_TOKEN_SECONDS = 300


class Keys(Protocol):
    """The keys of the instance; each raises ServiceError, LookupError or ValueError where a key cannot be used."""

    async def sign_jwt(self, key_id: str, claims: Mapping[str, Any]) -> str:
        """A compact JWS over the claims."""

    async def sign_octets(self, key_id: str, content: bytes) -> str | None:
        """A Standard Webhooks signature, or None for keys of kinds that make none."""

    async def client_certificate(self, key_id: str) -> tuple[str, Secret]:
        """The certificate and the private key, as PEM."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What came of an attempt; after a failure the receiver is left alone for `wait_seconds` at the least."""

    attempt: DeliveryAttempt
    wait_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryContext:
    """What an attempt is made for: an event of a type, for the how-manieth time.

    `trace` is the trace of what raised the event, `via` are the services that it has come through.
    """

    event_type: str
    number: int = 1
    trace: TraceContext | None = None
    via: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """How large the body of an event may be, in bytes: above the first it is told of, above the second not sent."""

    warn_bytes: int = 2**20
    max_bytes: int = 25 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryDependencies:
    """What goes with every delivery of a service, and who hears of it beside the receiver.

    `mark` is how the service is called in the list of those that a delivery has come through.
    """

    mark: str
    tracer: Tracer = dataclasses.field(default_factory=Untraced)
    metrics: EventMetrics = dataclasses.field(default_factory=EventMetrics)
    bounds: Bounds = Bounds()


class Deliverer:
    """Makes attempts; keeps nothing about them."""

    def __init__(
        self,
        http: HttpClient,
        clock: Clock,
        version: str,
        keys: Keys,
        failures: DeliveryFailureLog,
        equipment: DeliveryDependencies,
    ) -> None:
        self._http = http
        self._clock = clock
        self._user_agent = f"identity/{version}"
        self._keys = keys
        self.failures = failures
        self.tracer, self.metrics, self.bounds = equipment.tracer, equipment.metrics, equipment.bounds
        self._mark = equipment.mark
        self._warned: set[tuple[str, int]] = set()
        self._loops = LogThrottle(SILENCE_SECONDS)

    def note_loop(self, route: str, via: Sequence[str], request_id: str) -> None:
        """A request was refused because of what it came through; said in the log once in a while for each route."""
        self.metrics.loops.inc()
        kept_back = self._loops.kept_back(route, self._clock.now())
        if kept_back is not None:
            about = {"route": route, "via": via, "request_id": request_id, "kept_back": kept_back}
            _log.warning("a chain of deliveries was cut off", **about)

    async def attempt(
        self, webhook: Document, event_id: EventId, body: bytes, delivery_context: DeliveryContext
    ) -> Result:
        """Send the body to the webhook once, and judge the answer. Never raises for what a receiver may do.

        An attempt that cannot be made as configured (no signing key, no client certificate) fails without a request:
        an event is never sent unsigned or by the wrong identity.
        """
        span = self.tracer.begin(f"webhook {delivery_context.event_type}", "client", delivery_context.trace)
        context = delivery_context.trace if span is None else span.context
        passed_on = delivery_loop_detection.passed_on(context, delivery_context.via, self._mark)
        try:
            result = await self._attempt(webhook, event_id, body, passed_on, delivery_context.event_type)
        except BaseException:
            if span is not None:
                span.end({}, "interrupted")
            raise
        if not result.attempt.succeeded:
            self.metrics.failures.labels(_reason(result.attempt)).inc()
        if span is not None:
            _end(span, webhook, event_id, delivery_context, result.attempt)
        return result

    async def _attempt(
        self, webhook: Document, event_id: EventId, body: bytes, passed_on: Mapping[str, str], event_type: str
    ) -> Result:
        start = self._clock.now()
        url = webhook["url"]
        try:
            request = await self._request(webhook, event_id, body, passed_on)
        except (ServiceError, LookupError, ValueError) as error:
            reason = f"configuration: a key of the webhook cannot be used ({type(error).__name__})"
            return Result(DeliveryAttempt(start, self._clock.now(), url, exception=reason))
        try:
            response = await self._http.request(request)
        except OutboundError as error:
            attempt = DeliveryAttempt(start, self._clock.now(), url, exception=f"{error.kind}: {error.message}")
            is_slow = error.kind == "timeout"
            return Result(attempt, wait_at_least(None, timed_out=is_slow, retry_after_seconds=None))
        secrets = _secrets(webhook, body, event_type)
        # Read whole, so that none is cut in two by the bound.
        answer = secret_redaction.masked(response.body.decode("utf-8", "replace"), secrets)
        kept = answer.encode()[:_KEPT_ANSWER_BYTES].decode("utf-8", "ignore")
        headers = {name: secret_redaction.masked(value, secrets) for name, value in _kept(response.headers).items()}
        attempt = DeliveryAttempt(start, self._clock.now(), url, status=response.status, answer=kept, headers=headers)
        return self._judged(attempt, response)

    def _judged(self, attempt: DeliveryAttempt, response: Response) -> Result:
        if attempt.succeeded:
            return Result(attempt)
        wanted = retry_after_seconds(response.headers.get("retry-after"), attempt.end_instant)
        return Result(attempt, wait_at_least(response.status, timed_out=False, retry_after_seconds=wanted))

    async def _request(
        self, webhook: Document, event_id: EventId, body: bytes, passed_on: Mapping[str, str]
    ) -> Request:
        username = webhook.get("httpAuthenticationUsername")
        password = Secret(webhook.get("httpAuthenticationPassword") or "")
        certificate = await self._certificate(webhook)
        own = certificate[0] if certificate is not None and is_trust_anchor(certificate[0]) else None
        return Request(
            method="POST",
            url=webhook["url"],
            headers={**await self._headers(webhook, event_id, body), **passed_on},
            body=body,
            connect_timeout_ms=webhook["connectTimeout"],
            read_timeout_ms=webhook["readTimeout"],
            basic=(username, password) if username else None,
            client_certificate=certificate,
            trust_pem=webhook.get("sslCertificate"),
            added_trust_pem=own,
            max_response_bytes=_MAXIMUM_ANSWER_BYTES,
        )

    async def _certificate(self, webhook: Document) -> tuple[str, Secret] | None:
        key_id = webhook.get("sslCertificateKeyId")
        return None if key_id is None else await self._keys.client_certificate(key_id)

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
        """The published signature by the webhook's key, and those of Standard Webhooks by keys and secrets."""
        configuration = webhook.get("signatureConfiguration") or {}
        key_ids = standard_webhooks.live_keys(configuration, now)
        content = standard_webhooks.signed_content(event_id, numeric_date(now), body)
        secrets = standard_webhooks.live_secrets(webhook.get("private", {}), now)
        found = [standard_webhooks.hmac_signature(secret, content) for secret in secrets]
        for key_id in key_ids:
            signature = await self._keys.sign_octets(key_id, content)
            found += [] if signature is None else [signature]
        headers = {"webhook-signature": " ".join(found)} if found else {}
        if key_ids:
            claims = _claims(configuration, event_id, body, numeric_date(now))
            headers[webhook_headers.SIGNATURE_HEADER] = await self._keys.sign_jwt(key_ids[0], claims)
        return headers

    async def _warn_of_unsendable(self, webhook: Document, configured: Mapping[str, str]) -> None:
        """Once for each state of a webhook."""
        names = webhook_headers.unsendable(configured)
        state = (webhook["id"], webhook.get("lastUpdateInstant", 0))
        if names and state not in self._warned:
            if len(self._warned) >= 10_000:
                self._warned.clear()
            self._warned.add(state)
            _log.warning("webhook headers left out: no HTTP tokens", webhook_id=webhook["id"], names=names)
            await self.failures.left_out(webhook, names)


def _reason(attempt: DeliveryAttempt) -> str:
    """Why an attempt failed, in a word: the kind of the exception, or the class of the status."""
    if attempt.exception is not None:
        return attempt.exception.partition(":")[0]
    return f"{(attempt.status or 0) // 100}xx"


def _end(
    span: Span, webhook: Document, event_id: EventId, delivery_context: DeliveryContext, attempt: DeliveryAttempt
) -> None:
    """Of the URL only the host is told: paths and queries of webhooks hold tokens."""
    parts = urllib.parse.urlsplit(webhook["url"])
    attributes: dict[str, str | int | bool] = {
        "http.request.method": "POST",
        "http.request.resend_count": delivery_context.number - 1,
        "identity.event.id": event_id,
        "identity.event.type": delivery_context.event_type,
        "identity.webhook.id": webhook["id"],
        "server.address": parts.hostname or "",
        "server.port": parts.port or (443 if parts.scheme == "https" else 80),
    }
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
    failure = None if attempt.succeeded else str(attempt.status) if attempt.exception is None else _reason(attempt)
    span.end(attributes, failure)


def _secrets(webhook: Document, body: bytes, event_type: str) -> Sequence[str]:
    """What a receiver was told and the log must not have, should its answer repeat it."""
    found = secret_redaction.credentials(
        webhook.get("headers") or {},
        webhook.get("httpAuthenticationUsername"),
        webhook.get("httpAuthenticationPassword"),
    )
    if event_type in EVENTS and EVENTS[event_type].holds_secrets:
        event = orjson.loads(body)["event"]
        found += [event[name] for name in SECRET_MEMBERS if isinstance(event.get(name), str)]
    return found


def _kept(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The header of an answer as the log keeps it: bounded, and without the receiver's cookies."""
    kept: dict[str, str] = {}
    room = _KEPT_HEADER_CHARACTERS
    for name, value in headers.items():
        room -= len(name) + min(len(value), _KEPT_VALUE_CHARACTERS)
        if name != "set-cookie" and room >= 0:
            kept[name] = value[:_KEPT_VALUE_CHARACTERS]
        if room < 0 or len(kept) == _KEPT_HEADERS:
            break
    return kept


def _claims(configuration: Document, event_id: EventId, body: bytes, now: int) -> Document:
    """What the published signature says: the digest of the body, and by choice when and for which event it is good."""
    claims: Document = {"request_body_sha256": base64.b64encode(hashlib.sha256(body).digest()).decode()}
    if configuration.get("timedClaims"):
        claims |= {"iat": now, "exp": now + _TOKEN_SECONDS, "jti": event_id}
    return claims
