"""The HTTP request of one attempt: headers, signatures, and client certificate of the webhook."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from identity.call import Document
from identity.domain.webhooks import standard_webhooks, webhook_headers
from identity.events.delivery_failure_log import DeliveryFailureLog
from identity.ids import EventId, Secret
from identity.instants import Clock, Instant, numeric_date
from identity.outbound.http import Request
from identity.outbound.tls import is_trust_anchor

_log = structlog.get_logger(__name__)

_MAX_RESPONSE_BYTES = 65_536
_SIGNATURE_LIFETIME_SECONDS = 300
_MAX_WARNED = 10_000


class DeliveryKeys(Protocol):
    """The keys of the instance; each method raises ServiceError, LookupError or ValueError for an unusable key."""

    async def sign_jwt(self, key_id: str, claims: Mapping[str, Any]) -> str:
        """A compact JWS of the claims."""

    async def sign_octets(self, key_id: str, content: bytes) -> str | None:
        """A Standard Webhooks signature, or None if the key's algorithm is not one of that specification."""

    async def client_certificate(self, key_id: str) -> tuple[str, Secret]:
        """The certificate and the private key, as PEM."""


class WebhookRequests:
    """Builds the signed requests of a process."""

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
