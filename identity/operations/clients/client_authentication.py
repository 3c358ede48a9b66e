"""Identify and authenticate the client of a request (RFC 6749 sections 2.3 and 3.2.1)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.authorization import client_authentication as authentication_rules
from identity.domain.clients import sender_constraints
from identity.errors import InvalidClient, InvalidRequest
from identity.ids import TenantId
from identity.operations.clients import client_assertions, clients, tls_client_authentication
from identity.operations.clients.client_assertions import Assertion, Signer
from identity.operations.clients.clients import Client, TenantHints
from identity.services import Services
from identity.tokens import client_certificates


@dataclasses.dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """A client whose credentials are verified, or that its policy accepts without credentials.

    Only this module creates one. `must_use_pkce`: the policy accepts PKCE with a verifier in place of credentials.
    `key_thumbprint` is the key of the verified DPoP proof (RFC 9449), `certificate_thumbprint` the certificate of the
    connection (RFC 8705). `is_internal`: the service itself acts for the client, as its hosted backend does.
    """

    client: Client
    method: authentication_rules.Method
    must_use_pkce: bool = False
    key_thumbprint: str | None = None
    certificate_thumbprint: str | None = None
    is_internal: bool = False

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return self.client.tenant_id

    @property
    def has_credentials(self) -> bool:
        """Whether the client presented credentials."""
        return self.method != "none"

    @property
    def confirmation(self) -> Document | None:
        """The `cnf` of access tokens for this request; None for bearer tokens."""
        is_bound = self.client.oauth.tls_client_certificate_bound_access_tokens
        certificate = self.certificate_thumbprint if is_bound else None
        return sender_constraints.confirmation_claim(self.key_thumbprint, certificate)

    def require_pkce(self, *, is_verified: bool) -> None:
        """Raise InvalidClient for a client without credentials if its policy requires PKCE and it was not verified."""
        if self.must_use_pkce and not is_verified:
            raise InvalidClient("client_authentication_missing", "The client must authenticate.")

    def require_certificate(self) -> None:
        """Raise InvalidRequest without the certificate that the client's tokens have to be bound to."""
        if self.client.oauth.tls_client_certificate_bound_access_tokens and self.certificate_thumbprint is None:
            raise InvalidRequest("unknown", "The client must connect with its certificate (mutual TLS).")

    def require_credentials(self) -> None:
        """Raise InvalidClient for a request without credentials, which some policies accept."""
        if not (self.is_internal or self.has_credentials):
            raise InvalidClient("client_authentication_missing", "The client must authenticate.")


@dataclasses.dataclass(frozen=True, slots=True)
class IdentifiedClient:
    """The client that a request names, and its credentials, which `authenticate` verifies.

    An assertion or a certificate is verified when the client is identified; `failure` is its error.
    """

    client: Client
    presented: authentication_rules.PresentedCredentials
    failure: InvalidClient | None = None
    certificate_thumbprint: str | None = None

    @property
    def has_credentials(self) -> bool:
        """Whether a secret, an assertion or a certificate was presented."""
        return self.presented.method != "none"

    def authenticate(self, use: str) -> AuthenticatedClient:
        """Verify the credentials, or require what may replace them for a use. Raises InvalidClient.

        `use` is a grant type, or the name of an endpoint that requires credentials.
        """
        if self.failure is not None:
            raise self.failure
        must_use_pkce = authentication_rules.authenticate(self.presented, self.client.application, use)
        return AuthenticatedClient(
            self.client, self.presented.method, must_use_pkce, certificate_thumbprint=self.certificate_thumbprint
        )

    def authenticate_if_presented(self, use: str) -> AuthenticatedClient:
        """Verify the credentials if there are any, whatever the policy. Raises InvalidClient."""
        if self.has_credentials:
            return self.authenticate(use)
        return AuthenticatedClient(self.client, "none", certificate_thumbprint=self.certificate_thumbprint)


def internal(client: Client) -> AuthenticatedClient:
    """Return a client that the service itself acts for."""
    return AuthenticatedClient(client, "none", is_internal=True)


def without_credentials(client: Client) -> AuthenticatedClient:
    """Return a client that an endpoint of the API accepts without credentials, as a setting of it permits."""
    return AuthenticatedClient(client, "none")


async def identify(
    services: Services,
    authorization: str,
    form: Document,
    hints: TenantHints,
    base_url: str,
    certificate: bytes | None = None,
) -> IdentifiedClient:
    """Return the client of a request, not authenticated yet.

    `base_url` is the URL of this service in the request, `certificate` that of the client's TLS connection. Raises
    InvalidRequest and InvalidClient.
    """
    credentials = read_credentials(authorization, form)
    client = await _get_client(services, hints, credentials.client_id)
    if isinstance(credentials, authentication_rules.PresentedCredentials):
        credentials = await _with_current_secret(services, client, credentials)
        return await _with_certificate(services, IdentifiedClient(client, credentials), certificate)
    failure = None
    try:
        await client_assertions.verify(services, Signer.of(client), credentials, base_url)
    except InvalidClient as error:
        failure = error
    presented = authentication_rules.PresentedCredentials(credentials.client_id, credentials.method)
    return await _with_certificate(services, IdentifiedClient(client, presented, failure), certificate)


async def _with_current_secret(
    services: Services, client: Client, credentials: authentication_rules.PresentedCredentials
) -> authentication_rules.PresentedCredentials:
    """Return the credentials with the current secret if they contain the previous one during its overlap."""
    current = client.application["oauthConfiguration"]["clientSecret"]
    presented = [secret for secret in credentials.secrets if secret]
    if not presented or authentication_rules.is_one_of(current, credentials.secrets):
        return credentials
    for secret in presented:
        if await services.limits.previous_secrets.is_accepted(client.tenant_id, client.client_id, secret):
            return dataclasses.replace(credentials, secrets=(current,))
    return credentials


async def _with_certificate(
    services: Services, identified: IdentifiedClient, certificate: bytes | None
) -> IdentifiedClient:
    """Return the client with the certificate of its connection, which authenticates it if nothing else does."""
    if certificate is None:
        return identified
    identified = dataclasses.replace(identified, certificate_thumbprint=client_certificates.thumbprint(certificate))
    if identified.has_credentials:
        return identified
    try:
        method = await tls_client_authentication.find_method(services, identified.client, certificate)
    except InvalidClient as error:
        return dataclasses.replace(identified, failure=error)
    if method is None:
        return identified
    return dataclasses.replace(identified, presented=dataclasses.replace(identified.presented, method=method))


def read_credentials(authorization: str, form: Document) -> authentication_rules.PresentedCredentials | Assertion:
    """Read the credentials of a request without verifying them. Raises InvalidRequest and InvalidClient."""
    if client_assertions.is_presented(form):
        return client_assertions.parse(authorization, form)
    return authentication_rules.read_credentials(
        authorization or None, form.get("client_id"), form.get("client_secret")
    )


async def _get_client(services: Services, hints: TenantHints, client_id: str) -> Client:
    try:
        return await clients.get_client(services, hints, client_id)
    except clients.UnknownClientError as error:
        raise InvalidClient(error.reason, error.description) from error
