"""The userinfo endpoint (OpenID Connect Core 5.3): what the bearer of an access token may know of its user."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import jwt_claims
from identity.domain.clients import scopes
from identity.errors import InvalidToken
from identity.operations.clients import bearer_tokens, dpop_proofs
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.lambdas import token_lambdas
from identity.services import Services


async def userinfo(
    services: Services, call: Call, token: str | None, proof: dpop_proofs.PresentedDpopProof | None = None
) -> Document:
    """The claims about the user. `proof` is for a token that came with the scheme DPoP.

    Raises InvalidToken, UnprovenToken and LambdaFailed.
    """
    return await claims_of(services, call, await bearer_tokens.verify(services, call, token, proof))


async def claims_of(services: Services, call: Call, found: Bearer) -> Document:
    """The claims about the user of a verified access token. Raises InvalidToken and LambdaFailed."""
    application, granted = found.token.application, found.token.scopes
    if jwt_claims.is_strict(application) and scopes.OPENID not in granted:
        raise InvalidToken("missing_required_scope", "The access token lacks the scope openid.")
    answer = jwt_claims.userinfo_claims(found.user, application, found.token.claims, granted)
    return await token_lambdas.userinfo(services, call, application, found.user, found.token.claims, answer)
