"""Validation of webhooks beyond their schema: URL, tenants, keys, certificates, headers, and licensed features."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from identity.call import Call, Document
from identity.domain.webhooks import standard_webhooks, webhook_headers
from identity.domain.webhooks.webhook_health import ACTIVE, PAUSED
from identity.errors import FieldError, Invalid
from identity.events.catalogue import ALIASES
from identity.instants import Instant, later
from identity.operations.objects import features, key_references
from identity.outbound import tls
from identity.outbound.addresses import check_url
from identity.services import Services

Errors = list[FieldError]


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """The webhook to store. Raises Invalid with all errors.

    Any change activates a disabled webhook; a paused one stays paused.
    """
    webhook = _normalised(document, call.now)
    webhook["status"] = PAUSED if stored is not None and stored.get("status") == PAUSED else ACTIVE
    errors = [error for check in _CHECKS for error in await check(services, webhook)]
    unlicensed = features.event_problems(
        services, (name for name, enabled in webhook["eventsEnabled"].items() if enabled)
    )
    if errors or unlicensed:
        raise Invalid(errors, unlicensed)
    return webhook


def _normalised(document: Document, now: Instant) -> Document:
    """Replace aliases of event types, and set when the previous signing key stops signing."""
    signature = document["signatureConfiguration"]
    if "previousSigningKeyId" not in signature:
        signature = {name: value for name, value in signature.items() if name != "previousSigningKeyEndInstant"}
    elif "previousSigningKeyEndInstant" not in signature:
        end = later(now, seconds=standard_webhooks.DEFAULT_OVERLAP_SECONDS)
        signature = {**signature, "previousSigningKeyEndInstant": end}
    return {
        **document,
        "signatureConfiguration": signature,
        "eventsEnabled": {ALIASES.get(name, name): enabled for name, enabled in document["eventsEnabled"].items()},
    }


async def _url(services: Services, webhook: Document) -> Errors:
    if "url" not in webhook:
        return []
    reason = check_url(webhook["url"], services.config.webhooks.allowed_networks)
    return [] if reason is None else [_error("invalid", "url", f"The URL cannot be used: {reason}.")]


async def _tenants(services: Services, webhook: Document) -> Errors:
    for tenant_id in webhook["tenantIds"]:
        if await services.configuration.tenants.find_cached(None, tenant_id) is None:
            return [_error("invalid", "tenantIds", "The [webhook.tenantIds] must name existing tenants.")]
    return []


async def _signature(services: Services, webhook: Document) -> Errors:
    signature = webhook["signatureConfiguration"]
    errors = []
    if signature["enabled"] and "signingKeyId" not in signature:
        path = "signatureConfiguration.signingKeyId"
        errors.append(_error("missing", path, f"You must specify the [webhook.{path}] property."))
    for name in ("signingKeyId", "previousSigningKeyId"):
        if name in signature and not await key_references.can_sign(services, signature[name]):
            path = f"signatureConfiguration.{name}"
            errors.append(_error("invalid", path, f"The [webhook.{path}] must name a key that can sign."))
    return errors


async def _certificates(services: Services, webhook: Document) -> Errors:
    pem, key_id = webhook.get("sslCertificate"), webhook.get("sslCertificateKeyId")
    errors = []
    if pem is not None and key_id is not None:
        message = "The [webhook.sslCertificate] cannot be sent together with [webhook.sslCertificateKeyId]."
        errors.append(_error("notAllowed", "sslCertificate", message))
    if pem is not None and not tls.is_certificate(pem):
        errors.append(_error("invalid", "sslCertificate", "The [webhook.sslCertificate] must be a PEM certificate."))
    if key_id is not None and not await key_references.has_certificate(services, key_id):
        message = "The [webhook.sslCertificateKeyId] must name a key with a certificate and a private key."
        errors.append(_error("invalid", "sslCertificateKeyId", message))
    return errors


async def _headers(_services: Services, webhook: Document) -> Errors:
    reason = webhook_headers.problem(webhook["headers"])
    return [] if reason is None else [_error("invalid", "headers", f"The headers cannot be used: {reason}.")]


def _error(kind: str, member: str, message: str) -> FieldError:
    return FieldError.of(kind, f"webhook.{member}", message)


_CHECKS: tuple[Callable[[Services, Document], Awaitable[Errors]], ...] = (
    _url,
    _tenants,
    _signature,
    _certificates,
    _headers,
)
