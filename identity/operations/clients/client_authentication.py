"""Who the client of a token request is, and whether it proved to be (RFC 6749 sections 2.3 and 3.2.1)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.authorization import client_authentication as rules
from identity.errors import InvalidClient
from identity.operations.clients import client_assertions, clients
from identity.operations.clients.client_assertions import Assertion, Signer
from identity.operations.clients.clients import Client, TenantHints
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class IdentifiedClient:
    """A client that a request speaks for, and the credentials it presents; `require` judges them.

    An assertion was verified, and used up, when the client was identified; `failure` is what was wrong with it.
    `key_thumbprint` names the key that the request proved to have (RFC 9449), once that was verified.
    `is_internal`: the service itself acts for the client, as its hosted backend does; there is nothing to verify.
    """

    client: Client
    presented: rules.PresentedCredentials
    failure: InvalidClient | None = None
    key_thumbprint: str | None = None
    is_internal: bool = False

    @property
    def has_credentials(self) -> bool:
        """Whether a secret or an assertion was presented; `require` has verified it."""
        return self.presented.method != "none"

    @classmethod
    def internal(cls, client: Client) -> IdentifiedClient:
        """A client that the service itself acts for."""
        return cls(client, rules.PresentedCredentials(client.client_id, "none"), is_internal=True)

    def require(self, grant_type: str, *, pkce_verified: bool) -> None:
        """Verify the credentials when there are some, demand them when the policy does. Raises InvalidClient.

        `has_proof`: the grant is bound by PKCE and the verifier is there, which some policies take instead.
        """
        if self.is_internal:
            return
        if self.failure is not None:
            raise self.failure
        application = self.client.application
        is_required = rules.is_secret_required(application, grant_type, pkce_verified=pkce_verified)
        rules.authenticate(self.presented, application, is_required=is_required)


async def identify(
    services: Services, authorization: str, form: Document, hints: TenantHints, base_url: str
) -> IdentifiedClient:
    """The client of a request, not yet authenticated. `base_url` is where the request says that this service is.

    Raises InvalidRequest and InvalidClient.
    """
    credentials = read_credentials(authorization, form)
    client = await _found(services, hints, credentials.client_id)
    if isinstance(credentials, rules.PresentedCredentials):
        return IdentifiedClient(client, credentials)
    failure = None
    try:
        await client_assertions.verify(services, Signer.of(client), credentials, base_url)
    except InvalidClient as error:
        failure = error
    return IdentifiedClient(client, rules.PresentedCredentials(credentials.client_id, credentials.method), failure)


def read_credentials(authorization: str, form: Document) -> rules.PresentedCredentials | Assertion:
    """What a request presents to say whose it is; nothing of it is judged. Raises InvalidRequest and InvalidClient."""
    if client_assertions.is_presented(form):
        return client_assertions.read(authorization, form)
    return rules.read_credentials(authorization or None, form.get("client_id"), form.get("client_secret"))


async def _found(services: Services, hints: TenantHints, client_id: str) -> Client:
    try:
        return await clients.get_client(services, hints, client_id)
    except clients.UnknownClientError as error:
        raise InvalidClient(error.reason, error.description) from error
