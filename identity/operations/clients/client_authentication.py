"""Identify and authenticate the client of a request (RFC 6749 sections 2.3 and 3.2.1)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.authorization import client_authentication as authentication_rules
from identity.errors import InvalidClient
from identity.ids import TenantId
from identity.operations.clients import client_assertions, clients
from identity.operations.clients.client_assertions import Assertion, Signer
from identity.operations.clients.clients import Client, TenantHints
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class IdentifiedClient:
    """The client that a request names, and its credentials, which `require` verifies.

    An assertion is verified and consumed when the client is identified; `failure` is its error. `key_thumbprint` is the
    key of the verified DPoP proof (RFC 9449). `is_internal`: the service itself acts for the client, as its hosted
    backend does, without credentials.
    """

    client: Client
    presented: authentication_rules.PresentedCredentials
    failure: InvalidClient | None = None
    key_thumbprint: str | None = None
    is_internal: bool = False

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return self.client.tenant_id

    @property
    def has_credentials(self) -> bool:
        """Whether a secret or an assertion was presented, which `require` verifies."""
        return self.presented.method != "none"

    @classmethod
    def internal(cls, client: Client) -> IdentifiedClient:
        """Return a client that the service itself acts for."""
        return cls(client, authentication_rules.PresentedCredentials(client.client_id, "none"), is_internal=True)

    def require(self, grant_type: str, *, pkce_verified: bool) -> None:
        """Verify the credentials, if any, and require them if the policy does. Raises InvalidClient.

        `pkce_verified`: the grant is bound by PKCE with a verifier, which some policies accept instead.
        """
        if self.is_internal:
            return
        if self.failure is not None:
            raise self.failure
        application = self.client.application
        is_required = authentication_rules.is_secret_required(application, grant_type, pkce_verified=pkce_verified)
        authentication_rules.authenticate(self.presented, application, is_required=is_required)

    def require_authenticated(self) -> None:
        """Raise InvalidClient for a request without credentials, which some policies accept."""
        if not (self.is_internal or self.has_credentials):
            raise InvalidClient("client_authentication_missing", "The client must authenticate.")


async def identify(
    services: Services, authorization: str, form: Document, hints: TenantHints, base_url: str
) -> IdentifiedClient:
    """Return the client of a request, not authenticated yet. `base_url` is the URL of this service in the request.

    Raises InvalidRequest and InvalidClient.
    """
    credentials = read_credentials(authorization, form)
    client = await _get_client(services, hints, credentials.client_id)
    if isinstance(credentials, authentication_rules.PresentedCredentials):
        return IdentifiedClient(client, credentials)
    failure = None
    try:
        await client_assertions.verify(services, Signer.of(client), credentials, base_url)
    except InvalidClient as error:
        failure = error
    return IdentifiedClient(
        client, authentication_rules.PresentedCredentials(credentials.client_id, credentials.method), failure
    )


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
