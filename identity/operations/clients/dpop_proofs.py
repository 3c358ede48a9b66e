"""DPoP, demonstrating proof of possession (RFC 9449): verify the proof of a request and the binding of tokens.

A request without a DPoP header costs nothing; a proof costs a signature verification and one Redis command.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.clients import dpop_proofs as dpop_proof_rules
from identity.domain.clients import security_profiles, sender_constraints
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.configuration import feature_settings
from identity.errors import (
    InvalidDpopProof,
    InvalidDpopProofAtResource,
    InvalidToken,
    UseDpopNonce,
    UseDpopNonceAtResource,
)
from identity.ids import TenantId
from identity.instants import numeric_date
from identity.operations.objects import features
from identity.services import Services
from identity.tokens import dpop
from identity.tokens.issuer import VerifiedToken


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedDpopProof:
    """The unverified DPoP headers of a request, with its method and the URLs by which it can have come."""

    headers: tuple[str, ...] = dataclasses.field(repr=False)
    method: str
    urls: tuple[str, ...]


async def verify_proof(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    dpop_proof: PresentedDpopProof | None,
    oauth: OAuthSettings = OAuthSettings(),  # noqa: B008 (frozen)
) -> str | None:
    """Verify the proof of a request and return the thumbprint of its key; None for a request without a proof.

    The proof is consumed. `oauth` are the settings of the application, which may require a nonce. Raises
    InvalidDpopProof and UseDpopNonce.
    """
    if dpop_proof is None:
        return None
    return await _verify(services, call, tenant_id, dpop_proof, oauth)


async def require_binding(
    services: Services,
    call: Call,
    token: str,
    verified: VerifiedToken,
    dpop_proof: PresentedDpopProof | None,
) -> None:
    """Require that an access token is presented as it is bound (RFC 9449 sections 7.1 and 7.2).

    `dpop_proof` is None for a token of the scheme Bearer. Raises InvalidToken, and InvalidDpopProofAtResource for an
    invalid proof.
    """
    bound_key, tenant_id = sender_constraints.key_thumbprint(verified.claims), TenantId(verified.tenant["id"])
    if dpop_proof is None:
        if bound_key is not None:
            raise InvalidToken("access_token_invalid", "The access token is bound to a key and needs the scheme DPoP.")
        return
    if bound_key is None:
        raise InvalidToken("access_token_invalid", "The access token is bound to no key and needs the scheme Bearer.")
    try:
        oauth = OAuthSettings.of(verified.application)
        proven_key = await _verify(services, call, tenant_id, dpop_proof, oauth, token)
    except UseDpopNonce as error:
        raise UseDpopNonceAtResource(error.nonce) from error
    except InvalidDpopProof as error:
        raise InvalidDpopProofAtResource(error.reason, error.description) from error
    if proven_key != bound_key:
        raise InvalidToken("access_token_invalid", "The access token is bound to another key.")


def token_type(confirmation: Document | None) -> str:
    """Return the token_type of an access token (RFC 9449 section 5)."""
    return dpop_proof_rules.SCHEME if confirmation and sender_constraints.KEY in confirmation else "Bearer"


def proof_required() -> InvalidDpopProof:
    """Return the error for a request without a required proof."""
    return InvalidDpopProof(None, "A DPoP proof is required (the DPoP header).")


async def _verify(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    presented: PresentedDpopProof,
    oauth: OAuthSettings,
    access_token: str | None = None,
) -> str:
    dpop_proof = await check(services, call, tenant_id, presented, oauth, access_token)
    one_time_id = ("dpop", dpop_proof.thumbprint, dpop_proof.claims["jti"])
    if not await services.tokens.one_time_ids.mark_used(tenant_id, *one_time_id, dpop_proof_rules.REMEMBERED_SECONDS):
        raise InvalidDpopProof(None, "The DPoP proof was used before.")
    return dpop_proof.thumbprint


async def check(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    presented: PresentedDpopProof,
    oauth: OAuthSettings,
    access_token: str | None = None,
) -> dpop.DpopProof:
    """Verify a proof without consuming it. Raises InvalidDpopProof and UseDpopNonce."""
    features.require(services, feature_settings.DPOP)
    if len(presented.headers) != 1:
        raise InvalidDpopProof(None, "There must be one DPoP header.") if presented.headers else proof_required()
    dpop_proof = await dpop.verify(presented.headers[0])
    if dpop_proof is None:
        raise InvalidDpopProof(None, "The DPoP proof is not a JWT of type dpop+jwt, signed by the public key in it.")
    if not security_profiles.is_algorithm_allowed(oauth, dpop_proof.algorithm):
        raise InvalidDpopProof(None, f"This client may not sign a DPoP proof with {dpop_proof.algorithm}.")
    problem = dpop_proof_rules.problem(
        dpop_proof.claims,
        method=presented.method,
        urls=presented.urls,
        now=numeric_date(call.now),
        access_token=access_token,
    )
    if problem is not None:
        raise InvalidDpopProof(None, f"The DPoP proof does not match the request: {problem}.")
    if oauth.dpop_nonce_required:
        _require_nonce(services, call, tenant_id, dpop_proof.claims.get("nonce"))
    return dpop_proof


def _require_nonce(services: Services, call: Call, tenant_id: TenantId, nonce: object) -> None:
    """Raise UseDpopNonce without a fresh nonce, which prevents proofs generated in advance."""
    nonces = services.tokens.dpop_nonces
    if not isinstance(nonce, str) or not nonces.is_fresh(tenant_id, nonce, call.now):
        raise UseDpopNonce(nonces.current(tenant_id, call.now))
