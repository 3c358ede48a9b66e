"""Proof of possession at our endpoints (RFC 9449): which key a request proves to have.

A request without the header costs nothing; one with it costs a verification, and one question to Redis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.clients import dpop_proofs as rules
from identity.domain.clients import security_profiles
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
from identity.tokens import dpop as proofs
from identity.tokens.issuer import VerifiedToken


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedDpopProof:
    """The DPoP headers of a request, and the request that they have to be about."""

    proofs: tuple[str, ...] = dataclasses.field(repr=False)
    method: str
    url: str


async def verify_proof(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    presented: PresentedDpopProof | None,
    oauth: Document | None = None,
) -> str | None:
    """The thumbprint of the key that a request proves to have; None for one without a proof.

    The proof is used up by this. `oauth` is the oauthConfiguration of an application, which may want a nonce in it.
    Raises InvalidDpopProof and UseDpopNonce.
    """
    if presented is None:
        return None
    return await _verified(services, call, tenant_id, presented, oauth or {})


async def require_binding(
    services: Services,
    call: Call,
    token: str,
    verified: VerifiedToken,
    presented: PresentedDpopProof | None,
) -> None:
    """Raise unless an access token comes in the way that it is bound to (RFC 9449 sections 7.1 and 7.2).

    `presented` is None for one that comes as a bearer token. Raises InvalidToken, and UnprovenToken for a bad proof.
    """
    bound, tenant_id = bound_key_thumbprint(verified.claims), TenantId(verified.tenant["id"])
    if presented is None:
        if bound is not None:
            raise InvalidToken("access_token_invalid", "The access token is bound to a key and needs the scheme DPoP.")
        return
    if bound is None:
        raise InvalidToken("access_token_invalid", "The access token is bound to no key and needs the scheme Bearer.")
    try:
        oauth = verified.application["oauthConfiguration"]
        proven = await _verified(services, call, tenant_id, presented, oauth, token)
    except UseDpopNonce as error:
        raise UseDpopNonceAtResource(error.nonce) from error
    except InvalidDpopProof as error:
        raise InvalidDpopProofAtResource(error.reason, error.description) from error
    if proven != bound:
        raise InvalidToken("access_token_invalid", "The access token is bound to another key.")


def confirmation_claim(key_thumbprint: str | None) -> Document | None:
    """The `cnf` claim of tokens that are bound to a key (RFC 9449 section 6.1)."""
    return None if key_thumbprint is None else {"jkt": key_thumbprint}


def bound_key_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """The thumbprint of the key that a token of ours is bound to, by its claims."""
    confirmed = claims.get("cnf")
    bound = confirmed.get("jkt") if isinstance(confirmed, dict) else None
    return bound if isinstance(bound, str) else None


def token_type(confirmation_: Document | None) -> str:
    """The token_type of an access token (RFC 9449 section 5)."""
    return "Bearer" if confirmation_ is None else rules.SCHEME


def proof_required() -> InvalidDpopProof:
    """The refusal of a request that has to come with a proof and does not."""
    return InvalidDpopProof(None, "A DPoP proof is required (the DPoP header).")


async def _verified(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    presented: PresentedDpopProof,
    oauth: Document,
    access_token: str | None = None,
) -> str:
    features.require(services, feature_settings.DPOP)
    if len(presented.proofs) != 1:
        raise InvalidDpopProof(None, "There must be one DPoP header.") if presented.proofs else proof_required()
    proof = await proofs.verify(presented.proofs[0])
    if proof is None:
        raise InvalidDpopProof(None, "The DPoP proof is not a JWT of type dpop+jwt, signed by the public key in it.")
    if not security_profiles.is_algorithm_allowed(oauth, proof.algorithm):
        raise InvalidDpopProof(None, f"This client may not sign a DPoP proof with {proof.algorithm}.")
    now = numeric_date(call.now)
    problem = rules.problem(
        proof.claims, method=presented.method, url=presented.url, now=now, access_token=access_token
    )
    if problem is not None:
        raise InvalidDpopProof(None, f"The DPoP proof does not fit the request: {problem}.")
    if oauth.get("dpopNonceRequired"):
        _require_nonce(services, call, tenant_id, proof.claims.get("nonce"))
    named = ("dpop", proof.thumbprint, proof.claims["jti"])
    if not await services.one_time_ids.mark_used(tenant_id, *named, rules.REMEMBERED_SECONDS):
        raise InvalidDpopProof(None, "The DPoP proof was used before.")
    return proof.thumbprint


def _require_nonce(services: Services, call: Call, tenant_id: TenantId, nonce: object) -> None:
    """A nonce shows that a proof was not made long before, by somebody who had the key for a moment."""
    nonces = services.dpop_nonces
    if not isinstance(nonce, str) or not nonces.is_fresh(tenant_id, nonce, call.now):
        raise UseDpopNonce(nonces.current(tenant_id, call.now))
