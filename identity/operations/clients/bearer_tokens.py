"""From a bearer token to its user (RFC 6750): ours, alive, not revoked, of a client and a user that still exist."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.errors import InvalidToken
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.clients import active_users, clients, dpop_proofs
from identity.services import Services
from identity.tokens.issuer import VerifiedToken
from identity.tokens.jws import Rejection

_REASONS = {
    Rejection.MALFORMED: "access_token_malformed",
    Rejection.INVALID: "access_token_invalid",
    Rejection.EXPIRED: "access_token_expired",
    Rejection.NOT_YET_VALID: "access_token_unavailable_for_processing",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Bearer:
    """An access token that holds, and its user."""

    token: VerifiedToken
    user: Document

    @property
    def authentication_type(self) -> str:
        """How the user logged in, as far as a lambda left that in the token."""
        return str(self.token.claims.get("authenticationType") or "PING")

    @property
    def auth_instant(self) -> Instant:
        """When the user logged in; when the token was issued, where a lambda took that out."""
        claims: dict[str, int] = self.token.claims
        return Instant(claims.get("auth_time", claims["iat"]) * 1000)

    def require_reach(self, client_id: str | None = None) -> None:
        """Raise InvalidToken where the token of a third party is shown for another application, or for all of them.

        A third party has what its user agreed to, and could otherwise make a login to everything else out of it.
        """
        application = self.token.application
        if application["oauthConfiguration"]["relationship"] == "ThirdParty" and application["id"] != client_id:
            raise InvalidToken("access_token_invalid", "The access token of a third party is good for itself alone.")


async def verify(
    services: Services, call: Call, token: str | None, proof: dpop_proofs.PresentedDpopProof | None = None
) -> Bearer:
    """The bearer of an access token. Raises InvalidToken.

    One that is bound to a key is no bearer token: it counts with `proof`, which is what came with the scheme DPoP, and
    only with that (RFC 9449 section 7). Raises UnprovenToken for a bad one.
    """
    if not token:
        raise InvalidToken("access_token_required", "An access token is required.")
    find_client = clients.client_finder(services)
    verified = await services.tokens.verify_access_token(token, find_client, call.now)
    if isinstance(verified, Rejection):
        if not isinstance(await services.tokens.verify_id_token_hint(token, find_client), Rejection):
            raise InvalidToken("id_token_invalid", "An ID token is no access token.")
        raise InvalidToken(_REASONS[verified], f"The access token is {verified.value}.")
    tenant_id = TenantId(verified.tenant["id"])
    user = await active_users.get_active_user(services, tenant_id, verified.claims["sub"], call.now, InvalidToken)
    if await services.revocations.is_revoked(tenant_id, verified.revocable_ids):
        raise InvalidToken("access_token_invalid", "The access token was revoked.")
    await dpop_proofs.require_binding(services, call, token, verified, proof)
    return Bearer(verified, user)
