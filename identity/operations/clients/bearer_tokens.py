"""Verify a bearer token (RFC 6750): signature, lifetime, revocation, client and user."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.clients import sender_constraints
from identity.domain.configuration.applications import EXCHANGE_GRANT
from identity.errors import AccessTokenRequired, InvalidToken
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.clients import active_users, clients, dpop_proofs
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.groups import administrators
from identity.services import Services
from identity.tokens import client_certificates
from identity.tokens.issuer import VerifiedToken
from identity.tokens.jws import Rejection

REASONS = {
    Rejection.MALFORMED: "access_token_malformed",
    Rejection.INVALID: "access_token_invalid",
    Rejection.EXPIRED: "access_token_expired",
    Rejection.NOT_YET_VALID: "access_token_unavailable_for_processing",
}
"""The `error_reason` of a rejected access token."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bearer:
    """A verified access token and its user."""

    token: VerifiedToken
    user: Document

    @property
    def authentication_type(self) -> str:
        """How the user logged in; PING if a lambda removed the claim."""
        return str(self.token.claims.get("authenticationType") or "PING")

    @property
    def auth_instant(self) -> Instant:
        """When the user logged in; when the token was issued, if a lambda removed the claim."""
        claims: dict[str, int] = self.token.claims
        return Instant(claims.get("auth_time", claims["iat"]) * 1000)

    def require_usable_for(self, client_id: str | None = None) -> None:
        """Raise InvalidToken for the token of a third party, unless it is used for that application itself.

        A third party has the consented scopes only; otherwise its token could log in to every other application.
        """
        application = self.token.application
        if application["oauthConfiguration"]["relationship"] == "ThirdParty" and application["id"] != client_id:
            raise InvalidToken(
                "access_token_invalid", "The access token of a third party is valid for that application only."
            )


async def require_own_account(services: Services, bearer: Bearer) -> None:
    """Raise InvalidToken for an administrator: the token does not authorize a change of the credentials.

    Tokens are signed with keys of the tenant, which others may import, and lambdas of the tenant write their claims.
    """
    if await administrators.is_administrator(services, bearer.user):
        message = "Administrators change their credentials on the account page of the console, /account."
        raise InvalidToken("access_token_invalid", message)


async def verify(
    services: Services,
    call: Call,
    token: str | None,
    dpop_proof: PresentedDpopProof | None = None,
    *,
    accepts_exchanged: bool = False,
) -> Bearer:
    """Verify an access token and return its user. Raises InvalidToken.

    Exchanged tokens (RFC 8693) need `accepts_exchanged`: elsewhere they could be traded for tokens or sessions with
    more authority and without the actor.

    A token that is bound to a key requires `dpop_proof`, which comes with the authorization scheme DPoP; a bearer token
    must not have one (RFC 9449 section 7). One that is bound to a certificate requires that of the connection. Raises
    InvalidDpopProofAtResource for an invalid proof.
    """
    if not token:
        raise AccessTokenRequired
    find_client = clients.client_finder(services)
    verified = await services.tokens.issuer.verify_access_token(token, find_client, call.now)
    if isinstance(verified, Rejection):
        if not isinstance(await services.tokens.issuer.verify_id_token_hint(token, find_client), Rejection):
            raise InvalidToken("id_token_invalid", "An ID token is not an access token.")
        raise InvalidToken(REASONS[verified], f"The access token is {verified.value}.")
    if not accepts_exchanged and _is_exchanged(verified):
        raise InvalidToken("access_token_invalid", "An exchanged access token is not accepted here.")
    tenant_id = TenantId(verified.tenant["id"])
    if call.tenant_id not in {None, tenant_id}:
        raise InvalidToken("access_token_invalid", "The access token belongs to another tenant.")
    user = await active_users.get_active_user(services, tenant_id, verified.claims["sub"], call.now, InvalidToken)
    if await services.tokens.revocations.is_revoked(tenant_id, verified.revocable_ids):
        raise InvalidToken("access_token_invalid", "The access token was revoked.")
    await dpop_proofs.require_binding(services, call, token, verified, dpop_proof)
    _require_certificate(call, verified)
    return Bearer(verified, user)


def _is_exchanged(verified: VerifiedToken) -> bool:
    return "act" in verified.claims or EXCHANGE_GRANT in verified.claims.get("gty", ())


def _require_certificate(call: Call, verified: VerifiedToken) -> None:
    """Raise InvalidToken unless the connection has the certificate that the token is bound to (RFC 8705 section 3)."""
    bound, presented = sender_constraints.certificate_thumbprint(verified.claims), call.origin.client_certificate
    if bound is not None and (presented is None or client_certificates.thumbprint(presented) != bound):
        raise InvalidToken("access_token_invalid", "The access token is bound to a client certificate.")
