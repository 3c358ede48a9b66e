"""Webhooks: what the generic verbs cannot judge, which is everything that refers to something outside of the object."""

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

Problems = list[FieldError]


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """The webhook as it is stored. Raises Invalid with everything that is wrong with it.

    One that was disabled is active again after any change; one that is paused stays so.
    """
    webhook = _normalised(document, call.now)
    webhook["status"] = PAUSED if stored is not None and stored.get("status") == PAUSED else ACTIVE
    problems = [problem for check in _CHECKS for problem in await check(services, webhook)]
    unlicensed = features.event_problems(services, (name for name, is_on in webhook["eventsEnabled"].items() if is_on))
    if problems or unlicensed:
        raise Invalid(problems, unlicensed)
    return webhook


def _normalised(document: Document, now: Instant) -> Document:
    """Event types under their right names, and an end for the key that signs along."""
    signature = document["signatureConfiguration"]
    if "previousSigningKeyId" not in signature:
        signature = {name: value for name, value in signature.items() if name != "previousSigningKeyEndInstant"}
    elif "previousSigningKeyEndInstant" not in signature:
        end = later(now, seconds=standard_webhooks.DEFAULT_OVERLAP_SECONDS)
        signature = {**signature, "previousSigningKeyEndInstant": end}
    return {
        **document,
        "signatureConfiguration": signature,
        "eventsEnabled": {ALIASES.get(name, name): is_on for name, is_on in document["eventsEnabled"].items()},
    }


async def _url(services: Services, webhook: Document) -> Problems:
    if "url" not in webhook:
        return []
    reason = check_url(webhook["url"], services.config.webhooks.allowed_networks)
    return [] if reason is None else [_problem("invalid", "url", f"The URL cannot be used: {reason}.")]


async def _tenants(services: Services, webhook: Document) -> Problems:
    for tenant_id in webhook["tenantIds"]:
        if await services.tenants.find_cached(None, tenant_id) is None:
            return [_problem("invalid", "tenantIds", "The [webhook.tenantIds] must name existing tenants.")]
    return []


async def _signature(services: Services, webhook: Document) -> Problems:
    signature = webhook["signatureConfiguration"]
    problems = []
    if signature["enabled"] and "signingKeyId" not in signature:
        path = "signatureConfiguration.signingKeyId"
        problems.append(_problem("missing", path, f"You must specify the [webhook.{path}] property."))
    for name in ("signingKeyId", "previousSigningKeyId"):
        if name in signature and not await key_references.can_sign(services, signature[name]):
            path = f"signatureConfiguration.{name}"
            problems.append(_problem("invalid", path, f"The [webhook.{path}] must name a key that can sign."))
    return problems


async def _certificates(services: Services, webhook: Document) -> Problems:
    pem, key_id = webhook.get("sslCertificate"), webhook.get("sslCertificateKeyId")
    problems = []
    if pem is not None and key_id is not None:
        message = "The [webhook.sslCertificate] cannot be sent together with [webhook.sslCertificateKeyId]."
        problems.append(_problem("notAllowed", "sslCertificate", message))
    if pem is not None and not tls.is_certificate(pem):
        problems.append(
            _problem("invalid", "sslCertificate", "The [webhook.sslCertificate] must be a PEM certificate.")
        )
    if key_id is not None and not await _has_certificate(services, key_id):
        message = "The [webhook.sslCertificateKeyId] must name a key with a certificate and a private key."
        problems.append(_problem("invalid", "sslCertificateKeyId", message))
    return problems


async def _has_certificate(services: Services, key_id: str) -> bool:
    key = await services.keys.find_cached(None, key_id)
    return key is not None and "certificate" in key and "privateKey" in key


async def _headers(_services: Services, webhook: Document) -> Problems:
    reason = webhook_headers.problem(webhook["headers"])
    return [] if reason is None else [_problem("invalid", "headers", f"The headers cannot be used: {reason}.")]


def _problem(kind: str, member: str, message: str) -> FieldError:
    return FieldError.of(kind, f"webhook.{member}", message)


_CHECKS: tuple[Callable[[Services, Document], Awaitable[Problems]], ...] = (
    _url,
    _tenants,
    _signature,
    _certificates,
    _headers,
)
