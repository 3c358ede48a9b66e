"""Messengers: validation beyond the schema.

A generic messenger receives JSON, one of the type Twilio a form; the published type Kafka is rejected by name.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.messaging import messenger_types
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.domain.webhooks import webhook_headers
from identity.errors import FieldError
from identity.ids import parse_id
from identity.operations.objects import crud, key_references
from identity.outbound import tls
from identity.outbound.addresses import check_url
from identity.services import Services


async def prepare(services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Validate URL, certificates and headers. Raises Invalid."""
    messenger = messenger_types.complete(_normalised(document))
    errors = messenger_types.problems(messenger)
    errors += _url_errors(services, messenger) + await _certificate_errors(services, messenger)
    reason = webhook_headers.problem(messenger.get("headers", {}))
    if reason is not None:
        errors.append(_error("headers", f"The headers cannot be used: {reason}."))
    crud.require_no_errors(errors)
    return messenger


RESOURCE = Resource(
    "messenger",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "messenger.name"),),
    sealed=("authToken", "headers.*", "httpAuthenticationPassword"),
    credentials=(
        Credential("authToken", ("accountSID", "url")),
        Credential("headers.*", ("url",)),
        Credential("httpAuthenticationPassword", ("httpAuthenticationUsername", "url")),
    ),
    prepare=prepare,
)


def _normalised(document: Document) -> Document:
    """Accept a key id in `sslCertificate`, as the published example has it."""
    key_id = parse_id(document.get("sslCertificate", ""))
    if key_id is None:
        return document
    rest = {name: value for name, value in document.items() if name != "sslCertificate"}
    return {"sslCertificateId": key_id, **rest}


def _url_errors(services: Services, messenger: Document) -> list[FieldError]:
    reason = check_url(messenger["url"], services.config.webhooks.allowed_networks) if "url" in messenger else None
    return [] if reason is None else [_error("url", f"The URL cannot be used: {reason}.")]


async def _certificate_errors(services: Services, messenger: Document) -> list[FieldError]:
    pem, key_id = messenger.get("sslCertificate"), messenger.get("sslCertificateId")
    errors = []
    if pem is not None and not tls.is_certificate(pem):
        errors.append(_error("sslCertificate", "The [messenger.sslCertificate] must be a PEM certificate."))
    if key_id is not None and not await key_references.has_certificate(services, key_id):
        message = "The [messenger.sslCertificateId] must name a key with a certificate and a private key."
        errors.append(_error("sslCertificateId", message))
    return errors


def _error(member: str, message: str) -> FieldError:
    return FieldError.of("invalid", f"messenger.{member}", message)
