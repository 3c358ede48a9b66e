"""Client authentication by certificate: tls_client_auth and self_signed_tls_client_auth (RFC 8705 section 2).

The TLS handshake verified that the client has the private key; the certificate is compared with the registration.
"""

from __future__ import annotations

from cryptography import x509

from identity.domain.authorization.client_authentication import (
    PKI_CERTIFICATE,
    SELF_SIGNED_CERTIFICATE,
    Method,
    methods,
)
from identity.domain.clients.oauth_settings import TlsClientName
from identity.errors import InvalidClient
from identity.operations.clients.clients import Client
from identity.outbound.client_key_fetch import ClientKeysError
from identity.services import Services
from identity.tokens import client_certificates


async def find_method(services: Services, client: Client, certificate_der: bytes) -> Method | None:
    """Return the method by which the certificate authenticates the client; None if the client uses no such method.

    Raises InvalidClient if it uses one, and the certificate is not its own.
    """
    allowed = methods(client.application)
    if PKI_CERTIFICATE not in allowed and SELF_SIGNED_CERTIFICATE not in allowed:
        return None
    certificate = client_certificates.parse(certificate_der)
    if certificate is not None:
        if PKI_CERTIFICATE in allowed and _has_registered_name(services, client, certificate):
            return PKI_CERTIFICATE
        if SELF_SIGNED_CERTIFICATE in allowed and await _has_registered_key(services, client, certificate):
            return SELF_SIGNED_CERTIFICATE
    raise InvalidClient("invalid_client_authentication", "The client certificate is not that of the client.")


def _has_registered_name(services: Services, client: Client, certificate: x509.Certificate) -> bool:
    name, authorities = TlsClientName.of(client.application), services.tokens.client_keys.authorities
    if name is None or not client_certificates.is_issued_by(certificate, authorities, services.clock.now()):
        return False
    return client_certificates.has_name(certificate, name.kind, name.value)


async def _has_registered_key(services: Services, client: Client, certificate: x509.Certificate) -> bool:
    try:
        jwk_set = await services.tokens.client_keys.find_set(client.tenant_id, client.application, services.clock.now())
    except ClientKeysError as error:
        # Without the cause, which would let a caller probe the internal network.
        message = "The keys of the client cannot be fetched from its jwksURI."
        raise InvalidClient("invalid_client_authentication", message) from error
    return jwk_set is not None and client_certificates.has_key_of(certificate, jwk_set)
