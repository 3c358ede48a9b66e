"""Who the client of a token request is, and whether it proved to be (RFC 6749 sections 2.3 and 3.2.1)."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain import client_authentication as rules
from identity.errors import InvalidClient
from identity.operations import clients
from identity.operations.clients import Client, TenantHints
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class Identified:
    """A client that a request speaks for, and the credentials it presents; `require` judges them."""

    client: Client
    presented: rules.Presented

    @property
    def has_credentials(self) -> bool:
        """Whether a secret was presented; `require` has verified it."""
        return self.presented.method != "none"

    def require(self, grant_type: str, *, has_proof: bool) -> None:
        """Verify the secret when there is one, demand one when the policy does. Raises InvalidClient.

        `has_proof`: the grant is bound by PKCE and the verifier is there, which some policies take instead.
        """
        application = self.client.application
        is_required = rules.is_secret_required(application, grant_type, has_proof=has_proof)
        rules.authenticate(self.presented, application, is_required=is_required)


async def identify(services: Services, authorization: str, form: Document, hints: TenantHints) -> Identified:
    """The client of a request, not yet authenticated. Raises InvalidRequest and InvalidClient."""
    presented = rules.presented(authorization or None, form.get("client_id"), form.get("client_secret"))
    try:
        client = await clients.find(services, hints, presented.client_id)
    except clients.UnknownClientError as error:
        raise InvalidClient(error.reason, error.description) from error
    return Identified(client, presented)
