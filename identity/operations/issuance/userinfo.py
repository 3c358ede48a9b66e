"""The userinfo endpoint (OpenID Connect Core 5.3): the claims about the user of an access token."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import jwt_claims, step_up
from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InsufficientUserAuthentication, InvalidToken
from identity.instants import numeric_date
from identity.operations.clients import bearer_tokens
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.operations.lambdas import token_lambdas
from identity.services import Services


async def userinfo(
    services: Services, call: Call, token: str | None, dpop_proof: PresentedDpopProof | None = None
) -> Document:
    """Return the claims about the user; `dpop_proof` comes with the authorization scheme DPoP.

    Raises InvalidToken, InvalidDpopProofAtResource and LambdaFailed.
    """
    bearer = await bearer_tokens.verify(services, call, token, dpop_proof, accepts_exchanged=True)
    return await claims_of(services, call, bearer)


async def claims_of(services: Services, call: Call, bearer: Bearer) -> Document:
    """Return the claims about the user of a verified access token. Raises InvalidToken and LambdaFailed.

    Raises InsufficientUserAuthentication if the application requires another login for its tokens here.
    """
    token, application = bearer.token, bearer.token.application
    if jwt_claims.is_strict(application) and scopes.OPENID not in token.scopes:
        raise InvalidToken("missing_required_scope", "The access token lacks the scope openid.")
    if step_up.is_configured(application):
        challenge = step_up.userinfo_challenge(OAuthSettings.of(application), token.claims, numeric_date(call.now))
        if challenge is not None:
            raise InsufficientUserAuthentication(challenge)
    claims = jwt_claims.userinfo_claims(bearer.user, application, token.claims, token.scopes)
    return await token_lambdas.userinfo(services, call, application, bearer.user, token.claims, claims)
