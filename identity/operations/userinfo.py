"""The userinfo endpoint (OpenID Connect Core 5.3): what the bearer of an access token may know of its user."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain import claims, scopes
from identity.errors import InvalidToken
from identity.operations import bearer, dpop, token_lambdas
from identity.operations.bearer import Bearer
from identity.services import Services


async def userinfo(services: Services, call: Call, token: str | None, proof: dpop.Presented | None = None) -> Document:
    """The claims about the user. `proof` is for a token that came with the scheme DPoP.

    Raises InvalidToken, UnprovenToken and LambdaFailed.
    """
    return await claims_of(services, call, await bearer.verify(services, call, token, proof))


async def claims_of(services: Services, call: Call, found: Bearer) -> Document:
    """The claims about the user of a verified access token. Raises InvalidToken and LambdaFailed."""
    application, granted = found.token.application, found.token.scopes
    if claims.is_strict(application) and scopes.OPENID not in granted:
        raise InvalidToken("missing_required_scope", "The access token lacks the scope openid.")
    answer = claims.userinfo_claims(found.user, application, found.token.claims, granted)
    return await token_lambdas.userinfo(services, call, application, found.user, found.token.claims, answer)
