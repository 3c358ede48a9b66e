"""The grants: one module for each grant_type, each with `grant_type`, `parameters` and `exchange`.

Those in GRANTS are of applications; the client credentials grant is of entities, which are clients of another kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.errors import InvalidRequest, UnauthorizedClient, UnsupportedGrantType
from identity.operations.clients import dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.grants import authorization_code, client_credentials, device_code, password, refresh_token
from identity.services import Services


class Grant(Protocol):
    """The face of a grant's module."""

    @property
    def grant_type(self) -> str:
        """The value of the parameter."""

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters that belong to this grant."""

    async def exchange(self, services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
        """The token response."""


_ALL: tuple[Grant, ...] = (authorization_code, device_code, password, refresh_token)
GRANTS = {grant.grant_type: grant for grant in _ALL}


async def exchange(
    services: Services,
    call: Call,
    identified: IdentifiedClient,
    form: Document,
    proof: dpop_proofs.PresentedDpopProof | None = None,
) -> Document:
    """The token response of a request (RFC 6749 section 5), for the key that it proves to have. Raises OAuth2Error."""
    grant_type = form.get("grant_type")
    if grant_type is None:
        raise InvalidRequest("missing_grant_type", "The request is missing a required parameter: grant_type.")
    if grant_type not in {*GRANTS, client_credentials.grant_type}:
        raise UnsupportedGrantType("invalid_grant_type", f"The grant_type is not supported: {grant_type[:100]}")
    identified.require(grant_type, pkce_verified=True)
    if not security_profiles.may_use_grant(identified.client.application, grant_type):
        raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled for this client.")
    identified = await _proven(services, call, identified, proof)
    return await GRANTS[grant_type].exchange(services, call, identified, form)


async def _proven(
    services: Services, call: Call, identified: IdentifiedClient, proof: dpop_proofs.PresentedDpopProof | None
) -> IdentifiedClient:
    """The client with the key of its proof (RFC 9449 section 5). A bad proof costs no code and no token."""
    client = identified.client
    if proof is None:
        if client.oauth.get("dpopBoundAccessTokens"):
            raise dpop_proofs.proof_required()
        return identified
    return dataclasses.replace(
        identified, key_thumbprint=await dpop_proofs.verify_proof(services, call, client.tenant_id, proof, client.oauth)
    )
