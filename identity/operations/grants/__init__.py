"""The grants of the token endpoint: one module per grant_type, each with `grant_type`, `parameters` and `exchange`.

The client of client_credentials is an entity; that of every other grant is an application.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from identity.call import Call, Document
from identity.domain.clients import security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidRequest, UnauthorizedClient, UnsupportedGrantType
from identity.instants import as_datetime
from identity.operations.clients import client_authentication, dpop_proofs
from identity.operations.clients.client_authentication import AuthenticatedClient, IdentifiedClient
from identity.operations.clients.clients import TenantHints
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.entities.entity_clients import EntityClient
from identity.operations.grants import (
    authorization_code,
    client_credentials,
    device_code,
    password,
    refresh_token,
    token_exchange,
)
from identity.services import Services

GrantClient_contra = TypeVar("GrantClient_contra", AuthenticatedClient, EntityClient, contravariant=True)


class Grant(Protocol[GrantClient_contra]):
    """The interface of a grant's module."""

    @property
    def grant_type(self) -> str:
        """The value of the grant_type parameter."""

    @property
    def parameters(self) -> Sequence[str]:
        """The parameters of this grant."""

    async def exchange(self, services: Services, call: Call, client: GrantClient_contra, form: Document, /) -> Document:
        """Return the token response. Raises OAuth2Error."""


_ALL: Final[tuple[Grant[Any], ...]] = (
    authorization_code,
    client_credentials,
    device_code,
    password,
    refresh_token,
    token_exchange,
)
GRANTS: Final[Mapping[str, Grant[Any]]] = {grant.grant_type: grant for grant in _ALL}


def is_supported(services: Services, grant_type: str) -> bool:
    """Return whether this instance has a grant; the configuration has to enable token exchange."""
    return grant_type in GRANTS and (grant_type != token_exchange.grant_type or services.config.token_exchange.enabled)


async def identify(
    services: Services,
    authorization: str,
    form: Document,
    hints: TenantHints,
    base_url: str,
    certificate: bytes | None = None,
) -> IdentifiedClient | EntityClient:
    """Return the client of a token request: an application, not authenticated yet, or an authenticated entity.

    Raises InvalidRequest, InvalidClient, and NotLicensed if the entity feature is disabled.
    """
    if form.get("grant_type") == client_credentials.grant_type:
        entity = await client_credentials.identify(services, authorization, form, hints, base_url)
        if entity is not None:
            return entity
    return await client_authentication.identify(services, authorization, form, hints, base_url, certificate)


async def exchange(
    services: Services,
    call: Call,
    client: IdentifiedClient | AuthenticatedClient | EntityClient,
    form: Document,
    dpop_proof: PresentedDpopProof | None = None,
) -> Document:
    """Authenticate the client and return its token response (RFC 6749 section 5), bound to the key of the DPoP proof.

    The proof is verified before the grant, so that an invalid proof consumes no code. Raises OAuth2Error.
    """
    grant_type = form.get("grant_type")
    if grant_type is None:
        raise InvalidRequest("missing_grant_type", "The request is missing a required parameter: grant_type.")
    if not is_supported(services, grant_type):
        raise UnsupportedGrantType("invalid_grant_type", f"The grant_type is not supported: {grant_type[:100]}")
    oauth = OAuthSettings()
    if isinstance(client, IdentifiedClient):
        client = client.authenticate(grant_type)
    if isinstance(client, AuthenticatedClient):
        if not security_profiles.may_use_grant(client.client.application, grant_type):
            raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled for this client.")
        oauth = client.client.oauth
        if dpop_proof is None and oauth.dpop_bound_access_tokens:
            raise dpop_proofs.proof_required()
        client.require_certificate()
    key_thumbprint = await dpop_proofs.verify_proof(services, call, client.tenant_id, dpop_proof, oauth)
    client = dataclasses.replace(client, key_thumbprint=key_thumbprint)
    response = await GRANTS[grant_type].exchange(services, call, client, form)
    day = as_datetime(call.now).date().isoformat()
    counts = services.logs.activity_counts
    if counts.note(client.tenant_id, day, f"token.{grant_type}"):
        await services.runtime.background_work.begin("count of tokens", counts.write_soon())
    return response


def metric_label(form: Document) -> str | None:
    """Return the grant type of a request if it is supported, for metrics."""
    grant_type = form.get("grant_type")
    return grant_type if grant_type in GRANTS else None
